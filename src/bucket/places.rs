//! How does one request pass through all its limits, and what does it give back?
//!
//! Limits that pass or refuse at once and the first line are asked on arrival.
//! A request joins the next line when its turn in the one before has come; where
//! that line is full it stays at the head of the one before. Whatever it has in
//! hand when it is dropped goes back: who wasn't served has paid nothing. What
//! follows on its arrival is in `wait`.

mod wait;

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::ask::{Ask, Entry, Refusal, Usable};
use super::door::Knock;
use super::gate::{Gate, Permit};
use super::limiter::{Limiter, SlotTimer};
use super::place::{Asked, Evicted, Place, Turn, Unheard};
use crate::key::KeyId;
use crate::limit::Policy;
use crate::units::Remaining;

/// A limit that a request falls under, and its key there.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The limit.
    pub limiter: Arc<Limiter>,
    /// The request's key.
    pub key: KeyId,
    /// How many slots, or how much of the limit, it needs.
    pub cost: u32,
}

/// A request's limits, in the order in which they are asked.
pub type Claims = SmallVec<[Claim; 2]>;

/// Refused by one limit or more.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The first that refused.
    pub refusal: Refusal,
    /// All that would refuse.
    pub violated: SmallVec<[Arc<str>; 2]>,
    /// When none of them would any more.
    pub retry_after: Duration,
}

/// Why a request was not served, though it did not leave.
#[derive(Debug)]
pub enum Unserved {
    /// A limit refused it.
    Refused(Box<Refused>),
    /// It was sent away while it waited.
    Evicted(Evicted),
}

/// What a request holds in its limits.
#[derive(Debug)]
pub struct Places<'a> {
    claims: &'a [Claim],
    gate: &'a Gate,
    timer: &'a SlotTimer,
    arrived: Instant,
    max_wait: Option<Duration>,
    /// Slots of limits that lie behind.
    spent: Vec<Turn>,
    stage: Stage,
    /// What a limit has been asked on arrival that a store answers for, and which.
    asked: Option<(usize, Asked)>,
    /// Index of the first claim whose line is still to be joined.
    ahead: usize,
    /// Its place before the line of that claim, once that was full.
    knock: Option<Knock>,
    waited: bool,
    /// The texts of its keys in lines that it has yet to join, for people.
    labels: Vec<(usize, Option<String>)>,
}

/// Where a request stands.
#[derive(Debug)]
enum Stage {
    /// In the line of this claim.
    Line(usize, Place),
    /// In the line of this claim, before the next one, which was full.
    Door(usize, Place),
    /// With a slot of this line in hand.
    Hand(Turn),
    /// With a slot in hand, asking for a place in the line of this claim.
    Asking(usize, Turn, Asked),
    /// Before no line, or behind the last.
    Free(Option<Permit>),
}

/// A request that may go to its upstream.
#[derive(Debug)]
pub struct Pass {
    /// To be held until its answer has ended.
    pub permit: Permit,
    /// How long it waited; none where it did not.
    pub waited: Option<Duration>,
}

impl<'a> Places<'a> {
    /// Asks all limits that answer at once, and takes a place in the first line.
    pub fn enter(
        claims: &'a [Claim],
        gate: &'a Gate,
        max_wait: Option<Duration>,
        timer: &'a SlotTimer,
    ) -> Result<Self, Box<Refused>> {
        let first = claims.iter().position(is_line);
        let mut places = Self {
            claims,
            gate,
            timer,
            arrived: Instant::now(),
            max_wait,
            spent: Vec::new(),
            stage: Stage::Free(None),
            asked: None,
            ahead: first.map_or(claims.len(), |first| first + 1),
            knock: None,
            waited: false,
            labels: Vec::new(),
        };
        places.arrive(0)?;
        Ok(places)
    }

    /// Asks the limits from the `from`th on, as far as they answer at once.
    fn arrive(&mut self, from: usize) -> Result<(), Box<Refused>> {
        let first = self.ahead.saturating_sub(1);
        let is_last = !self.claims.iter().skip(self.ahead).any(is_line);
        let mut permit = self.gate.try_enter();
        for (index, claim) in self.claims.iter().enumerate().skip(from) {
            let in_line = is_line(claim);
            if in_line && index != first {
                continue;
            }
            let usable = match &permit {
                Some(_) if self.claims.len() == 1 => Usable::ForGood,
                None if in_line && is_last => Usable::NotYet,
                _ => Usable::OnLoan,
            };
            match self.ask(index, claim, usable) {
                Ok(Entry::Asked(asked)) => {
                    self.asked = Some((index, asked));
                    return Ok(());
                }
                Ok(entry) => self.entered(index, entry),
                Err(refusal) => return Err(Box::new(self.refused(index, refusal))),
            }
        }
        if matches!(self.stage, Stage::Free(_)) {
            self.stage = Stage::Free(permit.take());
        }
        Ok(())
    }

