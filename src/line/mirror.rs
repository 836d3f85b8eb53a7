//! What does an instance know of a bucket that it shares, and when must it ask again?
//!
//! The line itself is in the store. An instance keeps its own part of it: who of
//! its requests have a place there, which slots it was promised, what the last
//! answer said. It never says what changed but what is so, so that a call or an
//! answer that gets lost needs no repair: `say` has the calls, `hear` the answers,
//! `slots` what becomes of the slots that were promised.

mod hear;
mod say;
mod slots;

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;

use super::bucket::Ticket;
use super::sync::{Grant, Known, Run};
use crate::units::Moment;

pub(super) use hear::Placed;

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
