//! How does a request wait in one line after the other, and for its upstream?

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Claim, Pass, Places, Stage, Unserved, left, next_line};
use crate::bucket::ask::{Entry, Refusal, Usable};
use crate::bucket::crowd::Crowd;
use crate::bucket::door::Knock;
use crate::bucket::gate::Permit;
use crate::bucket::limiter::tightest;
use crate::bucket::place::{Evicted, Turn, Unheard};
use crate::metrics::Reason;

/// How much longer than `max_wait` a wait may last before it is ended: what was
/// admitted must not be refused for a late wake-up.
const SLACK: Duration = Duration::from_millis(50);

/// How often at most one looks again whether a shared line has room.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Places<'_> {
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
                return Err(Evicted::soon(refusal.reason));
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
        for (_, text) in self.labels.extract_if(.., |(of, _)| *of == index) {
            claim.limiter.label(claim.key, || text);
        }
        self.spent.push(turn);
        Ok(match entry {
            Entry::Passed => Stage::Free(None),
            Entry::Turn(turn) => Stage::Hand(turn),
            Entry::Place(place) => Stage::Line(index, place),
            Entry::Blocked(place) => Stage::Line(index, place.before(self.gate.queue())),
            Entry::Asked(asked) => {
                let line = |place| Stage::Line(index, place);
                asked.into_place().map_or(Stage::Free(None), line)
            }
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
        let evicted = |_| Evicted::soon(Reason::Full);
        if !self.gate.is_well() {
            return Err(Evicted::soon(Reason::Full));
        }
        let _in_crowd = crowd.join().ok_or(Evicted::soon(Reason::Full))?;
        self.waited = true;
        let mut queue = self.gate.queue();
        let entered = tokio::time::timeout(patience, self.gate.enter(&mut queue)).await;
        entered.map(|(permit, _turnstile)| permit).map_err(evicted)
    }
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
    let remaining = || limiter.remaining(claim.key, claim.cost, max_wait);
    let full = || limiter.has_line(claim.key) && remaining().admits < u64::from(claim.cost);
    loop {
        // What opens from here on is told; what opened before is looked for.
        knock.stand();
        if knock.is_first() && !full() {
            return;
        }
        // Of places that become free elsewhere nobody tells.
        let free_in = remaining().free_in.max(LOOK_AGAIN);
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
    let Some(Claim { limiter, key, .. }) = claim else {
        return Evicted::soon(Reason::MaxWait);
    };
    let evicted = match limiter.paused_for(Some(*key)) {
        Some(left) => Evicted {
            reason: Reason::Paused,
            retry_after: left,
        },
        None => Evicted::soon(Reason::MaxWait),
    };
    limiter.metrics().refused(evicted.reason);
    evicted
}
