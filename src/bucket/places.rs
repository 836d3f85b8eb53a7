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
use super::place::{Asked, Evicted, Place, Turn, Unheard};
use crate::key::KeyId;
use crate::line::Remaining;
use crate::metrics::Reason;

/// How much longer than `max_wait` a wait may last before it is ended: what was
/// admitted must not be refused for a late wake-up.
const SLACK: Duration = Duration::from_millis(50);

/// How often at most one looks again whether a shared line has room.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

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
        let in_line = self.claims.get(index).is_some_and(is_line);
        match entry {
            Entry::Passed | Entry::Asked(_) => (),
            Entry::Turn(turn) if in_line => self.stage = Stage::Hand(turn),
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
    /// there is no line it waits no longer than `patience` for its upstream.
    pub async fn wait(&mut self, crowd: &Arc<Crowd>, patience: Duration) -> Result<Pass, Unserved> {
        if self.asked.is_some() {
            Box::pin(self.hear_on_arrival()).await?;
        }
        let permit = loop {
            let ahead = self.ahead;
            let stage = match &mut self.stage {
                Stage::Free(permit) => match permit.take() {
                    Some(permit) => break permit,
                    // Boxed, as below: those who wait in a line, most of those who
                    // wait at all, need not have room for the other ways to wait.
                    None => Stage::Free(Some(Box::pin(self.upstream(crowd, patience)).await?)),
                },
                Stage::Line(index, place) => {
                    self.waited = true;
                    let claim = self.claims.get(*index);
                    let (turn, permit) = tokio::select! {
                        biased;
                        told = place.turn(self.gate) => told?,
                        evicted = overdue(claim, self.max_wait, self.arrived) => return Err(evicted.into()),
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
                        told = Box::pin(place.turn_after(room(next, left, self.knock.as_mut()))) => told?,
                        evicted = overdue(claim, self.max_wait, self.arrived) => return Err(evicted.into()),
                    };
                    turn.map_or_else(|| self.back_in_line(), Stage::Hand)
                }
                Stage::Hand(_) => self.advance()?,
                Stage::Asking(..) => Box::pin(self.answered()).await?,
            };
            self.stage = stage;
        };
        let waited = self.waited.then(|| self.arrived.elapsed());
        self.spent.drain(..).for_each(Turn::settle);
        Ok(Pass { permit, waited })
    }

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
        match self.ask(index, claim, Usable::OnLoan) {
            Ok(Entry::Asked(asked)) => Ok(Stage::Asking(index, turn, asked)),
            answer => self.join(index, claim, turn, answer),
        }
    }

    /// With a slot in hand: the next line has answered.
    async fn answered(&mut self) -> Result<Stage, Evicted> {
        let stage = std::mem::replace(&mut self.stage, Stage::Free(None));
        let Stage::Asking(index, turn, asked) = stage else {
            return Ok(stage);
        };
        let Some(claim) = self.claims.get(index) else {
            return Ok(Stage::Hand(turn));
        };
        let answer = match asked.answer().await {
            Ok(entry) => Ok(entry),
            Err(Unheard::Refused(refusal)) => Err(refusal),
            Err(Unheard::Evicted(evicted)) => return Err(evicted),
        };
        self.join(index, claim, turn, answer)
    }

    /// Into the next line; where that is full, before its door.
    fn join(
        &mut self,
        index: usize,
        claim: &Claim,
        turn: Turn,
        answer: Result<Entry, Refusal>,
    ) -> Result<Stage, Evicted> {
        let entry = match answer {
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
                let behind = self.ahead.saturating_sub(1);
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
            Entry::Asked(asked) => Stage::Line(index, asked.into_place()),
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

fn is_line(claim: &Claim) -> bool {
    claim.limiter.has_line()
}

/// The first line from `ahead` on.
fn next_line(claims: &[Claim], ahead: usize) -> Option<(usize, &Claim)> {
    claims
        .iter()
        .enumerate()
        .skip(ahead)
        .find(|(_, claim)| is_line(claim))
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
        // Of places that become free elsewhere nobody tells.
        let free_in = limiter.remaining(claim.key, max_wait).free_in;
        let free_in = free_in.max(LOOK_AGAIN);
        tokio::select! {
            () = knock.opened() => (),
            () = tokio::time::sleep(free_in), if limiter.is_shared() => (),
        }
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
        Some(most) => Box::pin(tokio::time::sleep(most.saturating_add(SLACK))).await,
    }
    if let Some(claim) = claim {
        claim.limiter.metrics().refused(Reason::MaxWait);
    }
    Evicted {
        reason: Reason::MaxWait,
    }
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
