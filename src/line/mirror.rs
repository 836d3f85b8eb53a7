//! What does an instance know of a bucket that it shares, and when must it ask again?
//!
//! The line itself is in the store. An instance keeps its own part of it: who of
//! its requests have a place there, which slots it was promised, what the last
//! answer said. It never says what changed but what is so, so that a call or an
//! answer that gets lost needs no repair: `say` has the calls, `hear` the answers,
//! `slots` what becomes of the slots that were promised, `spent` what passes between two
//! calls without a promise.

mod grants;
mod hear;
mod say;
mod slots;
mod spent;

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;

use super::sync::{Grant, Known, Run, Unused};
use super::ticket::Ticket;
use crate::units::Moment;

use grants::Grants;
pub(super) use hear::Placed;
use spent::Spent;

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
    ghosts: SmallVec<[Run; 1]>,
    ghosts_asked: SmallVec<[Run; 1]>,
    pub(super) grants: Grants,
    /// Slots in hand, by the number of the loan.
    lent: SmallVec<[(u64, Grant); 1]>,
    lends: u64,
    spent: Spent,
    returned: Vec<Unused>,
    /// How many slots are being given back by the call under way.
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

impl Mirror {
    pub(super) fn new() -> Self {
        Self {
            attached: true,
            known: None,
            owed: None,
            newcomers: VecDeque::new(),
            asked: SmallVec::new(),
            ghosts: SmallVec::new(),
            ghosts_asked: SmallVec::new(),
            grants: Grants::default(),
            lent: SmallVec::new(),
            lends: 0,
            spent: Spent::default(),
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
            && self.ghosts.is_empty()
            && self.spent.is_settled()
    }

    /// How many slots those need who are before one who comes now.
    pub(super) fn ahead(&self) -> usize {
        self.length.saturating_add(self.wanting())
    }

    /// How many slots are given back that no answer has told of yet.
    pub(super) fn returning(&self) -> usize {
        self.returning.saturating_add(slots_of(&self.returned))
    }

    /// How many places of the line are taken, all instances together.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// How many slots those need who want a place here and have none yet.
    pub(super) fn wanting(&self) -> usize {
        let present = self.newcomers.iter().filter(|one| !one.gone);
        present.map(|one| one.ticket.cost() as usize).sum()
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
    pub(super) fn count(&mut self, max_wait: Option<Duration>, cost: u32, now: Moment) {
        add(&mut self.ghosts, max_wait, cost);
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

    /// So many places, from the `ordinal`th of those here, from 1, were given up.
    pub(super) fn left(&mut self, ordinal: usize, places: u32, now: Moment) {
        self.left_since.get_or_insert(now);
        // Where a slot was promised there is no ticket any more.
        let ordinal = ordinal.saturating_sub(self.grants.slots()).max(1);
        for _ in 0..places {
            if self.left.len() >= NAMED {
                return;
            }
            // Counted as the store still counts: with those who left before.
            let named = self.left.iter().fold(ordinal, |named, before| {
                named.saturating_add(usize::from(*before as usize <= named))
            });
            let named = u32::try_from(named).unwrap_or(u32::MAX);
            let at = self.left.partition_point(|before| *before < named);
            self.left.insert(at, named);
        }
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

    /// How many slots of the `ready` ones that are needed here have yet to be promised.
    fn held(&self, ready: usize) -> usize {
        ready
            .saturating_sub(self.wanting())
            .saturating_sub(self.grants.slots())
    }

    fn in_call(&self) -> usize {
        self.asked.iter().map(|run| run.count as usize).sum()
    }
}

/// One more who asks for the same as those before it, or for something else.
fn add(runs: &mut SmallVec<[Run; 1]>, max_wait: Option<Duration>, cost: u32) {
    match runs.last_mut() {
        Some(run) if run.max_wait == max_wait && run.cost == cost => {
            run.count = run.count.saturating_add(1);
        }
        _ => runs.push(Run {
            count: 1,
            max_wait,
            cost,
        }),
    }
}

fn slots_of(unused: &[Unused]) -> usize {
    unused.iter().map(|one| one.count as usize).sum()
}
