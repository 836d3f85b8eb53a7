//! Who waits in this bucket, and whose turn is it?

use std::time::Duration;

use super::ledger::{Ledger, Loan, Use};
use super::load::{Load, Verdict};
use super::mirror::Mirror;
use super::pace::{Pace, Slot, Taken};
use super::queue::Queue;
use super::ticket::{Promise, Ticket};
use crate::units::{Moment, Remaining};

/// One key's state in one limit. `T` is how a waiting request is reached.
///
/// A bucket that nobody waits in is one slot; the rest is allocated with the
/// first one who waits and dropped with the last.
#[derive(Debug)]
pub struct Bucket<T> {
    pub(super) next: Slot,
    pub(super) line: Option<Box<Line<T>>>,
}

#[derive(Debug)]
pub(super) struct Line<T> {
    pub(super) ready: Queue<T>,
    /// Those who cannot go, whatever the slots: they keep their places.
    pub(super) blocked: Queue<T>,
    ledger: Ledger,
    pub(super) hold: Moment,
    /// Until when it is paused, as it was last told.
    pub(super) paused: Moment,
    /// The text of its key, for people, while somebody waits.
    pub(super) label: Option<Box<str>>,
    pub(super) armed: Option<Moment>,
    joined: u64,
    /// Where other instances share the bucket: this one's part of it.
    pub(super) mirror: Option<Box<Mirror>>,
}

/// Of a longer line, nobody counts the places before one who leaves.
const COUNTED: usize = 256;

impl<T> Bucket<T> {
    /// A bucket to which nobody has come.
    pub fn new(pace: &Pace, now: Moment) -> Self {
        Self {
            next: pace.fresh(now),
            line: None,
        }
    }

    /// Whether the bucket is as if nobody had come: it can be forgotten.
    pub fn is_idle(&self, pace: &Pace, now: Moment) -> bool {
        pace.is_fresh(self.next, now) && self.line.as_ref().is_none_or(|line| line.is_spent(now))
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.line.as_ref().map_or(0, |line| {
            line.ready.len().saturating_add(line.blocked.len())
        })
    }

    /// The next free slot, as far as is known here.
    pub fn next(&self) -> Moment {
        self.next.at()
    }

    /// Since when the one who waits longest has waited.
    pub fn oldest(&self) -> Option<Moment> {
        let line = self.line.as_ref()?;
        let ready = line.ready.first().map(|(ticket, _)| ticket.joined());
        let blocked = line.blocked.first().map(|(ticket, _)| ticket.joined());
        ready.into_iter().chain(blocked).min()
    }

    /// Whether a request that arrives and needs `cost` slots is admitted.
    pub fn verdict(
        &self,
        pace: &Pace,
        cost: u32,
        now: Moment,
        max_wait: Option<Duration>,
    ) -> Verdict {
        pace.verdict(&self.load(pace, cost, now, max_wait))
    }

    /// How many slots are free for whoever comes now, and when `cost` of them are.
    pub fn remaining(
        &self,
        pace: &Pace,
        cost: u32,
        now: Moment,
        max_wait: Option<Duration>,
    ) -> Remaining {
        pace.remaining(&self.load(pace, cost, now, max_wait))
    }

    /// Whether an admitted request may go at once: the last of its `cost` slots has
    /// come and no one is before it who could go.
    pub fn goes_at_once(&self, pace: &Pace, cost: u32, now: Moment) -> bool {
        let before = cost.saturating_sub(1) as usize;
        let due = || pace.slot_after(pace.no_earlier(self.next, now), before);
        !pace.has_line()
            || (due() <= now && self.line.as_ref().is_none_or(|line| line.is_clear(now)))
    }

    /// Uses `cost` slots for good, for a request that goes at once.
    pub fn take(&mut self, pace: &Pace, cost: u32, now: Moment) {
        self.next = pace.take_on_arrival(self.next, now, cost);
        if let Some(line) = &mut self.line {
            line.ledger.spend(now, Use::OnArrival, cost);
        }
    }

    /// Uses `cost` slots for a request that goes at once but isn't served yet.
    pub fn lend(&mut self, pace: &Pace, cost: u32, now: Moment) -> Loan {
        let before = self.next;
        self.next = pace.take_on_arrival(before, now, cost);
        self.open().ledger.lend(before, now, Use::OnArrival, cost)
    }

    /// A place at the tail for one who needs `cost` slots.
    pub fn join(&mut self, cost: u32, now: Moment, waiter: T) -> Ticket {
        let line = self.open();
        let ticket = line.ticket(cost, now);
        line.ready.insert(ticket, waiter);
        ticket
    }

