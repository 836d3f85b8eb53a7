//! What happened in an act, and when?

use std::time::Duration;

/// What one request came to, as whoever saw it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its client sent it.
    Sent,
    /// Its client was refused, and told after how many seconds to come back.
    Refused(Option<u64>),
    /// The backend got it.
    Arrived,
}

/// All steps of an act, each with its time since the act began.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene(Vec<(Duration, Step)>);

/// Steps close together: the first one's time, the last one's, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) first: Duration,
    pub(super) last: Duration,
    pub(super) count: usize,
}

impl Scene {
    /// Adds a step. Those of several threads may come a little out of order.
    pub(super) fn note(&mut self, at: Duration, step: Step) {
        let place = self.0.partition_point(|(before, _)| *before <= at);
        self.0.insert(place, (at, step));
    }

    /// When requests were sent, the earliest first.
    pub(super) fn sent(&self) -> Vec<Duration> {
        self.times(|step| step == Step::Sent)
    }

    /// When requests were refused, the earliest first.
    pub(super) fn refused(&self) -> Vec<Duration> {
        self.times(|step| matches!(step, Step::Refused(_)))
    }

    /// When requests came to the backend, the earliest first.
    pub(super) fn arrived(&self) -> Vec<Duration> {
        self.times(|step| step == Step::Arrived)
    }

    /// What those who were refused were told, in the order in which they were.
    pub(super) fn told(&self) -> Vec<Option<u64>> {
        let told = self.0.iter().filter_map(|(_, step)| match step {
            Step::Refused(told) => Some(*told),
            Step::Sent | Step::Arrived => None,
        });
        told.collect()
    }

    /// How many were on their way at `at`: sent, neither refused nor arrived.
    pub(super) fn waiting(&self, at: Duration) -> usize {
        let until = self.0.iter().take_while(|(time, _)| *time <= at);
        until.fold(0_usize, |waiting, (_, step)| match step {
            Step::Sent => waiting.saturating_add(1),
            Step::Refused(_) | Step::Arrived => waiting.saturating_sub(1),
        })
    }

    fn times(&self, which: impl Fn(Step) -> bool) -> Vec<Duration> {
        let chosen = self.0.iter().filter(|(_, step)| which(*step));
        chosen.map(|(at, _)| *at).collect()
    }
}

/// Sums up `times`, in order: what comes less than `apart` after the one before
/// belongs to it.
pub(super) fn clusters(times: &[Duration], apart: Duration) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for at in times.iter().copied() {
        match clusters.last_mut() {
            Some(cluster) if at.saturating_sub(cluster.last) < apart => {
                cluster.last = at;
                cluster.count += 1;
            }
            _ => clusters.push(Cluster {
                first: at,
                last: at,
                count: 1,
            }),
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn whoever_was_sent_and_not_answered_waits() {
        let mut scene = Scene::default();
        scene.note(MS, Step::Sent);
        scene.note(MS, Step::Sent);
        scene.note(MS * 9, Step::Arrived);
        scene.note(MS * 3, Step::Refused(Some(1)));
        let waiting = [0, 1, 3, 8, 9].map(|at| scene.waiting(MS * at));
        assert_eq!(waiting, [0, 2, 1, 1, 0]);
        assert_eq!(scene.told(), [Some(1)]);
    }

    #[test]
    fn what_comes_together_is_one_cluster() {
        let found = clusters(&[MS, MS * 3, MS * 5, MS * 20], MS * 4);
        let found: Vec<_> = found.iter().map(|one| (one.first, one.count)).collect();
        assert_eq!(found, [(MS, 3), (MS * 20, 1)]);
    }
}
