//! What does an instance know of a bucket that it shares, and when must it ask again?
//!
//! The line itself is in the store. An instance keeps its own part of it: who of
//! its requests have a place there, which slots it was promised, what the last
//! answer said. It never says what changed but what is so, so that a call or an
//! answer that gets lost needs no repair.

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;

use super::bucket::Ticket;
use super::pace::{Pace, Slot};
use super::sync::{Answer, Call, Grant, Known, Reach, Run};
use crate::units::Moment;

/// How late a promised slot may be used: so much, or a quarter of a longer interval,
/// at most `SLOW`. Later than this it is gone.
const LATEST: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(50);

/// How long departures are gathered, and newcomers of a fast limit who will have to
/// wait anyway. At slower ones order counts for more than calls do.
const GATHER: Duration = Duration::from_millis(4);
const FAST: Duration = Duration::from_millis(1);

/// The least time between two calls for a bucket.
const PAUSE: Duration = Duration::from_millis(1);

/// After so many slots missed in a row the tickets go to the tail.
const TOO_OFTEN: u32 = 3;

/// Departures that a call names; of more, the last places go.
const NAMED: usize = 64;

/// One who wants a place.
#[derive(Clone, Copy, Debug)]
struct Newcomer {
    ticket: Ticket,
    max_wait: Option<Duration>,
    gone: bool,
}

/// An instance's part of a bucket.
#[derive(Debug)]
pub(super) struct Mirror {
    /// Whether the line is the store's; else this instance goes on by itself.
    pub(super) attached: bool,
    known: Option<Known>,
    owed: Option<Moment>,
    /// Those who want a place, those of the call under way first.
    newcomers: VecDeque<Newcomer>,
    asked: SmallVec<[Run; 1]>,
    /// Requests that are only counted, and those of them in the call under way.
    ghosts: u32,
    ghosts_asked: u32,
    ghost_wait: Option<Duration>,
    pub(super) grants: VecDeque<Grant>,
    lent: SmallVec<[Grant; 1]>,
    returned: Vec<u64>,
    /// How many are being given back by the call under way.
    returning: usize,
    left: Vec<u32>,
    hold: Option<Moment>,
    tickets: usize,
    length: usize,
    place: Option<usize>,
    /// The number of the call under way, and when the last one began.
    flying: Option<u64>,
    called: Moment,
    fresh_since: Option<Moment>,
    left_since: Option<Moment>,
    hurry: u32,
    must_ask: bool,
    misses: u32,
    missed: u64,
    retry: Option<Moment>,
    buried: u64,
}

/// What became of those who asked.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) admitted: Vec<Ticket>,
    pub(super) refused: Vec<(Ticket, Option<Duration>)>,
    pub(super) ghosts_refused: u32,
}

impl Mirror {
    pub(super) fn new() -> Self {
        Self {
            attached: true,
            known: None,
            owed: None,
            newcomers: VecDeque::new(),
            asked: SmallVec::new(),
            ghosts: 0,
            ghosts_asked: 0,
            ghost_wait: None,
            grants: VecDeque::new(),
            lent: SmallVec::new(),
            returned: Vec::new(),
            returning: 0,
            left: Vec::new(),
            hold: None,
            tickets: 0,
            length: 0,
            place: None,
            flying: None,
            called: Moment::default(),
            fresh_since: None,
            left_since: None,
            hurry: 0,
            must_ask: false,
            misses: 0,
            missed: 0,
            retry: None,
            buried: 0,
        }
    }

    /// Whether nothing is to be said or heard any more.
    pub(super) fn is_quiet(&self) -> bool {
        self.flying.is_none()
            && self.tickets == 0
            && self.grants.is_empty()
            && self.lent.is_empty()
            && self.newcomers.is_empty()
            && self.ghosts == 0
    }

    /// How many are in the line before one who comes now.
    pub(super) fn ahead(&self) -> usize {
        self.length.saturating_add(self.wanting())
    }

    /// How many slots are given back that no answer has told of yet.
    pub(super) fn returning(&self) -> usize {
        self.returning.saturating_add(self.returned.len())
    }

    /// How many are in the line, all instances together.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// How many here want a place and have none yet.
    pub(super) fn wanting(&self) -> usize {
        self.newcomers.iter().filter(|one| !one.gone).count()
    }

    /// One more wants a place.
    pub(super) fn want(&mut self, ticket: Ticket, max_wait: Option<Duration>, now: Moment) {
        self.newcomers.push_back(Newcomer {
            ticket,
            max_wait,
            gone: false,
        });
        self.fresh_since.get_or_insert(now);
    }

