//! How does one request pass through all its limits, and what does it give back?
//!
//! Limits that pass or refuse at once and the first line are asked on arrival.
//! A request joins the next line when its turn in the one before has come; where
//! that line is full it stays at the head of the one before. Whatever it has in
//! hand when it is dropped goes back: who wasn't served has paid nothing.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::ask::{Ask, Entry, Refusal, Usable};
use super::crowd::Crowd;
use super::door::Knock;
use super::gate::{Gate, Permit};
use super::limiter::{Limiter, SlotTimer, tightest};
use super::place::{Evicted, Place, Turn};
use crate::key::KeyId;
use crate::line::Remaining;
use crate::metrics::Reason;

/// How much longer than `max_wait` a wait may last before it is ended: what was
/// admitted must not be refused for a late wake-up.
const SLACK: Duration = Duration::from_millis(50);

/// A limit that a request falls under, and its key there.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The limit.
    pub limiter: Arc<Limiter>,
    /// The request's key.
    pub key: KeyId,
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

/// What a request holds in its limits.
#[derive(Debug)]
pub struct Places<'a> {
    claims: &'a [Claim],
    gate: &'a Gate,
    timer: &'a SlotTimer,
    arrived: Instant,
    max_wait: Option<Duration>,
    /// Slots of limits that lie behind.
    spent: SmallVec<[Turn; 1]>,
    stage: Stage,
    /// Index of the first claim whose line is still to be joined.
    ahead: usize,
    /// Its place before the line of that claim, once that was full.
    knock: Option<Knock>,
    waited: bool,
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
        let is_line = |claim: &Claim| claim.limiter.has_line();
        let first = claims.iter().position(is_line);
        let last = claims.iter().rposition(is_line);
        let mut permit = gate.try_enter();
        let mut places = Self {
            claims,
            gate,
            timer,
            arrived: Instant::now(),
            max_wait,
            spent: SmallVec::new(),
            stage: Stage::Free(None),
            ahead: first.map_or(claims.len(), |first| first + 1),
            knock: None,
            waited: false,
        };
        for (index, claim) in claims.iter().enumerate() {
            let in_line = Some(index) == first;
            if is_line(claim) && !in_line {
                continue;
            }
            let usable = match &permit {
                Some(_) if claims.len() == 1 => Usable::ForGood,
                None if in_line && first == last => Usable::NotYet,
                _ => Usable::OnLoan,
            };
            match places.ask(index, claim, usable) {
                Ok(Entry::Passed) => (),
                Ok(Entry::Turn(turn)) if in_line => places.stage = Stage::Hand(turn),
                Ok(Entry::Turn(turn)) => places.spent.push(turn),
                Ok(Entry::Place(place)) => places.stage = Stage::Line(index, place),
                Ok(Entry::Blocked(place)) => {
                    places.stage = Stage::Line(index, place.before(gate.queue()));
                }
                Err(refusal) => {
                    drop(places);
                    claim.limiter.metrics().refused(refusal.reason);
                    return Err(Box::new(Refused::among(claims, index, refusal, max_wait)));
                }
            }
        }
        if matches!(places.stage, Stage::Free(_)) {
            places.stage = Stage::Free(permit.take());
        }
        Ok(places)
    }

    /// What the request needs to go, where it need not wait for anything.
    pub fn free(&mut self) -> Option<Pass> {
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
    /// there is no line it waits no longer than `patience` for its upstream.
    pub async fn wait(&mut self, crowd: &Arc<Crowd>, patience: Duration) -> Result<Pass, Evicted> {
        let permit = loop {
            let ahead = self.ahead;
            let stage = match &mut self.stage {
                Stage::Free(permit) => match permit.take() {
                    Some(permit) => break permit,
                    None => Stage::Free(Some(self.upstream(crowd, patience).await?)),
                },
                Stage::Line(index, place) => {
                    self.waited = true;
                    let claim = self.claims.get(*index);
                    let (turn, permit) = tokio::select! {
                        biased;
                        told = place.turn(self.gate) => told?,
                        evicted = overdue(claim, self.max_wait, self.arrived) => return Err(evicted),
                    };
                    self.taken(turn, permit)
                }
                Stage::Door(index, place) => {
                    self.waited = true;
                    let claim = self.claims.get(*index);
                    let left = left(self.max_wait, self.arrived);
                    let next = next_line(self.claims, ahead);
                    let turn = tokio::select! {
                        biased;
                        told = place.turn_after(room(next, left, self.knock.as_mut())) => told?,
                        evicted = overdue(claim, self.max_wait, self.arrived) => return Err(evicted),
                    };
                    turn.map_or_else(|| self.back_in_line(), Stage::Hand)
                }
                Stage::Hand(_) => self.advance()?,
            };
            self.stage = stage;
        };
        let waited = self.waited.then(|| self.arrived.elapsed());
        self.spent.drain(..).for_each(Turn::settle);
        Ok(Pass { permit, waited })
    }

    /// Its own slot is not there yet: the room in the next line is for another.
    fn back_in_line(&mut self) -> Stage {
        self.knock = None;
        match std::mem::replace(&mut self.stage, Stage::Free(None)) {
            Stage::Door(index, place) => Stage::Line(index, place),
            other => other,
        }
    }

    /// With a turn, and perhaps with a permit that came with it.
    fn taken(&mut self, turn: Turn, permit: Option<Permit>) -> Stage {
        match permit {
            None => Stage::Hand(turn),
            some => {
                self.spent.push(turn);
                Stage::Free(some)
            }
        }
    }

    /// With a slot of one line in hand: into the next line, or through the gate.
    fn advance(&mut self) -> Result<Stage, Evicted> {
        let Stage::Hand(turn) = std::mem::replace(&mut self.stage, Stage::Free(None)) else {
            return Ok(Stage::Free(None));
        };
        let behind = self.ahead.saturating_sub(1);
        let Some((index, claim)) = next_line(self.claims, self.ahead) else {
            if let Some(permit) = self.gate.try_enter() {
                return Ok(self.taken(turn, Some(permit)));
            }
            // First into the queue, then out of the way: the next one comes after.
            let queue = self.gate.queue();
            let gate = Some(self.gate.id());
            return Ok(Stage::Line(behind, turn.step_back(gate)?.before(queue)));
        };
        let entry = match self.ask(index, claim, Usable::OnLoan) {
            Ok(entry) => entry,
            Err(refusal) if refusal.shared => {
                claim.limiter.metrics().refused(refusal.reason);
                return Err(Evicted {
                    reason: refusal.reason,
                });
            }
            Err(_full) => {
                // As before the gate: first to the door, then out of the way.
                let knock = || Knock::at(&claim.limiter, claim.key);
                self.knock.get_or_insert_with(knock);
                return Ok(Stage::Door(behind, turn.step_back(None)?));
            }
        };
        self.ahead = index + 1;
        self.knock = None;
        self.spent.push(turn);
        Ok(match entry {
            Entry::Passed => Stage::Free(None),
            Entry::Turn(turn) => Stage::Hand(turn),
            Entry::Place(place) => Stage::Line(index, place),
            Entry::Blocked(place) => Stage::Line(index, place.before(self.gate.queue())),
        })
    }

    /// A permit for a request that no line makes wait.
    async fn upstream(
        &mut self,
        crowd: &Arc<Crowd>,
        patience: Duration,
    ) -> Result<Permit, Evicted> {
        if let Some(permit) = self.gate.try_enter() {
            return Ok(permit);
        }
        let evicted = |_| Evicted {
            reason: Reason::Full,
        };
        if !self.gate.is_well() {
            return Err(Evicted {
                reason: Reason::Full,
            });
        }
        let _in_crowd = crowd.join().ok_or(Evicted {
            reason: Reason::Full,
        })?;
        self.waited = true;
        let mut queue = self.gate.queue();
        let entered = tokio::time::timeout(patience, self.gate.enter(&mut queue)).await;
        entered.map(|(permit, _turnstile)| permit).map_err(evicted)
    }

    fn ask(&self, index: usize, claim: &Claim, usable: Usable) -> Result<Entry, Refusal> {
        let max_wait = left(self.max_wait, self.arrived);
        claim.limiter.ask(Ask {
            key: claim.key,
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

/// The first line from `ahead` on.
fn next_line(claims: &[Claim], ahead: usize) -> Option<(usize, &Claim)> {
    claims
        .iter()
        .enumerate()
        .skip(ahead)
        .find(|(_, claim)| claim.limiter.has_line())
}

/// Resolves when the next line has room for the one who knocked.
async fn room(
    line: Option<(usize, &Claim)>,
    max_wait: Option<Duration>,
    knock: Option<&mut Knock>,
) {
    let (Some((_, claim)), Some(knock)) = (line, knock) else {
        return;
    };
    let limiter = &claim.limiter;
    // After a reload there may be no line any more.
    let full = || limiter.has_line() && limiter.remaining(claim.key, max_wait).admits == 0;
    loop {
        // What opens from here on is told; what opened before is looked for.
        knock.stand();
        if knock.is_first() && !full() {
            return;
        }
        knock.opened().await;
        if !full() {
            return;
        }
    }
}

/// Ends a wait that has lasted longer than was allowed when it began.
async fn overdue(claim: Option<&Claim>, max_wait: Option<Duration>, arrived: Instant) -> Evicted {
    let limit = claim.and_then(|claim| claim.limiter.policy().max_wait);
    match tightest(limit, left(max_wait, arrived)) {
        None => std::future::pending().await,
        Some(most) => tokio::time::sleep(most.saturating_add(SLACK)).await,
    }
    if let Some(claim) = claim {
        claim.limiter.metrics().refused(Reason::MaxWait);
    }
    Evicted {
        reason: Reason::MaxWait,
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
            } = claim.limiter.remaining(claim.key, max_wait);
            if admits == 0 {
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
