//! What does a bucket do whose line is shared with other instances?
//!
//! Its own part of the line is kept as that of any bucket; only slots come from
//! the store instead of from its own `next`. Where the store is away the bucket
//! goes on by itself from the last `next` that it heard of.

use std::time::Duration;

use super::bucket::Bucket;
use super::ledger::Loan;
use super::load::{Crowded, Verdict};
use super::mirror::{Mirror, Placed};
use super::pace::Pace;
use super::sync::{Answer, Call, Reach};
use super::ticket::{Promise, Ticket};
use crate::units::Moment;

/// No slot is promised further ahead than this.
const FARTHEST: Duration = Duration::from_millis(250);

/// What an answer meant for those who asked.
#[derive(Debug)]
pub struct Heard<T> {
    /// Those who have a place from now on.
    pub admitted: Vec<Ticket>,
    /// Those who have none.
    pub refused: Vec<Unplaced<T>>,
    /// How many of those who only count would have been refused.
    pub would_refuse: u32,
}

/// One who has no place, and what it asked for.
#[derive(Debug)]
pub struct Unplaced<T> {
    /// How it is reached.
    pub waiter: T,
    /// How many slots it needs.
    pub cost: u32,
    /// The longest wait that it would have taken.
    pub max_wait: Option<Duration>,
}

impl<T> Bucket<T> {
    /// Whether its line is in the store, which says whose turn it is.
    pub fn is_attached(&self) -> bool {
        self.mirror().is_some_and(|mirror| mirror.attached)
    }

    /// Whether someone waits in it, or something is yet to be said of it.
    pub fn is_engaged(&self) -> bool {
        self.waiting() > 0 || self.mirror().is_some_and(|mirror| !mirror.is_quiet())
    }

    /// From now on its line is in the store; those who wait here keep their order.
    /// Slots used here in the meantime count there, up to one interval ahead.
    pub fn attach(&mut self, pace: &Pace, now: Moment) {
        if self.is_attached() {
            return;
        }
        let owed = pace.no_later(self.next, 1, now).at();
        let is_new = self.waiting() == 0 && pace.is_fresh(self.next, now);
        match &mut self.open().mirror {
            Some(mirror) => mirror.attach(owed),
            none => {
                let mirror = none.insert(Box::new(Mirror::new()));
                if !is_new {
                    mirror.attach(owed);
                }
            }
        }
    }

    /// From now on it goes by itself, at this instance's part of the pace. Those who
    /// have no place yet stay where they would have been admitted here. Its next slot
    /// is so far `behind` the one that all know. `None` where it does so already.
    pub fn detach(&mut self, part: &Pace, behind: Duration, now: Moment) -> Option<Heard<T>> {
        let line = self.line.as_mut()?;
        let mirror = line.mirror.as_mut().filter(|mirror| mirror.attached)?;
        let someone_waits = line.ready.slots() > mirror.wanting();
        if part.has_line() && (self.next.at() > now || someone_waits) {
            // All instances know the same next slot: one after the other uses its own.
            let next = part.fresh(now).max(self.next);
            // Where the store comes and goes this is said again and again.
            let farthest = now.after(part.interval()).after(FARTHEST);
            let behind = next.at().after(behind).min(farthest);
            self.next = next.max(Pace::slot_at(behind));
        }
        let newcomers = mirror.detach();
        let newcomers: Vec<_> = newcomers
            .into_iter()
            .filter_map(|(ticket, most)| Some((ticket, line.ready.remove(ticket)?, most)))
            .collect();
        let mut heard = Heard {
            admitted: Vec::new(),
            refused: Vec::new(),
            would_refuse: 0,
        };
        for (ticket, waiter, most) in newcomers {
            if matches!(
                self.verdict(part, ticket.cost(), now, most),
                Verdict::Admitted(_)
            ) {
                self.open().ready.insert(ticket, waiter);
                heard.admitted.push(ticket);
            } else {
                heard.refused.push(Unplaced {
                    waiter,
                    cost: ticket.cost(),
                    max_wait: most,
                });
            }
        }
        Some(heard)
    }

