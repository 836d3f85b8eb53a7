//! What should the store's script do? An independent model of `lua/leaky_bucket.lua`.
//!
//! Instants are whole microseconds on the store's clock; `next` has a rest in ticks,
//! `of` of which are a microsecond.

use std::collections::{BTreeMap, VecDeque};

use crate::line::{Answer, Call, Grant, Known, Pace, Reach};
use crate::units::Moment;

const FURTHEST: i128 = 250_000;
const TOLERANCE: i128 = 2_000;
const MOST: usize = 512;
const SILENT: i128 = 500_000;

/// A bucket as the store keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    kept: Option<Kept>,
    line: VecDeque<usize>,
    expires: i128,
    /// How many left whose places others have, as it is published.
    pub(crate) left: u64,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    next: i128,
    rest: i128,
    number: u64,
    last: u64,
    /// Until when nobody may go: asked by an upstream, or paused by hand.
    asked: i128,
    paused: i128,
    hold: i128,
    calls: BTreeMap<usize, u64>,
    /// What the last answer to each said, and what others' calls promised since.
    sent: BTreeMap<usize, Vec<(u64, i128)>>,
    own: BTreeMap<usize, Vec<(u64, i128)>>,
    /// How early each must hear of a slot.
    leads: BTreeMap<usize, i128>,
}

/// What the script is told beside the call itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    pub(crate) now: u64,
    pub(crate) me: usize,
    pub(crate) number: u64,
    pub(crate) pace: &'a Pace,
    pub(crate) reach: Reach,
    pub(crate) dead: &'a [usize],
}

/// An interval in ticks.
#[derive(Clone, Copy)]
struct Ticks {
    each: i128,
    of: i128,
}

impl Ticks {
    fn of(pace: &Pace) -> Self {
        let (micros, part, of) = pace.parts();
        let of = i128::from(of);
        Self {
            each: i128::from(micros) * of + i128::from(part),
            of,
        }
    }

    fn ceil_micros(self, count: i128) -> i128 {
        -(-self.each * count).div_euclid(self.of)
    }
}

impl Kept {
    fn lead(&self, owner: usize) -> i128 {
        self.leads.get(&owner).copied().unwrap_or(0)
    }

    fn ticks(&self, ticks: Ticks) -> i128 {
        self.next * ticks.of + self.rest
    }

    fn set(&mut self, at: i128, ticks: Ticks) {
        self.next = at.div_euclid(ticks.of);
        self.rest = at.rem_euclid(ticks.of);
    }

    fn no_earlier(&mut self, at: i128, rest: i128) {
        (self.next, self.rest) = (self.next, self.rest).max((at, rest));
    }
}

impl Model {
    /// Forgets everything, as a restart does.
    pub(crate) fn flush(&mut self) {
        *self = Self::default();
    }

    /// Forgets who waits.
    pub(crate) fn lose_line(&mut self) {
        self.line.clear();
    }

    pub(crate) fn length(&self) -> usize {
        self.line.len()
    }