    /// One more would have come; it only counts.
    pub(super) fn count(&mut self, max_wait: Option<Duration>, now: Moment) {
        self.ghost_wait = max_wait;
        self.ghosts = self.ghosts.saturating_add(1);
        self.fresh_since.get_or_insert(now);
    }

    /// The holder of `ticket` is not in the line any more. Whether it had a place.
    pub(super) fn part(&mut self, ticket: Ticket) -> bool {
        let found = self
            .newcomers
            .binary_search_by_key(&ticket, |one| one.ticket);
        let Ok(found) = found else { return true };
        if found < self.in_call() {
            if let Some(one) = self.newcomers.get_mut(found) {
                one.gone = true;
            }
        } else {
            self.newcomers.remove(found);
        }
        false
    }

    /// The `ordinal`th of those with a place, from 1, gave it up.
    pub(super) fn left(&mut self, ordinal: usize, now: Moment) {
        self.left_since.get_or_insert(now);
        // Those before it with a slot in hand have no ticket any more.
        let ordinal = ordinal.saturating_sub(self.grants.len()).max(1);
        if self.left.len() < NAMED {
            // Counted as the store still counts: with those who left before.
            let named = self.left.iter().fold(ordinal, |named, before| {
                named.saturating_add(usize::from(*before as usize <= named))
            });
            let named = u32::try_from(named).unwrap_or(u32::MAX);
            let at = self.left.partition_point(|before| *before < named);
            self.left.insert(at, named);
        }
    }

    /// The slot of `number` is used.
    pub(super) fn settle(&mut self, number: u64) {
        self.lent.retain(|grant| grant.number != number);
    }

