//! Which slots may yet come back, and what is owed once they do?
//!
//! A slot is lent to a request that is not served yet: it waits in the next
//! limit's line, or for its upstream. If its client leaves, the bucket must be
//! as if that request had never come. Subtracting an interval would give too
//! much wherever the bucket stood idle since, so the ledger keeps what went out
//! since the oldest open loan and works `next` out anew.

use std::collections::VecDeque;

use super::pace::{Pace, Slot, Taken};
use crate::units::Moment;

/// Slots in the hand of a request that has not been served yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loan {
    /// One of the bucket's own.
    Own(u64),
    /// Such as the store promised.
    Shared(u64),
}

/// How a slot was used.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    OnArrival,
    /// By one who waited; its slots count from this on.
    InTurn(Moment),
}

#[derive(Debug)]
struct Exit {
    loan: Loan,
    at: Moment,
    use_: Use,
    cost: u32,
    open: bool,
    /// Whether its holder has it in hand: a promise is on its way for a moment.
    claimed: bool,
}

/// What went out since the oldest loan that is still open.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    before: Option<Slot>,
    exits: VecDeque<Exit>,
    lent: u64,
    unclaimed: usize,
}

impl Ledger {
    pub(super) fn is_empty(&self) -> bool {
        self.exits.is_empty()
    }

    /// Whether a promise is on its way to someone.
    pub(super) fn is_promising(&self) -> bool {
        self.unclaimed > 0
    }

    /// The holder of `loan` has it in hand.
    pub(super) fn claim(&mut self, loan: Loan) {
        let found = self
            .exits
            .binary_search_by_key(&loan, |exit| exit.loan)
            .ok();
        if let Some(exit) = found.and_then(|found| self.exits.get_mut(found)) {
            let arrived = !std::mem::replace(&mut exit.claimed, true);
            self.unclaimed = self.unclaimed.saturating_sub(usize::from(arrived));
        }
    }

    /// Notes `cost` slots that went out for good.
    pub(super) fn spend(&mut self, at: Moment, use_: Use, cost: u32) {
        if !self.exits.is_empty() {
            self.write(at, use_, cost, false);
        }
    }

    /// Notes `cost` slots that may come back; `next` is what it was before.
    pub(super) fn lend(&mut self, next: Slot, at: Moment, use_: Use, cost: u32) -> Loan {
        if self.exits.is_empty() {
            self.before = Some(next);
        }
        self.write(at, use_, cost, true)
    }

    /// The request of `loan` was served.
    pub(super) fn settle(&mut self, pace: &Pace, loan: Loan) {
        self.claim(loan);
        if let Ok(found) = self.exits.binary_search_by_key(&loan, |exit| exit.loan) {
            if let Some(exit) = self.exits.get_mut(found) {
                exit.open = false;
            }
            self.close(pace);
        }
    }

    /// The request of `loan` will not be served: what `next` would be had it
    /// never come; `None` where the loan isn't open.
    pub(super) fn give_back(&mut self, pace: &Pace, loan: Loan) -> Option<Slot> {
        self.claim(loan);
        let found = self
            .exits
            .binary_search_by_key(&loan, |exit| exit.loan)
            .ok()?;
        self.exits.get(found).filter(|exit| exit.open)?;
        self.exits.remove(found);
        let before = self.before?;
        let next = self
            .exits
            .iter()
            .fold(before, |next, exit| exit.apply(pace, next));
        self.close(pace);
        Some(next)
    }

    fn write(&mut self, at: Moment, use_: Use, cost: u32, open: bool) -> Loan {
        // As with tickets, numbers go on from the clock.
        self.lent = self.lent.saturating_add(1).max(at.as_micros());
        let loan = Loan::Own(self.lent);
        let claimed = !(open && matches!(use_, Use::InTurn(_)));
        self.unclaimed = self.unclaimed.saturating_add(usize::from(!claimed));
        self.exits.push_back(Exit {
            loan,
            at,
            use_,
            cost,
            open,
            claimed,
        });
        loan
    }

    /// Forgets what went out before the oldest open loan.
    fn close(&mut self, pace: &Pace) {
        while let Some(exit) = self.exits.pop_front_if(|exit| !exit.open) {
            self.before = self.before.map(|next| exit.apply(pace, next));
        }
    }
}

impl Exit {
    fn apply(&self, pace: &Pace, next: Slot) -> Slot {
        match self.use_ {
            Use::OnArrival => pace.take_on_arrival(next, self.at, self.cost),
            Use::InTurn(held) => {
                let Taken { next, .. } = pace.take_in_turn(next, held, self.at, self.cost);
                next
            }
        }
    }
}