    /// Nothing is owed any more.
    pub fn forgive(&mut self, pace: &Pace, now: Moment) {
        self.next = pace.fresh(now);
    }

    /// A place in the line for one who comes, as soon as the store says so.
    pub fn want(
        &mut self,
        cost: u32,
        max_wait: Option<Duration>,
        now: Moment,
        waiter: T,
    ) -> Ticket {
        let ticket = self.join(cost, now, waiter);
        if let Some(mirror) = self.mirror_mut() {
            mirror.want(ticket, max_wait, now);
        }
        ticket
    }

    /// Lets one pass that needs `cost` slots, or not, by what the store said no longer than
    /// `sync` ago and what has passed here since; and whether the caller must see to it
    /// that this is told, by `settle_up`. `None` where the store must be asked.
    pub fn pass_between(
        &mut self,
        pace: &Pace,
        cost: u32,
        now: Moment,
        sync: Duration,
    ) -> Option<Result<(Loan, bool), Crowded>> {
        self.mirror()
            .filter(|mirror| mirror.knows_since(sync, now))?;
        if let Verdict::Refused(crowded) = self.verdict(pace, cost, now, None) {
            return Some(Err(crowded));
        }
        self.next = pace.take_on_arrival(self.next, now, cost);
        let (loan, must_settle) = self.mirror_mut()?.spend(cost, now);
        Some(Ok((Loan::Shared(loan), must_settle)))
    }

    /// What has passed here between two calls is to be told now.
    pub fn settle_up(&mut self) {
        if let Some(mirror) = self.mirror_mut() {
            mirror.settle_up();
        }
    }

    /// One more that only counts.
    pub fn count(&mut self, cost: u32, max_wait: Option<Duration>, now: Moment) {
        if let Some(mirror) = self.mirror_mut() {
            mirror.count(max_wait, cost, now);
        }
    }