    /// A place at the tail for one who cannot go yet, whatever the slots.
    pub fn join_blocked(&mut self, cost: u32, now: Moment, waiter: T) -> Ticket {
        let line = self.open();
        let ticket = line.ticket(cost, now);
        line.blocked.insert(ticket, waiter);
        ticket
    }

    /// Frees a place: all behind it move up. False where it was free already.
    pub fn leave(&mut self, ticket: Ticket, now: Moment) -> bool {
        let Some(line) = &mut self.line else {
            return false;
        };
        if let Some(mirror) = &mut line.mirror {
            let before = line.ready.slots_before(ticket, COUNTED);
            if line.ready.contains(ticket) && mirror.part(ticket) {
                mirror.left(before.saturating_add(1), ticket.cost(), now);
            }
        }
        let left = line.ready.remove(ticket).is_some() || line.blocked.remove(ticket).is_some();
        if let Some(mirror) = &mut line.mirror {
            mirror.trim(line.ready.slots());
        }
        self.tidy(now);
        left
    }

    /// The first who could go.
    pub fn first(&self) -> Option<&T> {
        let (_, waiter) = self.line.as_ref()?.ready.first()?;
        Some(waiter)
    }

    /// When the next one may go; `None` while no one waits who could.
    pub fn due(&self, pace: &Pace) -> Option<Moment> {
        let line = self.line.as_ref()?;
        let (first, _) = line.ready.first()?;
        let (cost, joined) = (first.cost(), first.joined());
        if let Some(mirror) = &line.mirror {
            let granted = mirror.grants.due(cost);
            if mirror.attached || granted.is_some() {
                return granted;
            }
        }
        let held = line.held();
        let from = pace.no_earlier(self.next, held.max(joined));
        let last = pace.slot_after(from, cost.saturating_sub(1) as usize);
        Some(last.max(held))
    }

    /// Lends the slots that are due to the first who can go.
    pub fn promise(&mut self, pace: &Pace, now: Moment) -> Option<Promise<T>> {
        if let Some(promise) = self.promise_granted(pace, now) {
            return Some(promise);
        }
        if self.is_attached() {
            return None;
        }
        let due = self.due(pace).filter(|due| *due <= now)?;
        let held = self.held();
        let line = self.line.as_mut()?;
        let (ticket, waiter) = line.ready.pop_first()?;
        let from = held.max(ticket.joined());
        let use_ = Use::InTurn(from);
        let loan = line.ledger.lend(self.next, now, use_, ticket.cost());
        let Taken { next, missed } = pace.take_in_turn(self.next, from, now, ticket.cost());
        self.next = next;
        Some(Promise {
            ticket,
            waiter,
            loan,
            due,
            missed,
        })
    }

    /// The one to whom the slot of `loan` was promised has it in hand.
    pub fn claim(&mut self, loan: Loan) {
        if let Some(line) = &mut self.line {
            line.ledger.claim(loan);
        }
    }

    /// The slot of `loan` was used.
    pub fn settle(&mut self, pace: &Pace, loan: Loan, now: Moment) {
        if let Some(line) = &mut self.line {
            match (loan, &mut line.mirror) {
                (Loan::Shared(number), Some(mirror)) => mirror.settle(number),
                _ => line.ledger.settle(pace, loan),
            }
        }
        self.tidy(now);
    }

    /// The slot of `loan` will not be used: the bucket is as if it had never been lent.
    pub fn give_back(&mut self, pace: &Pace, loan: Loan, now: Moment) {
        if let Loan::Shared(number) = loan {
            self.give_back_granted(pace, number, now);
        } else if let Some(next) = self
            .line
            .as_mut()
            .and_then(|line| line.ledger.give_back(pace, loan))
        {
            // Under a new, slower pace the same history would come to more.
            self.next = self.next.min(next);
        }
        self.tidy(now);
    }

    /// The slot of `loan` can't be used now: its holder is back in its place,
    /// and others may go.
    pub fn step_back(&mut self, pace: &Pace, ticket: Ticket, loan: Loan, waiter: T, now: Moment) {
        self.open().blocked.insert(ticket, waiter);
        self.give_back(pace, loan, now);
    }

    /// The holder of a place can go again. False where the place was given up.
    pub fn ready(&mut self, ticket: Ticket) -> bool {
        let Some(line) = &mut self.line else {
            return false;
        };
        let Some(waiter) = line.blocked.remove(ticket) else {
            return false;
        };
        line.ready.insert(ticket, waiter);
        true
    }

    /// Whether the holder of a place cannot go for now.
    pub fn is_blocked(&self, ticket: Ticket) -> bool {
        self.line
            .as_ref()
            .is_some_and(|line| line.blocked.contains(ticket))
    }

