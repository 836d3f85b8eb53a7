//! How did the requests of all instances leave, as the backend felt them?

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::instances::INSTANCE;
use super::{Backend, Seen, Visit, ms};

/// By how much the order in which clients send is not that in which instances
/// hear of them.
const BLUR: Duration = ms(25);

/// What reached the backend, in the order in which it came.
#[derive(Debug)]
pub(crate) struct Departures(Vec<Seen>);

impl Departures {
    /// All that came so far.
    pub(crate) fn to(backend: &Backend) -> Self {
        let mut all = backend.seen();
        all.sort_by_key(|seen| seen.at);
        Self(all)
    }

    /// Those alone that came between two instants.
    pub(crate) fn between(&self, from: Instant, to: Instant) -> Self {
        let inside = self.0.iter().filter(|seen| from <= seen.at && seen.at < to);
        Self(inside.cloned().collect())
    }

    pub(crate) const fn count(&self) -> usize {
        self.0.len()
    }

    /// Those that an instance forwarded.
    pub(crate) fn by(&self, instance: &str) -> usize {
        let own = |seen: &&Seen| seen.header(INSTANCE) == Some(instance);
        self.0.iter().filter(own).count()
    }

    /// The most that came within any window of this length.
    pub(crate) fn most_in(&self, window: Duration) -> usize {
        let mut inside = VecDeque::new();
        let mut most = 0;
        for seen in &self.0 {
            inside.push_back(seen.at);
            while inside.front().is_some_and(|at| *at + window <= seen.at) {
                inside.pop_front();
            }
            most = most.max(inside.len());
        }
        most
    }

    /// The longest time in which nothing came, between the first and the last.
    pub(crate) fn longest_gap(&self) -> Duration {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let gaps = pairs.map(|(one, next)| next.at.duration_since(one.at));
        gaps.max().unwrap_or_default()
    }

    /// The share of those before whom someone left who had come later.
    pub(crate) fn overtaken(&self, visits: &[Visit]) -> f64 {
        let sent = sent(visits);
        let mut latest: Option<Instant> = None;
        let mut overtaken = 0_u32;
        for seen in &self.0 {
            let sent = *sent.get(seen.target()).expect("a visit");
            overtaken += u32::from(latest.is_some_and(|latest| latest > sent + BLUR));
            latest = latest.max(Some(sent));
        }
        f64::from(overtaken) / self.many()
    }

    /// How long those whom an instance forwarded had waited, in the mean, in seconds.
    pub(crate) fn mean_wait(&self, instance: &str, visits: &[Visit]) -> f64 {
        let sent = sent(visits);
        let own = |seen: &&Seen| seen.header(INSTANCE) == Some(instance);
        let waits = self.0.iter().filter(own);
        let waits: Vec<_> = waits
            .map(|seen| {
                let sent = sent.get(seen.target()).expect("a visit");
                seen.at.duration_since(*sent).as_secs_f64()
            })
            .collect();
        assert!(!waits.is_empty(), "{instance} forwarded nothing");
        waits.iter().sum::<f64>() / f64::from(u32::try_from(waits.len()).expect("few"))
    }

    /// What came more than once.
    pub(crate) fn twice(&self) -> Vec<&str> {
        let mut times = BTreeMap::new();
        for seen in &self.0 {
            *times.entry(seen.target()).or_insert(0) += 1;
        }
        let twice = times.into_iter().filter(|(_, times)| *times > 1);
        twice.map(|(target, _)| target).collect()
    }

    fn many(&self) -> f64 {
        f64::from(u32::try_from(self.count()).expect("few"))
    }
}

/// When each target was sent.
fn sent(visits: &[Visit]) -> BTreeMap<&str, Instant> {
    let sent = visits
        .iter()
        .map(|visit| (visit.target.as_str(), visit.sent));
    sent.collect()
}
