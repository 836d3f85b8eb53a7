//! What does an answer of the store change, or that there is none any more?

use std::time::Duration;

use smallvec::SmallVec;

use super::{Mirror, Newcomer};
use crate::line::sync::Answer;
use crate::line::ticket::Ticket;
use crate::units::Moment;

/// What became of those who asked.
#[derive(Debug, Default)]
pub(in crate::line) struct Placed {
    pub(in crate::line) admitted: Vec<Ticket>,
    pub(in crate::line) refused: Vec<(Ticket, Option<Duration>)>,
    pub(in crate::line) ghosts_refused: u32,
}

impl Mirror {
    /// Whether `number` is the call under way: the answer to an older one is void.
    pub(in crate::line) fn lands(&mut self, number: u64) -> bool {
        self.flying.take_if(|flying| *flying == number).is_some()
    }

    /// Takes in how the bucket stands. False while a call is under way.
    pub(in crate::line) fn seen(&mut self, answer: &Answer) -> bool {
        let idle = self.flying.is_none() && self.attached && self.spent.is_settled();
        if idle {
            self.known = Some(answer.known);
        }
        idle
    }

    /// Whether `number` is the call under way.
    pub(in crate::line) fn is_calling(&self, number: u64) -> bool {
        self.flying == Some(number)
    }

    /// The call of this `number` was outrun by another, or was not answered: what is
    /// so is said anew.
    pub(in crate::line) fn say_again(&mut self, number: u64, now: Moment) {
        if self.lands(number) {
            let mut ghosts = std::mem::take(&mut self.ghosts_asked);
            ghosts.append(&mut self.ghosts);
            self.ghosts = ghosts;
            self.untell_spent();
            self.asked = SmallVec::new();
            self.newcomers.retain(|one| !one.gone);
            self.fresh_since = (!self.newcomers.is_empty()).then_some(now);
            self.must_ask = true;
        }
    }

    /// Takes in what the store answered.
    pub(in crate::line) fn answered(&mut self, answer: &Answer) -> Placed {
        let mut placed = Placed::default();
        let asked = std::mem::take(&mut self.asked);
        self.told_spent(&asked, answer);
        for (run, joined) in asked.iter().zip(&answer.joined) {
            for nth in 0..run.count {
                let Some(one) = self.newcomers.pop_front() else {
                    break;
                };
                match one {
                    Newcomer { gone: true, .. } => (),
                    Newcomer { ticket, .. } if nth < *joined => placed.admitted.push(ticket),
                    Newcomer {
                        ticket, max_wait, ..
                    } => placed.refused.push((ticket, max_wait)),
                }
            }
        }
        let ghosts = std::mem::take(&mut self.ghosts_asked);
        let joined = answer.joined.iter().skip(asked.len());
        let counted = ghosts.iter().zip(joined.copied());
        let counted = counted.map(|(run, joined)| (run, joined.min(run.count)));
        let refused = counted
            .clone()
            .map(|(run, joined)| run.count.saturating_sub(joined));
        placed.ghosts_refused = refused.sum();
        self.returning = 0;
        self.known = Some(answer.known);
        self.length = answer.length;
        self.tickets = answer.tickets;
        self.place = answer.place;
        self.buried = answer.buried;
        // Whoever only counts has used its slot by that.
        let counted: usize = counted.map(|(_, joined)| joined as usize).sum();
        let granted = answer.grants.len().saturating_sub(counted);
        self.grants
            .extend(answer.grants.iter().take(granted).copied());
        placed
    }

    /// From now on the instance goes on by itself: those who have no place yet.
    pub(in crate::line) fn detach(&mut self) -> Vec<(Ticket, Option<Duration>)> {
        self.attached = false;
        self.forget_spent();
        // A call that was not answered may have been heard all the same.
        let unsure = self.flying.take().is_some();
        self.returning = 0;
        self.tickets = self.tickets.max(usize::from(unsure));
        self.asked = SmallVec::new();
        self.ghosts = SmallVec::new();
        self.ghosts_asked = SmallVec::new();
        self.fresh_since = None;
        let newcomers = std::mem::take(&mut self.newcomers).into_iter();
        newcomers
            .filter(|one| !one.gone)
            .map(|one| (one.ticket, one.max_wait))
            .collect()
    }

    /// The line is the store's again; here it had come to `owed`.
    pub(in crate::line) fn attach(&mut self, owed: Moment) {
        self.attached = true;
        self.flying = None;
        self.owed = Some(owed);
        self.must_ask = true;
        self.length = 0;
        self.tickets = 0;
        self.place = None;
        self.retry = None;
    }
}
