//! How many have passed of late, and may one more?
//!
//! The three limits that count in a span of time instead of spacing requests out:
//! `fixed` windows, a `log` of all that passed, and two `counter`s that slide.
//! Everything here is pure, as in `line`: the caller says what time it is. `tally` is
//! one key's state; where instances share it, `shared` is what one of them knows of
//! it, and `sync` has the words between it and the store.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod counter;
mod fixed;
#[cfg(test)]
pub(crate) mod laws;
mod log;
mod shared;
mod sync;
mod tally;

use std::fmt;
use std::time::Duration;

use crate::units::{Human, Moment, whole_seconds};

pub use shared::{Heard, Want};
pub use sync::{Answer, Call, Figures, Known, Owed, Run};
pub use tally::{Loan, Tally, Verdict};

/// How requests are counted in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From one full hour, minute or other multiple of the span to the next: both
    /// sides of such a boundary may be full.
    Fixed,
    /// Each for as long as the span: never more in any window of that length.
    Log,
    /// In fixed windows, of which the one before counts for the part that the sliding
    /// window still covers.
    Counter,
}

/// A limit of so many in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    kind: Kind,
    limit: u32,
    span: u64,
    offset: u64,
}

impl Window {
    /// At most `limit` in `span`. Fixed windows begin `offset` after multiples of it.
    pub fn new(kind: Kind, limit: u32, span: Duration, offset: Duration) -> Self {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let span = micros(span).max(1);
        Self {
            kind,
            limit,
            span,
            offset: micros(offset).checked_rem(span).unwrap_or(0),
        }
    }

    /// How it counts.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// How many may pass.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// In which span of time.
    pub const fn span(&self) -> Duration {
        Duration::from_micros(self.span)
    }

    /// How long after multiples of its span a fixed window begins.
    pub const fn offset(&self) -> Duration {
        Duration::from_micros(self.offset)
    }

    /// Requests a second, for a gauge.
    pub fn per_second(&self) -> f64 {
        f64::from(self.limit) / self.span().as_secs_f64()
    }

    /// The window of a `RateLimit-Policy` in whole seconds.
    pub fn seconds(&self) -> u64 {
        whole_seconds(self.span())
    }

    /// The part of one of `instances` that share the limit without a word between them,
    /// of whom `rank` come before it: all parts together are the whole.
    #[must_use]
    pub fn share(&self, instances: u32, rank: u32) -> Self {
        let limit = share(u64::from(self.limit), instances, rank);
        Self {
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            ..*self
        }
    }

    /// When the window began in which `now` lies.
    fn start(&self, now: u64) -> u64 {
        let into = now
            .saturating_sub(self.offset)
            .checked_rem(self.span)
            .unwrap_or(0);
        now.saturating_sub(into)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.limit, Human(self.span()))
    }
}

/// How many of `all` one of several gets; the first ones get the rest.
fn share(all: u64, instances: u32, rank: u32) -> u64 {
    let instances = u64::from(instances.max(1));
    let part = all.checked_div(instances).unwrap_or(all);
    let rest = all.checked_rem(instances).unwrap_or(0);
    part.saturating_add(u64::from(u64::from(rank) < rest))
}

/// From `now` until `then`.
fn until(then: u64, now: u64) -> Duration {
    Moment::from_micros(then).since(Moment::from_micros(now))
}
