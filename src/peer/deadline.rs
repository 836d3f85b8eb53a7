//! By when must a client have moved?

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An instant that may be set, moved and cleared from anywhere; milliseconds
/// since the process began, zero for none.
#[derive(Debug, Default)]
pub struct Deadline(AtomicU64);

impl Deadline {
    /// To be over after `span`.
    pub fn set(&self, span: Duration) {
        self.set_from(Instant::now(), span);
    }

    /// The same from an instant that was looked at before.
    pub fn set_from(&self, now: Instant, span: Duration) {
        let since = now.saturating_duration_since(*START);
        self.0.store(millis(since + span).max(1), Ordering::Relaxed);
    }

    pub(super) fn set_if_none(&self, span: Duration) {
        if !self.is_set() {
            self.set(span);
        }
    }

    /// To be over never.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether it ever is.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether it has passed.
    pub fn is_over(&self) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at != 0 && millis(START.elapsed()) > at
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
