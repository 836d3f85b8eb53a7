//! Is a newcomer admitted to a bucket as it stands, and when is its turn?

use std::time::Duration;

use super::pace::{Pace, Slot};
use crate::units::{Moment, Remaining};

/// What a bucket answers to a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is a place, and its turn comes after this long.
    Admitted(Duration),
    /// There is none.
    Refused(Crowded),
}

/// Why there is no place, and how long until there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// Every place is taken.
    Full(Duration),
    /// The wait would be longer than is allowed.
    MaxWait(Duration),
}

/// What the wait of a newcomer depends on, besides its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) next: Slot,
    /// How many slots those need who wait.
    pub(super) waiting: usize,
    /// How many the newcomer needs.
    pub(super) cost: u32,
    /// Who gathers its slots, if anyone: since when, and how many but the last.
    pub(super) gathering: Option<(Moment, u32)>,
    pub(super) hold: Moment,
    pub(super) now: Moment,
    pub(super) max_wait: Option<Duration>,
}

impl Pace {
    /// Whether a newcomer is admitted, and how long until its turn or a place. Of the
    /// slots that it needs, its turn is the last.
    pub(super) fn verdict(&self, load: &Load) -> Verdict {
        let now = self.at(load.now);
        let before = u64::from(load.cost.saturating_sub(1));
        let line = self.intervals((load.waiting as u64).saturating_add(before));
        let next = self.free(load);
        // While it is held nobody goes, but idle credit grows on.
        let held = next.max(self.floor(load.hold));
        let turn = held.saturating_add(line).max(self.at(load.hold));
        let wait = self.span(turn.saturating_sub(now));
        let too_long = load
            .max_wait
            .map_or(Duration::ZERO, |most| wait.saturating_sub(most));
        let bound = now.saturating_add(self.bound());
        if next.saturating_add(line) > bound {
            // A held line frees a place only when the hold ends.
            let ahead = (load.waiting as u64).saturating_add(before);
            let first = if ahead > u64::from(self.burst()) {
                held
            } else {
                next
            };
            let place = first.saturating_add(line).saturating_sub(bound);
            return Verdict::Refused(Crowded::Full(self.span(place).max(too_long)));
        }
        if too_long > Duration::ZERO {
            return Verdict::Refused(Crowded::MaxWait(too_long));
        }
        Verdict::Admitted(wait)
    }

    /// What would be admitted if it came now.
    pub(super) fn remaining(&self, load: &Load) -> Remaining {
        let now = self.at(load.now);
        let line = self.intervals(load.waiting as u64);
        let next = self.free(load);
        let room = |first: u128, bound: u128| {
            now.saturating_add(bound)
                .checked_sub(first.saturating_add(line))
                .and_then(|spare| spare.checked_div(self.intervals(1)))
                .map_or(0, |more| more.saturating_add(1))
        };
        let most = match load.max_wait {
            None => u128::MAX,
            Some(most) if load.hold.since(load.now) > most => 0,
            Some(most) => room(next.max(self.floor(load.hold)), self.duration(most)),
        };
        let admits = room(next, self.bound()).min(most);
        let last = next
            .saturating_add(line)
            .saturating_add(self.intervals(u64::from(self.delay())));
        Remaining {
            admits: u64::try_from(admits).unwrap_or(u64::MAX),
            free_in: match self.verdict(load) {
                Verdict::Admitted(_) => Duration::ZERO,
                Verdict::Refused(Crowded::Full(free) | Crowded::MaxWait(free)) => free,
            },
            idle_in: self
                .span(last.saturating_sub(now))
                .max(load.hold.since(load.now)),
        }
    }

    /// The first slot that is anyone's: what went by is gone, but for those that the
    /// first in line has gathered since it came.
    fn free(&self, load: &Load) -> u128 {
        let floor = self.floor(load.now);
        let gathered = load.gathering.map(|(since, slots)| {
            let behind = floor.saturating_sub(self.intervals(u64::from(slots)));
            behind.max(self.floor(since.max(load.hold).min(load.now)))
        });
        self.ticks(load.next).max(gathered.unwrap_or(floor))
    }
}
