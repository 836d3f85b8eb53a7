//! What does a waiting request hold, and how does it give it back?

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::ask::{Entry, Refusal};
use super::gate::{Gate, GateId, Permit, Queue};
use super::limiter::{Limiter, SlotTimer, Waiter};
use crate::key::KeyId;
use crate::line::{Loan, Promise, Ticket};
use crate::metrics::{Fate, Reason};
use crate::window;

/// Those who waited are told to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Why.
    pub reason: Reason,
    /// When to come back.
    pub retry_after: Duration,
}

impl Evicted {
    /// Told to go, and that it may help to come back soon.
    pub(super) fn soon(reason: Reason) -> Self {
        Self {
            reason,
            retry_after: Duration::from_secs(1),
        }
    }
}

/// What comes to a place.
#[derive(Debug)]
pub(super) enum Offer {
    /// Its turn.
    Turn(Turn),
    /// Word that it won't be its turn.
    Evicted(Evicted),
    /// Word that it is none: the store gave it to nobody.
    Refused(Refusal),
}

type Told = Result<Offer, oneshot::error::RecvError>;

/// Why a request was not served, though it waited or asked.
#[derive(Debug)]
pub(super) enum Unheard {
    Evicted(Evicted),
    Refused(Refusal),
}

/// What the store has been asked for. Dropped, it is as if nobody had.
#[derive(Debug)]
pub struct Asked(AskedFor);

#[derive(Debug)]
enum AskedFor {
    /// A place in the line, and word that it has it.
    Place(Place, oneshot::Receiver<()>),
    /// Leave to pass a window.
    Window(oneshot::Receiver<Offer>),
}

/// A place in the line. Dropped, it is free at once and all behind it move up.
#[derive(Debug)]
pub struct Place {
    limiter: Arc<Limiter>,
    key: KeyId,
    ticket: Ticket,
    offered: oneshot::Receiver<Offer>,
    /// Its place before its upstream's gate, while that is what it waits for.
    queue: Option<Queue>,
    gone: bool,
}

/// What a request has taken of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held {
    /// A slot of a bucket.
    Slot(Loan),
    /// A part of what may pass a window.
    Share(window::Loan),
    /// Nothing: the limit does not count for now.
    Nothing,
}

/// A slot in hand, or its like. Dropped, the bucket is as if it had never been given out.
#[derive(Debug)]
pub struct Turn {
    limiter: Arc<Limiter>,
    key: KeyId,
    /// The place that it came from; none where it came at once.
    ticket: Option<Ticket>,
    held: Option<Held>,
    /// What it costs to have another.
    cost: u32,
    /// How long it was in coming.
    waited: Duration,
    /// A permit that came with it.
    permit: Option<Permit>,
    timer: SlotTimer,
}

impl Place {
    pub(super) fn new(
        limiter: &Arc<Limiter>,
        key: KeyId,
        ticket: Ticket,
        offered: oneshot::Receiver<Offer>,
    ) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            key,
            ticket,
            offered,
            queue: None,
            gone: false,
        }
    }

    /// The same place, before its upstream's gate.
    pub(super) fn before(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Waits for this one's turn, before `gate` where its upstream was full. A
    /// permit that comes of that goes to the first of the bucket who waits for
    /// one, with a slot: none lies idle, and nobody is overtaken.
    pub(super) async fn turn(&mut self, gate: &Gate) -> Result<(Turn, Option<Permit>), Evicted> {
        while let Some(mut queue) = self.queue.take() {
            tokio::select! {
                biased;
                told = &mut self.offered => return self.turned(told),
                // Boxed: most of those who wait don't wait for this.
                (permit, _turnstile) = Box::pin(gate.enter(&mut queue)) => {
                    self.limiter.admit(self.key, gate.id(), permit);
                    let blocked = self.limiter.with_known(self.key, |bucket, _| bucket.is_blocked(self.ticket));
                    if blocked == Some(true) {
                        self.queue = Some(gate.queue());
                    }
                }
            }
        }
        let told = (&mut self.offered).await;
        self.turned(told)
    }

    fn turned(&mut self, told: Told) -> Result<(Turn, Option<Permit>), Evicted> {
        let mut turn = self.told(told)?;
        let permit = turn.permit.take();
        Ok((turn, permit))
    }

    /// Waits until `free`, in its place; the turn that it has then, if it has one.
    pub(super) async fn turn_after(
        &mut self,
        free: impl Future<Output = ()>,
    ) -> Result<Option<Turn>, Evicted> {
        tokio::select! {
            biased;
            told = &mut self.offered => return self.told(told).map(Some),
            () = free => self.ready(),
        }
        match self.offered.try_recv() {
            Ok(told) => self.told(Ok(told)).map(Some),
            Err(_not_yet) => Ok(None),
        }
    }

    fn ready(&mut self) {
        if self
            .limiter
            .with_known(self.key, |bucket, _| bucket.ready(self.ticket))
            == Some(true)
        {
            self.limiter.flow(self.key);
        }
    }

    fn told(&mut self, told: Told) -> Result<Turn, Evicted> {
        self.heard(told).map_err(|unheard| match unheard {
            Unheard::Evicted(evicted) => evicted,
            Unheard::Refused(Refusal { reason, .. }) => Evicted::soon(reason),
        })
    }

    fn heard(&mut self, told: Told) -> Result<Turn, Unheard> {
        self.gone = true;
        let mut turn = turn_of(told)?;
        turn.claim();
        Ok(turn)
    }
}

