//! How is it told to the metrics that something happened?

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::{ConnectionFault, Fate, Outcome, Reason, StoreErrorKind, StoreScript, UpstreamError};

/// Class of a status, as a label.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What is counted for one limit.
#[derive(Debug)]
pub struct LimitMetrics {
    pub(super) refused: Vec<Counter>,
    pub(super) would_refuse: Vec<Counter>,
    pub(super) slots: Vec<Counter>,
    pub(super) waiting: Gauge,
    pub(super) line_length: Gauge,
    pub(super) oldest_wait: Gauge,
    pub(super) fullness: Gauge,
    pub(super) buckets: Gauge,
    pub(super) paused: Gauge,
    pub(super) wait: Histogram,
    pub(super) lateness: Histogram,
    pub(super) rate: Gauge,
    pub(super) burst: Gauge,
}

/// What is counted for one route.
#[derive(Debug)]
pub struct RouteMetrics {
    pub(super) requests: Vec<Counter>,
    pub(super) bodies_refused: Counter,
    pub(super) seconds: Vec<Histogram>,
}

/// What is counted for one upstream.
#[derive(Debug)]
pub struct UpstreamMetrics {
    pub(super) seconds: Vec<Histogram>,
    pub(super) errors: Vec<Counter>,
    pub(super) in_flight: Gauge,
    pub(super) max_in_flight: Gauge,
    pub(super) up: Gauge,
}

/// What is counted for a store that instances share.
#[derive(Debug)]
pub struct StoreMetrics {
    pub(super) calls: Vec<Histogram>,
    pub(super) batches: Vec<Histogram>,
    pub(super) errors: Vec<Vec<Counter>>,
    pub(super) up: Gauge,
    pub(super) degraded: Gauge,
    pub(super) instances: Gauge,
}

impl StoreMetrics {
    /// A call was answered.
    pub fn called(&self, script: StoreScript, took: Duration) {
        if let Some(calls) = self.calls.get(script as usize) {
            calls.record(took.as_secs_f64());
        }
    }

    /// A call asks for so many requests.
    pub fn batch(&self, script: StoreScript, size: u32) {
        if let Some(batches) = self.batches.get(script as usize) {
            batches.record(f64::from(size));
        }
    }

    /// A call was not answered.
    pub fn failed(&self, script: StoreScript, kind: StoreErrorKind) {
        if let Some(errors) = self.errors.get(script as usize) {
            bump(errors, kind as usize, 1);
        }
    }

    /// Whether the store is connected.
    pub fn up(&self, up: bool) {
        self.up.set(f64::from(u8::from(up)));
    }

    /// Whether limits go on without it.
    pub fn degraded(&self, degraded: bool) {
        self.degraded.set(f64::from(u8::from(degraded)));
    }

    /// How many instances share it.
    pub fn instances(&self, live: u32) {
        self.instances.set(f64::from(live));
    }
}

/// What is counted for the listener.
#[derive(Debug)]
pub struct ConnectionMetrics {
    pub(super) open: Gauge,
    pub(super) refused: Counter,
    pub(super) timed_out: Counter,
    pub(super) failed: Vec<Counter>,
}

fn bump(counters: &[Counter], which: usize, by: u64) {
    if let Some(counter) = counters.get(which) {
        counter.increment(by);
    }
}

/// The class of a status: 0 for `1xx` to 4 for `5xx`.
fn class(status: u16) -> usize {
    usize::from(status / 100)
        .saturating_sub(1)
        .min(CLASSES.len() - 1)
}

impl LimitMetrics {
    /// A request was refused.
    pub fn refused(&self, reason: Reason) {
        bump(&self.refused, reason as usize, 1);
    }

    /// A request would have been refused, were it not a dry run.
    pub fn would_refuse(&self, reason: Reason) {
        bump(&self.would_refuse, reason as usize, 1);
    }

    /// So many slots ended so.
    pub fn slots(&self, fate: Fate, count: u64) {
        bump(&self.slots, fate as usize, count);
    }

    /// One more waits.
    pub fn joined(&self) {
        self.waiting.increment(1.0);
    }

    /// One fewer waits.
    pub fn parted(&self) {
        self.waiting.decrement(1.0);
    }

    /// An admitted request waited so long.
    pub fn waited(&self, wait: Duration) {
        self.wait.record(wait.as_secs_f64());
    }

    /// A slot was handed out so late.
    pub fn late(&self, late: Duration) {
        self.lateness.record(late.as_secs_f64());
    }

    /// What the buckets look like now.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub fn seen(&self, buckets: usize, longest: usize, oldest: Duration) {
        self.buckets.set(buckets as f64);
        self.line_length.set(longest as f64);
        self.oldest_wait.set(oldest.as_secs_f64());
    }

    /// Of `most` that an idle bucket admits, the fullest one still admits `fewest`.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub fn room(&self, fewest: u64, most: u64) {
        let left = fewest.min(most) as f64 / most.max(1) as f64;
        self.fullness.set(1.0 - left);
    }

    /// Whether nobody may go for now.
    pub fn paused(&self, paused: bool) {
        self.paused.set(f64::from(u8::from(paused)));
    }

    /// What the config says.
    pub fn configured(&self, rate: f64, burst: u32) {
        self.rate.set(rate);
        self.burst.set(f64::from(burst));
    }
}

impl RouteMetrics {
    /// A request ended.
    pub fn ended(&self, outcome: Outcome) {
        bump(&self.requests, outcome as usize, 1);
    }

    /// A request's body was too large.
    pub fn body_refused(&self) {
        self.bodies_refused.increment(1);
    }

    /// An answer of this status was whole after so long.
    pub fn answered(&self, status: u16, took: Duration) {
        if let Some(seconds) = self.seconds.get(class(status)) {
            seconds.record(took.as_secs_f64());
        }
    }
}

impl UpstreamMetrics {
    /// The head of an answer came after so long.
    pub fn answered(&self, status: u16, took: Duration) {
        if let Some(seconds) = self.seconds.get(class(status)) {
            seconds.record(took.as_secs_f64());
        }
    }

    /// Something went wrong.
    pub fn failed(&self, kind: UpstreamError) {
        bump(&self.errors, kind as usize, 1);
    }

    /// So many requests are under way now.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub fn in_flight(&self, count: usize) {
        self.in_flight.set(count as f64);
    }

    /// So many requests may be under way at once.
    pub fn bounded(&self, most: Option<u32>) {
        self.max_in_flight
            .set(most.map_or(f64::INFINITY, f64::from));
    }

    /// Whether it is well.
    pub fn up(&self, up: bool) {
        self.up.set(f64::from(u8::from(up)));
    }
}

impl ConnectionMetrics {
    /// A client connected.
    pub fn opened(&self) {
        self.open.increment(1.0);
    }

    /// A connection ended.
    pub fn closed(&self) {
        self.open.decrement(1.0);
    }

    /// A client was turned away.
    pub fn refused(&self) {
        self.refused.increment(1);
    }

    /// A client made no progress for too long.
    pub fn timed_out(&self) {
        self.timed_out.increment(1);
    }

    /// A connection ended for what its client sent.
    pub fn failed(&self, kind: ConnectionFault) {
        bump(&self.failed, kind as usize, 1);
    }
}