    /// The slot of `number` will not be used by the one who had it: where someone
    /// is `wanted` it may still be in time for another.
    pub(super) fn give_back(&mut self, pace: &Pace, number: u64, wanted: bool, now: Moment) {
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
    pub(super) fn trim(&mut self, ready: usize) {
        while self.grants.len() > ready {
            let spare = self.grants.pop_back();
            self.returned.extend(spare.map(|grant| grant.number));
        }
    }

    /// The slot that is due, if it is not too late for it.
    pub(super) fn take(&mut self, pace: &Pace, now: Moment) -> Option<Grant> {
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
    pub(super) fn missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }

    /// All who waited here are gone.
    pub(super) fn forgo(&mut self, now: Moment) {
        let in_call = self.in_call();
        self.newcomers.truncate(in_call);
        self.newcomers.iter_mut().for_each(|one| one.gone = true);
        self.left_since.get_or_insert(now);
        self.trim(0);
    }

    /// Others left: the slots of those who wait here come so many intervals earlier.
    pub(super) fn hurry(&mut self, intervals: u32) {
        self.hurry = self.hurry.saturating_add(intervals);
    }

    /// Something may have been missed: ask anew.
    pub(super) fn ask(&mut self) {
        self.must_ask = true;
    }

    /// Nobody may go before `until`, for all instances.
    pub(super) fn hold(&mut self, until: Moment) {
        self.hold = self.hold.max(Some(until));
    }

    /// The store did not answer this bucket as it should: ask again at `when`.
    pub(super) fn retry(&mut self, when: Moment) {
        self.retry = Some(when);
    }

    /// Whether it is time to try again what went wrong.
    pub(super) fn retries(&self, now: Moment) -> bool {
        self.retry.is_none_or(|retry| retry <= now)
    }

    /// Whether what went wrong is to be tried again by now: said once.
    pub(super) fn takes_retry(&mut self, now: Moment) -> bool {
        self.retry.take_if(|retry| *retry <= now).is_some()
    }

    /// When the next call is due; `None` while there is nothing to say.
    pub(super) fn call_at(
        &self,
        pace: &Pace,
        next: Slot,
        ready: usize,
        reach: &Reach,
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
            pace.slot_after(next, before as usize).before(ahead)
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
    pub(super) fn call(
        &mut self,
        number: u64,
        pace: &Pace,
        reach: &Reach,
        now: Moment,
        (ready, aside): (usize, usize),
    ) -> Call {
        self.returned
            .sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        self.asked = SmallVec::new();
        for one in &self.newcomers {
            match self.asked.last_mut() {
                Some(run) if run.max_wait == one.max_wait => {
                    run.count = run.count.saturating_add(1);
                }
                _ => self.asked.push(Run {
                    count: 1,
                    max_wait: one.max_wait,
                }),
            }
        }
        self.ghosts_asked = std::mem::take(&mut self.ghosts);
        let mut wanted = self.asked.to_vec();
        if self.ghosts_asked > 0 {
            wanted.push(Run {
                count: self.ghosts_asked,
                max_wait: self.ghost_wait,
            });
        }
        let held = self.held(ready);
        self.returning = self.returned.len();
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
            wanted,
            hold: self.hold.take().map(|until| until.since(now)),
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

    /// Whether `number` is the call under way: the answer to an older one is void.
    pub(super) fn lands(&mut self, number: u64) -> bool {
        self.flying.take_if(|flying| *flying == number).is_some()
    }

    /// Takes in how the bucket stands. False while a call is under way.
    pub(super) fn seen(&mut self, answer: &Answer) -> bool {
        let idle = self.flying.is_none() && self.attached;
        if idle {
            self.known = Some(answer.known);
        }
        idle
    }

    /// Whether `number` is the call under way.
    pub(super) fn is_calling(&self, number: u64) -> bool {
        self.flying == Some(number)
    }

    /// The call of this `number` was outrun by another: what is so is said anew.
    pub(super) fn say_again(&mut self, number: u64, now: Moment) {
        if self.lands(number) {
            self.ghosts = self.ghosts.saturating_add(self.ghosts_asked);
            self.ghosts_asked = 0;
            self.asked = SmallVec::new();
            self.newcomers.retain(|one| !one.gone);
            self.fresh_since = (!self.newcomers.is_empty()).then_some(now);
            self.must_ask = true;
        }
    }

    /// Takes in what the store answered.
    pub(super) fn answered(&mut self, answer: &Answer) -> Placed {
        let mut placed = Placed::default();
        let asked = std::mem::take(&mut self.asked);
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
        let counted = answer.joined.get(asked.len()).copied().unwrap_or(ghosts);
        placed.ghosts_refused = ghosts.saturating_sub(counted);
        self.returning = 0;
        self.known = Some(answer.known);
        self.length = answer.length;
        self.tickets = answer.tickets;
        self.place = answer.place;
        self.buried = answer.buried;
        // Whoever only counts has used its slot by that.
        let counted = ghosts.min(counted) as usize;
        let granted = answer.grants.len().saturating_sub(counted);
        self.grants
            .extend(answer.grants.iter().take(granted).copied());
        self.grants
            .make_contiguous()
            .sort_unstable_by_key(|grant| grant.number);
        placed
    }

    /// From now on the instance goes on by itself: those who have no place yet.
    pub(super) fn detach(&mut self) -> Vec<(Ticket, Option<Duration>)> {
        self.attached = false;
        // A call that was not answered may have been heard all the same.
        let unsure = self.flying.take().is_some();
        self.returning = 0;
        self.tickets = self.tickets.max(usize::from(unsure));
        self.asked = SmallVec::new();
        self.ghosts = 0;
        self.ghosts_asked = 0;
        self.fresh_since = None;
        let newcomers = std::mem::take(&mut self.newcomers).into_iter();
        newcomers
            .filter(|one| !one.gone)
            .map(|one| (one.ticket, one.max_wait))
            .collect()
    }

    /// The line is the store's again; here it had come to `owed`.
    pub(super) fn attach(&mut self, owed: Moment) {
        self.attached = true;
        self.flying = None;
        self.owed = Some(owed);
        self.must_ask = true;
        self.length = 0;
        self.tickets = 0;
        self.place = None;
        self.retry = None;
    }

    /// How many have a place and no slot in hand.
    fn held(&self, ready: usize) -> usize {
        ready
            .saturating_sub(self.wanting())
            .saturating_sub(self.grants.len())
    }

    fn in_call(&self) -> usize {
        self.asked.iter().map(|run| run.count as usize).sum()
    }
}

fn latest(pace: &Pace) -> Duration {
    let quarter = pace.interval().checked_div(4).unwrap_or_default();
    LATEST.max(quarter.min(SLOW))
}

/// The slower the rate, the less there is to gather.
fn gather_at(interval: Duration) -> Duration {
    let slower = interval.as_micros().div_ceil(FAST.as_micros()).max(1);
    let slower = u32::try_from(slower).unwrap_or(u32::MAX);
    GATHER.checked_div(slower).unwrap_or_default()
}
