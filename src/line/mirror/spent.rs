//! What has passed here by what the last answer had left, and does the store know it?
//!
//! Where a limit allows it, requests between two calls are let pass or refused by the
//! last answer and what has passed here since. The next call says how much that was;
//! the store counts it whatever it comes to.

use std::time::Duration;

use super::Mirror;
use crate::line::sync::{Answer, Grant, Run, Unused};
use crate::units::Moment;

/// Numbers of slots that the store has not numbered yet: nobody told it of them, or the
/// call that does is under way.
const UNTOLD: u64 = 0;
const TELLING: u64 = u64::MAX;

/// Slots that were used here without asking.
#[derive(Debug, Default)]
pub(super) struct Spent {
    untold: u32,
    telling: u32,
    /// Of what the call under way tells, so much was not used after all.
    regretted: u32,
    /// When the call began that was answered last.
    heard: Option<Moment>,
    /// Whether somebody will see to it that it is told.
    settling: bool,
}

impl Spent {
    pub(super) fn is_settled(&self) -> bool {
        self.untold == 0 && self.telling == 0
    }

    /// Whether it must be told now.
    pub(super) fn is_overdue(&self) -> bool {
        self.untold > 0 && !self.settling
    }

    /// What had not been told in numbers, and was not used after all. False where it is
    /// none of it.
    pub(super) fn comes_back(&mut self, grant: Grant) -> bool {
        match grant.number {
            UNTOLD => self.untold = self.untold.saturating_sub(grant.count),
            TELLING => self.regretted = self.regretted.saturating_add(grant.count),
            _ => return false,
        }
        true
    }
}

impl Mirror {
    /// Whether the last answer is no older than `sync`.
    pub(in crate::line) fn knows_since(&self, sync: Duration, now: Moment) -> bool {
        let heard = self.spent.heard.filter(|_| self.attached);
        heard.is_some_and(|heard| now.since(heard) < sync)
    }

    /// So many slots are used without asking: the loan, and whether the caller must see
    /// to it that this is told.
    pub(in crate::line) fn spend(&mut self, cost: u32, now: Moment) -> (u64, bool) {
        self.spent.untold = self.spent.untold.saturating_add(cost);
        self.lends = self.lends.saturating_add(1);
        let grant = Grant {
            number: UNTOLD,
            slot: now,
            count: cost,
        };
        self.lent.push((self.lends, grant));
        let must_settle = !std::mem::replace(&mut self.spent.settling, true);
        (self.lends, must_settle)
    }

    /// How many slots no call has told of yet.
    pub(in crate::line) fn untold(&self) -> u32 {
        self.spent.untold
    }

    /// What has passed here is to be told now.
    pub(in crate::line) fn settle_up(&mut self) {
        self.spent.settling = false;
    }

    pub(super) fn tell_spent(&mut self) -> u32 {
        self.renumber(UNTOLD, TELLING);
        self.spent.telling = std::mem::take(&mut self.spent.untold);
        self.spent.telling
    }

    /// The call was answered: the store has numbered what it was told, before those who
    /// `asked`.
    pub(super) fn told_spent(&mut self, asked: &[Run], answer: &Answer) {
        let asked = asked.iter().chain(&self.ghosts_asked).zip(&answer.joined);
        let slots =
            |(run, joined): (&Run, &u32)| u64::from(run.cost).saturating_mul((*joined).into());
        let number = answer.known.number.saturating_sub(asked.map(slots).sum());
        self.renumber(TELLING, number);
        let regretted = std::mem::take(&mut self.spent.regretted);
        if regretted > 0 {
            self.returned.push(Unused {
                number,
                count: regretted,
            });
        }
        self.spent.telling = 0;
        self.spent.heard = Some(self.called);
    }

    /// The call was not answered: better told twice than not at all.
    pub(super) fn untell_spent(&mut self) {
        self.renumber(TELLING, UNTOLD);
        let regretted = std::mem::take(&mut self.spent.regretted);
        let telling = std::mem::take(&mut self.spent.telling);
        let again = telling.saturating_sub(regretted);
        self.spent.untold = self.spent.untold.saturating_add(again);
        self.spent.heard = None;
    }

    /// The bucket goes by itself from here: what has passed is in its own count.
    pub(super) fn forget_spent(&mut self) {
        let is_known = |grant: &Grant| ![UNTOLD, TELLING].contains(&grant.number);
        self.lent.retain(|(_, grant)| is_known(grant));
        self.spent = Spent::default();
    }

    fn renumber(&mut self, from: u64, to: u64) {
        let grants = self.lent.iter_mut().map(|(_, grant)| grant);
        for grant in grants.filter(|grant| grant.number == from) {
            grant.number = to;
        }
    }
}