    /// The first of those who cannot go, and of whom `is_meant` holds, can go again.
    pub fn ready_first(&mut self, is_meant: impl Fn(&T) -> bool) -> bool {
        let Some(line) = &mut self.line else {
            return false;
        };
        let first = line.blocked.iter().find(|(_, waiter)| is_meant(waiter));
        let ticket = first.map(|(ticket, _)| ticket);
        ticket.is_some_and(|ticket| self.ready(ticket))
    }

    /// The instant for which a timer must be set: none while one is set that
    /// rings no later.
    pub fn arm(&mut self, pace: &Pace) -> Option<Moment> {
        let due = self.due(pace)?;
        self.arm_for(due)
    }

    /// As [`Bucket::arm`], for something else that is due.
    pub(super) fn arm_for(&mut self, due: Moment) -> Option<Moment> {
        let line = self.line.as_mut()?;
        let earlier = line.armed.is_none_or(|armed| due < armed);
        line.armed = if earlier { Some(due) } else { line.armed };
        earlier.then_some(due)
    }

    /// A timer set for `when` rang. False where another was set in its place.
    pub fn rang(&mut self, when: Moment) -> bool {
        let armed = self.line.as_mut().map(|line| &mut line.armed);
        armed.is_some_and(|armed| armed.take_if(|armed| *armed == when).is_some())
    }

    /// Another pace holds from now on: the next slot is at most `ahead` of its
    /// intervals off, so that nobody waits for one that a slower pace had set.
    pub fn repace(&mut self, pace: &Pace, ahead: u32, now: Moment) {
        self.next = pace.no_later(self.next, ahead, now);
    }

    /// How many slots those need who wait.
    pub(super) fn slots(&self) -> usize {
        self.line.as_ref().map_or(0, |line| {
            line.ready.slots().saturating_add(line.blocked.slots())
        })
    }

    /// Since when the first who could go waits for its slots, and how many it needs
    /// before the last.
    fn gathering(&self) -> Option<(Moment, u32)> {
        let (first, _) = self.line.as_ref()?.ready.first()?;
        Some((first.joined(), first.cost().saturating_sub(1)))
    }

    fn load(&self, pace: &Pace, cost: u32, now: Moment, max_wait: Option<Duration>) -> Load {
        let shared = self.line.as_ref().and_then(|line| line.mirror.as_ref());
        let ahead = shared.filter(|mirror| mirror.attached);
        let returning = ahead.map_or(0, |mirror| mirror.returning());
        Load {
            next: pace.slot_before(self.next, returning),
            waiting: ahead.map_or_else(|| self.slots(), |mirror| mirror.ahead()),
            cost,
            gathering: self.gathering().filter(|_| ahead.is_none()),
            hold: self.held(),
            now,
            max_wait,
        }
    }

    pub(super) fn open(&mut self) -> &mut Line<T> {
        self.line.get_or_insert_with(Box::default)
    }

    pub(super) fn tidy(&mut self, now: Moment) {
        if self.waiting() == 0
            && let Some(line) = &mut self.line
        {
            line.label = None;
        }
        let spent = |line: &Line<T>| line.mirror.is_none() && line.is_spent(now);
        if self.line.as_deref().is_some_and(spent) {
            self.line = None;
        }
    }
}

impl<T> Line<T> {
    /// Until when nobody may go, whoever said so.
    pub(super) fn held(&self) -> Moment {
        self.hold.max(self.paused)
    }

    /// Whether nobody is before one who comes: in the line and able to go, or
    /// with a promise on its way.
    fn is_clear(&self, now: Moment) -> bool {
        self.ready.is_empty() && !self.ledger.is_promising() && self.held() <= now
    }

    fn is_spent(&self, now: Moment) -> bool {
        self.ready.is_empty()
            && self.blocked.is_empty()
            && self.ledger.is_empty()
            && self.hold <= now
            && self.mirror.as_ref().is_none_or(|mirror| mirror.is_quiet())
    }

    fn ticket(&mut self, cost: u32, now: Moment) -> Ticket {
        // Numbers go on from the clock: whoever still holds a ticket of a line
        // that is no more holds nobody's else.
        self.joined = self.joined.saturating_add(1).max(now.as_micros());
        Ticket::new(self.joined, cost, now)
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            ready: Queue::default(),
            blocked: Queue::default(),
            ledger: Ledger::default(),
            hold: Moment::default(),
            paused: Moment::default(),
            label: None,
            armed: None,
            joined: 0,
            mirror: None,
        }
    }
}
