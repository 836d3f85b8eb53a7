//! How did the requests of all instances leave, as the backend felt them?

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::backend::Arrival;
use crate::crowd::{Visit, instance};
use crate::stats::{milliseconds, number};

/// One request that reached the backend.
#[derive(Clone, Copy, Debug)]
struct Departure {
    /// Since the run began.
    at: Duration,
    sent: Duration,
    number: u32,
}

impl Departure {
    fn instance(&self) -> u32 {
        instance(self.number)
    }

    /// In seconds.
    fn waited(&self) -> f64 {
        self.at.abs_diff(self.sent).as_secs_f64()
    }
}

/// All that reached the backend, in the order in which it came.
#[derive(Clone, Debug)]
pub(crate) struct Departures(Vec<Departure>);

impl Departures {
    /// Those of one line: what was alone with its key is left out.
    pub(crate) fn of(begun: Instant, arrivals: &[Arrival], visits: &[Visit]) -> Self {
        let sent: HashMap<u32, Instant> = visits
            .iter()
            .filter(|visit| !visit.is_alone())
            .map(|visit| (visit.number, visit.sent))
            .collect();
        let departure = |arrival: &Arrival| {
            let number = arrival.number?;
            Some(Departure {
                at: arrival.at.duration_since(begun),
                sent: sent.get(&number)?.duration_since(begun),
                number,
            })
        };
        Self(arrivals.iter().filter_map(departure).collect())
    }

    pub(crate) fn between(&self, from: Duration, to: Duration) -> Self {
        let inside = self.0.iter().filter(|one| (from..to).contains(&one.at));
        Self(inside.copied().collect())
    }

    pub(crate) fn count(&self) -> f64 {
        number(self.0.len().try_into().unwrap_or(u64::MAX))
    }

    /// What part of all an instance let go, in percent.
    pub(crate) fn share(&self, instance: u32) -> f64 {
        let own = self.0.iter().filter(|one| one.instance() == instance);
        number(own.count().try_into().unwrap_or(u64::MAX)) / self.count() * 100.0
    }

    /// The most within any window of this length.
    pub(crate) fn most_in(&self, window: Duration) -> f64 {
        let mut inside = VecDeque::new();
        let mut most = 0;
        for one in &self.0 {
            inside.push_back(one.at);
            while inside.front().is_some_and(|at| *at + window <= one.at) {
                inside.pop_front();
            }
            most = most.max(inside.len());
        }
        number(most.try_into().unwrap_or(u64::MAX))
    }

    /// Those that left before one which had been sent earlier, by more than `blur`, in percent.
    pub(crate) fn overtaking(&self, blur: Duration) -> f64 {
        let mut earliest = Duration::MAX;
        let mut overtaking = 0_u64;
        for one in self.0.iter().rev() {
            overtaking += u64::from(earliest.saturating_add(blur) < one.sent);
            earliest = earliest.min(one.sent);
        }
        number(overtaking) / self.count() * 100.0
    }

    /// How long those that an instance let go had waited, in the mean, in seconds.
    pub(crate) fn mean_wait(&self, instance: u32) -> f64 {
        let own = self.0.iter().filter(|one| one.instance() == instance);
        let waits: Vec<f64> = own.map(Departure::waited).collect();
        waits.iter().sum::<f64>() / number(waits.len().try_into().unwrap_or(u64::MAX))
    }

    /// How many came that had come before.
    pub(crate) fn twice(&self) -> f64 {
        let mut seen = HashSet::new();
        let again = self.0.iter().filter(|one| !seen.insert(one.number));
        number(again.count().try_into().unwrap_or(u64::MAX))
    }

    /// The longest time in which none left, between the first and the last, in milliseconds.
    pub(crate) fn longest_gap(&self) -> f64 {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let gaps = pairs.map(|(one, next)| milliseconds(next.at.abs_diff(one.at)));
        gaps.fold(0.0, f64::max)
    }
}