    /// A limit asked on arrival has answered.
    fn entered(&mut self, index: usize, entry: Entry) {
        match entry {
            Entry::Passed | Entry::Asked(_) => (),
            Entry::Turn(turn) if self.claims.get(index).is_some_and(is_line) => {
                self.stage = Stage::Hand(turn);
            }
            Entry::Turn(turn) => self.spent.push(turn),
            Entry::Place(place) => self.stage = Stage::Line(index, place),
            Entry::Blocked(place) => {
                self.stage = Stage::Line(index, place.before(self.gate.queue()));
            }
        }
    }

    /// What was had goes back; what the other limits say is told as well.
    fn refused(&mut self, index: usize, refusal: Refusal) -> Refused {
        self.spent.clear();
        self.stage = Stage::Free(None);
        if let Some(claim) = self.claims.get(index) {
            claim.limiter.metrics().refused(refusal.reason);
        }
        Refused::among(self.claims, index, refusal, self.max_wait)
    }

    /// Says under which keys it waits, and will wait.
    pub fn label(&mut self, text: impl Fn(&Policy) -> Option<String>) {
        let lines = self
            .claims
            .iter()
            .enumerate()
            .filter(|(_, claim)| is_line(claim));
        for (index, claim) in lines.skip_while(|(index, _)| index + 1 < self.ahead) {
            let Claim { limiter, key, .. } = claim;
            let read = || text(&limiter.policy());
            if index + 1 == self.ahead {
                limiter.label(*key, read);
            } else if !limiter.policy().key.is_secret() {
                self.labels.push((index, read()));
            }
        }
    }

    /// What the request needs to go, where it need not wait for anything.
    pub fn free(&mut self) -> Option<Pass> {
        if self.asked.is_some() {
            return None;
        }
        let Stage::Free(permit) = &mut self.stage else {
            return None;
        };
        let permit = permit.take()?;
        self.spent.drain(..).for_each(Turn::settle);
        Some(Pass {
            permit,
            waited: None,
        })
    }

    /// Waits for the request's turn in every line, and for its upstream. Where
    /// What the store says of the limits that are asked on arrival, one by one.
    async fn hear_on_arrival(&mut self) -> Result<(), Unserved> {
        while let Some((index, asked)) = self.asked.take() {
            match asked.answer().await {
                Ok(entry) => self.entered(index, entry),
                Err(Unheard::Refused(refusal)) => {
                    for (_, other) in self.others(index) {
                        other.limiter.look(other.key).await;
                    }
                    let refused = self.refused(index, refusal);
                    return Err(Unserved::Refused(Box::new(refused)));
                }
                Err(Unheard::Evicted(evicted)) => return Err(evicted.into()),
            }
            self.arrive(index + 1).map_err(Unserved::Refused)?;
        }
        Ok(())
    }

    /// All limits but one.
    fn others(&self, index: usize) -> impl Iterator<Item = (usize, &'a Claim)> + use<'a> {
        let claims = self.claims.iter().enumerate();
        claims.filter(move |(other, _)| *other != index)
    }

    fn ask(&self, index: usize, claim: &Claim, usable: Usable) -> Result<Entry, Refusal> {
        let max_wait = left(self.max_wait, self.arrived);
        claim.limiter.ask(Ask {
            key: claim.key,
            cost: claim.cost,
            max_wait,
            usable,
            gate: next_line(self.claims, index + 1)
                .is_none()
                .then(|| self.gate.id()),
            knocked: self.knock.is_some(),
            timer: self.timer,
        })
    }
}

/// What is left of the wait that a client would take.
fn left(max_wait: Option<Duration>, arrived: Instant) -> Option<Duration> {
    max_wait.map(|most| most.saturating_sub(arrived.elapsed()))
}

fn is_line(claim: &Claim) -> bool {
    claim.limiter.has_line(claim.key)
}

/// The first line from `ahead` on.
fn next_line(claims: &[Claim], ahead: usize) -> Option<(usize, &Claim)> {
    claims
        .iter()
        .enumerate()
        .skip(ahead)
        .find(|(_, claim)| is_line(claim))
}

impl From<Evicted> for Unserved {
    fn from(evicted: Evicted) -> Self {
        Self::Evicted(evicted)
    }
}

impl Refused {
    /// What the other limits would say now, so that the largest wait is announced.
    fn among(claims: &[Claim], first: usize, refusal: Refusal, max_wait: Option<Duration>) -> Self {
        let others = claims
            .iter()
            .enumerate()
            .filter(|(index, claim)| *index != first && !claim.limiter.is_dry_run());
        let mut violated = SmallVec::from_iter([Arc::clone(&refusal.limit)]);
        let mut retry_after = refusal.retry_after;
        for (_, claim) in others {
            let Remaining {
                admits, free_in, ..
            } = claim.limiter.remaining(claim.key, claim.cost, max_wait);
            if admits < u64::from(claim.cost) {
                violated.push(Arc::clone(&claim.limiter.policy().name));
                retry_after = retry_after.max(free_in);
            }
        }
        Self {
            refusal,
            violated,
            retry_after,
        }
    }
}