fn turn_of(told: Told) -> Result<Turn, Unheard> {
    match told {
        Ok(Offer::Turn(turn)) => Ok(turn),
        Ok(Offer::Evicted(evicted)) => Err(Unheard::Evicted(evicted)),
        Ok(Offer::Refused(refusal)) => Err(Unheard::Refused(refusal)),
        Err(_dropped) => Err(Unheard::Evicted(Evicted::soon(Reason::Draining))),
    }
}

impl Asked {
    pub(super) const fn place(place: Place, placed: oneshot::Receiver<()>) -> Self {
        Self(AskedFor::Place(place, placed))
    }

    pub(super) const fn window(offered: oneshot::Receiver<Offer>) -> Self {
        Self(AskedFor::Window(offered))
    }

    /// The place, whatever the store will say; none in a window.
    pub(super) fn into_place(self) -> Option<Place> {
        match self.0 {
            AskedFor::Place(place, _) => Some(place),
            AskedFor::Window(_) => None,
        }
    }

    /// What the store says: its turn at once, a place in the line, or neither.
    pub(super) async fn answer(self) -> Result<Entry, Unheard> {
        match self.0 {
            AskedFor::Place(mut place, mut placed) => tokio::select! {
                biased;
                told = &mut place.offered => place.heard(told).map(Entry::Turn),
                Ok(()) = &mut placed => Ok(Entry::Place(place)),
            },
            AskedFor::Window(offered) => turn_of(offered.await).map(Entry::Turn),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.gone
            && self
                .limiter
                .with_known(self.key, |bucket, now| bucket.leave(self.ticket, now))
                == Some(true)
        {
            self.limiter.parted(self.key);
            if self.limiter.store.is_some() {
                self.limiter.flow(self.key);
            }
        }
    }
}

impl Turn {
    pub(super) fn at_once(
        limiter: &Arc<Limiter>,
        key: KeyId,
        held: Held,
        cost: u32,
        timer: &SlotTimer,
    ) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            key,
            ticket: None,
            held: Some(held),
            cost,
            waited: Duration::ZERO,
            permit: None,
            timer: timer.clone(),
        }
    }

    pub(super) fn in_turn(
        limiter: &Arc<Limiter>,
        key: KeyId,
        promise: &Promise<Waiter>,
        waited: Duration,
        permit: Option<Permit>,
    ) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            key,
            ticket: Some(promise.ticket),
            held: Some(Held::Slot(promise.loan)),
            cost: promise.ticket.cost(),
            waited,
            permit,
            timer: promise.waiter.timer.clone(),
        }
    }

    /// It has arrived: whoever comes from now on is behind it.
    fn claim(&mut self) {
        if let Some(Held::Slot(loan)) = self.held {
            self.limiter
                .with_known(self.key, |bucket, _| bucket.claim(loan));
        }
    }

    /// The slot is used: the request goes.
    pub fn settle(mut self) {
        if let Some(held) = self.held.take() {
            if let Held::Slot(loan) = held {
                let policy = self.limiter.policy();
                self.limiter.with_known(self.key, |bucket, now| {
                    bucket.settle(&policy.rule_of(self.key).pace(), loan, now);
                });
            }
            self.limiter.metrics().slots(Fate::Used, self.cost.into());
            self.limiter.metrics().waited(self.waited);
        }
    }

    /// The slot can't be used now: back to the place that it came from, or to a
    /// new one at the tail where it came at once.
    pub(super) fn step_back(mut self, gate: Option<GateId>) -> Result<Place, Evicted> {
        let (waiter, offered) = self.limiter.waiter(&self.timer, gate);
        let pace = self.limiter.policy().rule_of(self.key).pace();
        let loan = self.held.take().and_then(|held| match held {
            Held::Slot(loan) => Some(loan),
            Held::Share(_) | Held::Nothing => None,
        });
        let placed = self
            .limiter
            .with_known(self.key, |bucket, now| match (self.ticket, loan) {
                (Some(ticket), Some(loan)) => {
                    bucket.step_back(&pace, ticket, loan, waiter, now);
                    ticket
                }
                (_, loan) => {
                    let ticket = bucket.join_blocked(self.cost, now, waiter);
                    if let Some(loan) = loan {
                        bucket.give_back(&pace, loan, now);
                    }
                    ticket
                }
            });
        // A bucket with an open loan is never forgotten.
        let ticket = placed.ok_or(Evicted::soon(Reason::Keys))?;
        self.limiter.flow(self.key);
        Ok(Place::new(&self.limiter, self.key, ticket, offered))
    }

    /// The slot comes back, without a look at who could use it.
    pub(super) fn give_back(mut self) {
        self.return_loan();
    }

    fn return_loan(&mut self) -> bool {
        let loan = match self.held.take() {
            None | Some(Held::Nothing) => return false,
            Some(Held::Share(loan)) => {
                self.limiter.uncount(self.key, loan);
                return false;
            }
            Some(Held::Slot(loan)) => loan,
        };
        let pace = self.limiter.policy().rule_of(self.key).pace();
        let waiting = self.limiter.with_known(self.key, |bucket, now| {
            bucket.give_back(&pace, loan, now);
            bucket.waiting()
        });
        if waiting.unwrap_or(0) == 0 {
            self.limiter.metrics().slots(Fate::Spare, self.cost.into());
        }
        true
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.return_loan() {
            self.limiter.flow(self.key);
        }
    }
}
