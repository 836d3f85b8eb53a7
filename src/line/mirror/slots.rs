//! Is a promised slot used, given back, or gone?

use std::time::Duration;

use super::Mirror;
use crate::line::pace::Pace;
use crate::line::sync::{Grant, Unused};
use crate::units::Moment;

/// How late a promised slot may be used: so much, or a quarter of a longer interval,
/// at most `SLOW`. Later than this it is gone.
const LATEST: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(50);

impl Mirror {
    /// The slots of `loan` are used.
    pub(in crate::line) fn settle(&mut self, loan: u64) {
        self.lent.retain(|(lent, _)| *lent != loan);
    }

    /// The slots of `loan` will not be used by the one who had them: where someone
    /// is `wanted` they may still be in time for another.
    pub(in crate::line) fn give_back(&mut self, pace: &Pace, loan: u64, wanted: bool, now: Moment) {
        while let Some(found) = self.lent.iter().rposition(|(lent, _)| *lent == loan) {
            let (_, grant) = self.lent.remove(found);
            if self.spent.comes_back(grant) {
                continue;
            }
            if wanted && now.since(grant.slot) <= latest(pace) {
                self.grants.push_front(grant);
            } else {
                self.returned.push(unused(grant));
            }
        }
    }

    /// Slots beyond those that are needed: nobody is left for them.
    pub(in crate::line) fn trim(&mut self, needed: usize) {
        let returned = &mut self.returned;
        self.grants
            .trim(needed, |spare| returned.push(unused(spare)));
    }

    /// The first `cost` slots, once the last of them is due: the loan, and when that
    /// was. One that is too late by then is gone, and the next takes its place.
    pub(in crate::line) fn take(
        &mut self,
        pace: &Pace,
        cost: u32,
        now: Moment,
    ) -> Option<(u64, Moment)> {
        while let Some(due) = self.grants.due(cost).filter(|due| *due <= now) {
            // Where nobody waits a slot is only leave to pass.
            if !pace.has_line() || now.since(due) <= latest(pace) {
                self.misses = 0;
                self.lends = self.lends.saturating_add(1);
                let (loan, lent) = (self.lends, &mut self.lent);
                self.grants.take(cost, |grant| lent.push((loan, grant)));
                return Some((loan, due));
            }
            self.misses = self.misses.saturating_add(1);
            self.missed = self.missed.saturating_add(1);
            let late = self.grants.remove_last_of(cost);
            self.returned.extend(late.map(unused));
        }
        None
    }

    /// How many slots came too late since this was last asked.
    pub(in crate::line) fn missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

fn unused(grant: Grant) -> Unused {
    Unused {
        number: grant.number,
        count: grant.count,
    }
}

pub(super) fn latest(pace: &Pace) -> Duration {
    let quarter = pace.interval().checked_div(4).unwrap_or_default();
    LATEST.max(quarter.min(SLOW))
}
