//! Is a promised slot used, given back, or gone?

use std::time::Duration;

use super::Mirror;
use crate::line::pace::Pace;
use crate::line::sync::Grant;
use crate::units::Moment;

/// How late a promised slot may be used: so much, or a quarter of a longer interval,
/// at most `SLOW`. Later than this it is gone.
const LATEST: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(50);

impl Mirror {
    /// The slot of `number` is used.
    pub(in crate::line) fn settle(&mut self, number: u64) {
        self.lent.retain(|grant| grant.number != number);
    }

    /// The slot of `number` will not be used by the one who had it: where someone
    /// is `wanted` it may still be in time for another.
    pub(in crate::line) fn give_back(
        &mut self,
        pace: &Pace,
        number: u64,
        wanted: bool,
        now: Moment,
    ) {
        let Some(found) = self.lent.iter().position(|grant| grant.number == number) else {
            return;
        };
        let grant = self.lent.remove(found);
        if wanted && now.since(grant.slot) <= latest(pace) {
            self.grants.push_front(grant);
        } else {
            self.returned.push(number);
        }
    }

    /// Slots for which nobody is left.
    pub(in crate::line) fn trim(&mut self, ready: usize) {
        while self.grants.len() > ready {
            let spare = self.grants.pop_back();
            self.returned.extend(spare.map(|grant| grant.number));
        }
    }

    /// The slot that is due, if it is not too late for it.
    pub(in crate::line) fn take(&mut self, pace: &Pace, now: Moment) -> Option<Grant> {
        while let Some(grant) = self.grants.front().copied() {
            if grant.slot > now {
                return None;
            }
            self.grants.pop_front();
            // Where nobody waits a slot is only leave to pass.
            if !pace.has_line() || now.since(grant.slot) <= latest(pace) {
                self.misses = 0;
                self.lent.push(grant);
                return Some(grant);
            }
            self.misses = self.misses.saturating_add(1);
            self.missed = self.missed.saturating_add(1);
            self.returned.push(grant.number);
        }
        None
    }

    /// How many slots came too late since this was last asked.
    pub(in crate::line) fn missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

pub(super) fn latest(pace: &Pace) -> Duration {
    let quarter = pace.interval().checked_div(4).unwrap_or_default();
    LATEST.max(quarter.min(SLOW))
}
