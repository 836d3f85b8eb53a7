//! When does an instance call the store, and what does it say?

use std::time::Duration;

use smallvec::SmallVec;

use super::slots::latest;
use super::{Mirror, add, slots_of};
use crate::line::pace::{Pace, Slot};
use crate::line::sync::{Call, Reach};
use crate::units::Moment;

/// How long departures are gathered, and newcomers of a fast limit who will have to
/// wait anyway. At slower ones order counts for more than calls do.
const GATHER: Duration = Duration::from_millis(4);
const FAST: Duration = Duration::from_millis(1);

/// The least time between two calls for a bucket.
const PAUSE: Duration = Duration::from_millis(1);

/// After so many slots missed in a row the tickets go to the tail.
const TOO_OFTEN: u32 = 3;

impl Mirror {
    /// When the next call is due; `None` while there is nothing to say.
    pub(in crate::line) fn call_at(
        &self,
        pace: &Pace,
        next: Slot,
        ready: usize,
        reach: &Reach,
        held_until: Moment,
    ) -> Option<Moment> {
        if self.flying.is_some() {
            return None;
        }
        if !self.attached {
            return self.retry.filter(|_| ready > 0);
        }
        let held = self.held(ready);
        let gathered = |since: Moment| {
            // A call for those who wait anyway can take others along.
            let wait = pace
                .slot_after(next, self.ahead().saturating_sub(1))
                .since(since.after(reach.lead));
            let waits = pace.has_line() && wait > GATHER.saturating_mul(2);
            since.after(if waits {
                gather_at(pace.interval())
            } else {
                Duration::ZERO
            })
        };
        let at_once = self.must_ask
            || self.hold.is_some()
            || self.owed.is_some()
            || !self.returned.is_empty()
            || self.spent.is_overdue()
            || held > self.tickets;
        let surplus = self.tickets > held;
        let left = self.left_since.map_or(Moment::default(), |since| {
            since.after(if ready > 0 { GATHER } else { Duration::ZERO })
        });
        let turn = self.place.filter(|_| held > 0).map(|place| {
            let before = u32::try_from(place)
                .unwrap_or(u32::MAX)
                .saturating_sub(self.hurry);
            let ahead = reach
                .lead
                .saturating_add(reach.horizon.checked_div(2).unwrap_or_default());
            // While it is held no slot comes, however often one asks.
            let next = pace.no_earlier(next, held_until);
            let slot = pace.slot_after(next, before as usize);
            slot.max(held_until).before(ahead)
        });
        let due = [
            at_once.then_some(Moment::default()),
            self.fresh_since.map(gathered),
            surplus.then_some(left),
            turn,
        ];
        due.into_iter()
            .flatten()
            .min()
            .map(|due| due.max(self.called.after(PAUSE)))
    }

    /// What is so, to be said now.
    pub(in crate::line) fn call(
        &mut self,
        number: u64,
        pace: &Pace,
        reach: &Reach,
        now: Moment,
        (ready, aside): (usize, usize),
    ) -> Call {
        self.returned
            .sort_unstable_by_key(|unused| std::cmp::Reverse(*unused));
        self.asked = SmallVec::new();
        for one in &self.newcomers {
            add(&mut self.asked, one.max_wait, one.ticket.cost());
        }
        self.ghosts_asked = std::mem::take(&mut self.ghosts);
        let wanted = self.asked.iter().chain(&self.ghosts_asked);
        let wanted = wanted.copied().collect();
        let held = self.held(ready);
        self.returning = slots_of(&self.returned);
        let call = Call {
            known: self.known,
            owed: self.owed.take(),
            held,
            aside,
            has_tickets: held > 0 || aside > 0 || self.tickets > 0,
            at_tail: self.misses >= TOO_OFTEN,
            needs_lead: self.misses > 0 || reach.round_trip > latest(pace),
            returned: std::mem::take(&mut self.returned),
            left: std::mem::take(&mut self.left),
            spent: self.tell_spent(),
            debt: Duration::ZERO,
            wanted,
            hold: self
                .hold
                .take()
                .map(|until| until.since(now))
                .filter(|span| !span.is_zero()),
            paused: None,
            buried: self.buried,
        };
        self.flying = Some(number);
        self.called = now;
        self.fresh_since = None;
        self.left_since = None;
        self.hurry = 0;
        self.must_ask = false;
        self.retry = None;
        call
    }
}

/// The slower the rate, the less there is to gather.
fn gather_at(interval: Duration) -> Duration {
    let slower = interval.as_micros().div_ceil(FAST.as_micros()).max(1);
    let slower = u32::try_from(slower).unwrap_or(u32::MAX);
    GATHER.checked_div(slower).unwrap_or_default()
}
