//! In which words does a request ask a limit, and the limit answer?

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::gate::GateId;
use super::limiter::SlotTimer;
use super::place::{Asked, Place, Turn};
use crate::key::KeyId;
use crate::limit::Policy;
use crate::line::Crowded;
use crate::metrics::Reason;

/// What the buckets of a limit look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Keys that are kept.
    pub buckets: usize,
    /// Requests that wait in all of them.
    pub waiting: usize,
    /// Requests that wait in the longest line.
    pub longest: usize,
    /// The longest present wait.
    pub oldest: Duration,
}

/// What a request asks of a limit.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The request's key.
    pub key: KeyId,
    /// How many slots, or how much of the limit, it needs.
    pub cost: u32,
    /// How long the request would wait at most, if it says so.
    pub max_wait: Option<Duration>,
    /// What it could do with a slot now.
    pub usable: Usable,
    /// The gate that it comes to behind this limit's line; none where another
    /// line lies between.
    pub gate: Option<GateId>,
    /// Whether it comes from before the limit's door, where it stood.
    pub knocked: bool,
    /// The timer of its runtime.
    pub timer: &'a SlotTimer,
}

/// What a request could do with a slot that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// Go, with nothing more in its way.
    ForGood,
    /// Go on to what is next: the slot may come back.
    OnLoan,
    /// Nothing: its upstream is full.
    NotYet,
}

/// What a limit answers to a request that it admits.
#[derive(Debug)]
pub enum Entry {
    /// Its slot is used, for good.
    Passed,
    /// Its slot is in its hand.
    Turn(Turn),
    /// It has a place in the line.
    Place(Place),
    /// It has a place in the line, and can't go until its upstream has room.
    Blocked(Place),
    /// The store has been asked.
    Asked(Asked),
}

/// Why a limit does not admit a request.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The limit.
    pub limit: Arc<str>,
    /// Why.
    pub reason: Reason,
    /// The status for it.
    pub status: StatusCode,
    /// When to come back.
    pub retry_after: Duration,
    /// Whether what all clients share is full, not what this one may take.
    pub shared: bool,
}

impl Refusal {
    /// There is no place for this key.
    pub(super) fn crowded(policy: &Policy, key: KeyId, crowded: Crowded) -> Self {
        let (reason, retry_after) = match crowded {
            Crowded::Full(free) if policy.rule_of(key).has_line() => (Reason::Full, free),
            Crowded::Full(free) => (Reason::Quota, free),
            Crowded::MaxWait(free) => (Reason::MaxWait, free),
        };
        Self {
            limit: Arc::clone(&policy.name),
            reason,
            status: policy.status,
            retry_after,
            shared: false,
        }
    }

    /// There is no place for anyone.
    pub(super) fn shared(policy: &Policy, reason: Reason) -> Self {
        Self {
            limit: Arc::clone(&policy.name),
            reason,
            status: StatusCode::SERVICE_UNAVAILABLE,
            retry_after: Duration::from_secs(1),
            shared: true,
        }
    }
}