    /// How the one with this ticket is reached, while it can go.
    pub fn waiter_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.line.as_mut()?.ready.get_mut(ticket)
    }

    /// What is to be said to the store now, under a `number` above all before; else
    /// when there will be something.
    pub fn call(
        &mut self,
        pace: &Pace,
        reach: &Reach,
        now: Moment,
        number: impl FnOnce() -> u64,
    ) -> Option<Call> {
        let (next, held) = (self.next, self.held());
        let line = self.line.as_mut()?;
        let paused = line.paused.since(now);
        let (ready, aside) = (line.ready.slots(), line.blocked.slots());
        let mirror = line.mirror.as_mut().filter(|mirror| mirror.attached)?;
        let due = mirror.call_at(pace, next, ready, reach, held)?;
        if due > now {
            return None;
        }
        let call = mirror.call(number(), pace, reach, now, (ready, aside));
        Some(Call {
            paused: Some(paused).filter(|paused| !paused.is_zero()),
            ..call
        })
    }

    /// The instant for which a timer must be set, for a slot or a call.
    pub fn arm_shared(&mut self, pace: &Pace, reach: &Reach) -> Option<Moment> {
        let line = self.line.as_ref()?;
        let ready = line.ready.slots();
        let mirror = line.mirror.as_ref();
        let held = line.held();
        let call = mirror.and_then(|mirror| mirror.call_at(pace, self.next, ready, reach, held));
        let due = self.due(pace).into_iter().chain(call).min()?;
        self.arm_for(due)
    }

    /// Takes in the answer to the call of this `number`; `None` where it is not
    /// waited for any more.
    pub fn answered(&mut self, pace: &Pace, number: u64, answer: &Answer) -> Option<Heard<T>> {
        let line = self.line.as_mut()?;
        let mirror = line.mirror.as_mut()?;
        if !mirror.lands(number) {
            return None;
        }
        let Placed {
            admitted,
            refused,
            ghosts_refused,
        } = mirror.answered(answer);
        let refused = refused
            .into_iter()
            .filter_map(|(ticket, max_wait)| {
                Some(Unplaced {
                    waiter: line.ready.remove(ticket)?,
                    cost: ticket.cost(),
                    max_wait,
                })
            })
            .collect();
        mirror.trim(line.ready.slots());
        line.hold = answer.hold;
        let next = Pace::slot_at(answer.next);
        // What has passed here since the call is not in it.
        self.next = match mirror.untold() {
            0 => next,
            since => Pace::slot_at(pace.slot_after(next, since as usize)),
        };
        Some(Heard {
            admitted,
            refused,
            would_refuse: ghosts_refused,
        })
    }

    /// Takes in how the bucket stands, where nothing is under way that will tell.
    pub fn seen(&mut self, answer: &Answer) {
        let next = Pace::slot_at(answer.next);
        if self.mirror_mut().is_some_and(|mirror| mirror.seen(answer)) {
            self.next = next;
        }
    }

    /// Whether the call of this `number` is still waited for.
    pub fn is_calling(&self, number: u64) -> bool {
        self.mirror()
            .is_some_and(|mirror| mirror.is_calling(number))
    }

    /// The call of this `number` was outrun by another, or was not answered: what is
    /// so is said anew.
    pub fn say_again(&mut self, number: u64, now: Moment) {
        if let Some(mirror) = self.mirror_mut() {
            mirror.say_again(number, now);
        }
    }

    /// The store answers others, but not for this bucket: until `when` it goes by itself.
    pub fn retry(&mut self, when: Moment) {
        if let Some(mirror) = self.mirror_mut() {
            mirror.retry(when);
        }
    }

    /// Whether what went wrong with this bucket may be tried again.
    pub fn retries(&self, now: Moment) -> bool {
        self.mirror().is_none_or(|mirror| mirror.retries(now))
    }

    /// Whether it goes by itself, though it is time to try the store again: said once.
    pub fn takes_retry(&mut self, now: Moment) -> bool {
        let alone = self.mirror_mut().filter(|mirror| !mirror.attached);
        alone.is_some_and(|mirror| mirror.takes_retry(now))
    }

    /// Others left the line: slots come so many intervals earlier.
    pub fn hurry(&mut self, intervals: u32) {
        if let Some(mirror) = self.mirror_mut() {
            mirror.hurry(intervals);
        }
    }

    /// News of the bucket may have been missed.
    pub fn ask_anew(&mut self) {
        let waits = self.waiting() > 0;
        if let Some(mirror) = self
            .mirror_mut()
            .filter(|mirror| waits || !mirror.is_quiet())
        {
            mirror.ask();
        }
    }

    /// How many places of its line are taken, all instances together.
    pub fn length(&self) -> usize {
        let shared = self
            .mirror()
            .filter(|mirror| mirror.attached && self.is_engaged());
        shared.map_or(0, Mirror::length).max(self.slots())
    }

    /// How many slots came too late since this was last asked.
    pub fn missed(&mut self) -> u64 {
        self.mirror_mut().map_or(0, Mirror::missed)
    }

    /// Lends promised slots that are due to the first who can go.
    pub(super) fn promise_granted(&mut self, pace: &Pace, now: Moment) -> Option<Promise<T>> {
        let line = self.line.as_mut()?;
        let mirror = line.mirror.as_mut()?;
        let (first, _) = line.ready.first()?;
        let (loan, due) = mirror.take(pace, first.cost(), now)?;
        let (ticket, waiter) = line.ready.pop_first()?;
        mirror.part(ticket);
        Some(Promise {
            ticket,
            waiter,
            loan: Loan::Shared(loan),
            due,
            missed: 0,
        })
    }

    pub(super) fn give_back_granted(&mut self, pace: &Pace, loan: u64, now: Moment) {
        if let Some(line) = &mut self.line
            && let Some(mirror) = &mut line.mirror
        {
            let wanted = pace.has_line() && !line.ready.is_empty();
            let untold = mirror.untold();
            mirror.give_back(pace, loan, wanted, now);
            let back = untold.saturating_sub(mirror.untold());
            self.next = pace.slot_before(self.next, back as usize);
        }
        self.tidy(now);
    }

    fn mirror(&self) -> Option<&Mirror> {
        self.line.as_ref()?.mirror.as_deref()
    }

    fn mirror_mut(&mut self) -> Option<&mut Mirror> {
        self.line.as_mut()?.mirror.as_deref_mut()
    }
}