    /// What the script does; `None` where a later call has been there before.
    #[expect(clippy::too_many_lines, reason = "it follows the script step by step")]
    pub(crate) fn call(&mut self, told: &Told<'_>, call: &Call) -> Option<Answer> {
        let Told { me, pace, .. } = *told;
        let now = i128::from(told.now);
        let ticks = Ticks::of(pace);
        let delay = i128::from(pace.delay());
        let places = i128::from(pace.burst() - pace.delay());
        let micros = |span: std::time::Duration| span.as_micros() as i128;
        let horizon = micros(told.reach.horizon);
        let credit = ticks.ceil_micros(delay);
        let idle_rest = credit * ticks.of - delay * ticks.each;
        let idle = now - credit;
        let mut gone = 0;
        if self.expires <= now {
            self.kept = None;
            self.line.clear();
        }
        // Recall.
        let is_new = self.kept.is_none();
        let mut kept = self.kept.take().unwrap_or_else(|| Kept {
            next: idle,
            rest: idle_rest,
            ..Kept::default()
        });
        if kept.calls.get(&me).is_some_and(|seen| *seen >= told.number) {
            self.kept = Some(kept);
            return None;
        }
        kept.rest = kept.rest.min(ticks.of - 1);
        kept.calls.insert(me, told.number);
        let lead = if call.needs_lead {
            micros(told.reach.notice)
        } else {
            0
        };
        kept.leads.insert(me, lead);
        if let Some(hold) = call.hold {
            kept.asked = kept.asked.max(now + micros(hold));
        }
        kept.paused = call
            .paused
            .map_or(kept.paused.min(now), |span| now + micros(span));
        kept.hold = kept.asked.max(kept.paused);
        if is_new {
            self.line.clear();
            if call.held > 0 {
                kept.no_earlier(now + horizon, 0);
            }
        }
        if let Some(known) = call.known.filter(|known| kept.number < known.number) {
            kept.number = known.number;
            kept.no_earlier(i128::from(known.next), 0);
        }
        if let Some(owed) = call.owed {
            kept.no_earlier(i128::from(owed.as_micros()), 0);
        }
        kept.next = kept.next.min(now + FURTHEST + ticks.ceil_micros(1));
        // What the caller has not heard of.
        let sent = kept.sent.remove(&me).unwrap_or_default();
        let own = kept.own.remove(&me).unwrap_or_default();
        let mut grants: Vec<(u64, i128)> = sent
            .into_iter()
            .chain(own)
            .filter(|(number, slot)| {
                call.known.is_some_and(|known| *number > known.number) && *slot <= now + FURTHEST
            })
            .collect();
        let heard = grants.len();
        let held = call.held.saturating_sub(heard);
        // Undo.
        for unused in &call.returned {
            if unused.number == kept.last {
                kept.set(kept.ticks(ticks) - ticks.each, ticks);
                kept.last -= 1;
            }
        }
        // Bury.
        for dead in told.dead {
            let before = self.line.len();
            self.line.retain(|owner| owner != dead);
            gone += before - self.line.len();
            kept.calls.remove(dead);
            kept.sent.remove(dead);
            kept.own.remove(dead);
            kept.leads.remove(dead);
        }
        // Square.
        let mine: Vec<usize> = (0..self.line.len())
            .filter(|at| self.line[*at] == me)
            .collect();
        if mine.len() > held {
            let mut surplus = mine.len() - held;
            gone += surplus;
            let mut out = Vec::new();
            for ordinal in &call.left {
                let named = (*ordinal as usize).checked_sub(heard + 1);
                if let Some(at) = named.and_then(|named| mine.get(named))
                    && surplus > 0
                    && !out.contains(at)
                {
                    out.push(*at);
                    surplus -= 1;
                }
            }
            let rest: Vec<usize> = mine
                .iter()
                .copied()
                .filter(|at| !out.contains(at))
                .collect();
            out.extend(rest.iter().rev().take(surplus));
            out.sort_unstable();
            for at in out.into_iter().rev() {
                self.line.remove(at);
            }
        } else {
            for _ in mine.len()..held {
                if call.at_tail {
                    self.line.push_back(me);
                } else {
                    self.line.push_front(me);
                }
            }
        }
        // Pass over.
        kept.no_earlier(kept.hold.min(now) - credit, idle_rest);
        let late = idle - TOLERANCE;
        while !self.line.is_empty() && kept.next < late && self.line[0] != me {
            let behind = late - kept.next;
            if behind * ticks.of <= 0 {
                break;
            }
            self.line.pop_front();
            gone += 1;
            kept.set(kept.ticks(ticks) + ticks.each, ticks);
        }
        kept.no_earlier(if self.line.is_empty() { idle } else { late }, idle_rest);
        // Join.
        let mut joined = Vec::new();
        let aside = call.aside as i128;
        for run in &call.wanted {
            let ahead = self.line.len() as i128 + aside;
            let room = |from: i128, bound: i128| {
                ((now - from) * ticks.of - kept.rest + bound).div_euclid(ticks.each) + 1 - ahead
            };
            let mut free = room(kept.next, places * ticks.each);
            if let Some(most) = run.max_wait {
                let from = kept.next.max(kept.hold - credit);
                free = if kept.hold - now <= micros(most) {
                    free.min(room(from, micros(most) * ticks.of))
                } else {
                    0
                };
            }
            let few = i128::from(run.count).min(free.div_euclid(run.cost.into()));
            let few = few.max(0) as u32;
            (0..few * run.cost).for_each(|_| self.line.push_back(me));
            joined.push(few);
        }
        // Promise.
        let reach = now + horizon.min(FURTHEST);
        if !self.line.is_empty() && kept.hold <= reach && kept.next <= reach {
            if kept.hold > now {
                kept.no_earlier(kept.hold - credit, idle_rest);
            }
            let mut deferred: Vec<usize> = Vec::new();
            let mut promised = 0;
            while kept.next <= reach && promised < MOST {
                let slot = kept.next.max(now).max(kept.hold);
                let in_time = |owner: &usize| slot >= now + kept.lead(*owner);
                let owner = if let Some(first) = deferred.iter().position(in_time) {
                    deferred.remove(first)
                } else if deferred.len() < MOST
                    && let Some(owner) = self.line.pop_front()
                {
                    let own = kept.own.get(&owner).and_then(|own| own.first());
                    if owner != me && own.is_some_and(|(_, slot)| *slot < now - SILENT) {
                        let before = self.line.len();
                        self.line.retain(|one| *one != owner);
                        gone += before - self.line.len() + 1;
                        continue;
                    }
                    if !in_time(&owner) {
                        deferred.push(owner);
                        continue;
                    }
                    owner
                } else if deferred.first() == Some(&me)
                    && self.line.is_empty()
                    && now + kept.lead(me) <= reach
                {
                    // Nobody else is left for the slots before.
                    kept.no_earlier(now + kept.lead(me) - credit, idle_rest);
                    deferred.remove(0)
                } else {
                    break;
                };
                let slot = kept.next.max(now).max(kept.hold);
                let slot = slot.max(now + kept.lead(owner));
                kept.set(kept.ticks(ticks) + ticks.each, ticks);
                kept.number += 1;
                kept.last = kept.number;
                promised += 1;
                if owner == me {
                    grants.push((kept.number, slot));
                } else {
                    kept.own.entry(owner).or_default().push((kept.number, slot));
                }
            }
            for owner in deferred.into_iter().rev() {
                self.line.push_front(owner);
            }
        }
        // Keep.
        kept.sent.insert(me, grants.clone());
        let length = self.line.len();
        let drain = (kept.next.max(kept.hold).max(now) - now) * ticks.of
            + (length as i128 + delay + 1) * ticks.each;
        let millis = -(-drain).div_euclid(ticks.of * 1_000) + 1_000;
        self.expires = now + millis * 1_000;
        let tickets = self.line.iter().filter(|owner| **owner == me).count();
        if gone > 0 && length > tickets {
            self.left += gone as u64;
        }
        let here = |micros: i128| Moment::from_micros(micros as u64);
        let answer = Answer {
            known: Known {
                number: kept.number,
                next: kept.next as u64,
            },
            next: here(kept.next),
            hold: here(kept.asked),
            length,
            tickets,
            place: self.line.iter().position(|owner| *owner == me),
            joined,
            grants: grants
                .into_iter()
                .map(|(number, slot)| Grant {
                    number,
                    slot: here(slot),
                    count: 1,
                })
                .collect(),
            buried: 0,
        };
        self.kept = Some(kept);
        Some(answer)
    }
}
