//! How many passed in the window that it is now?

use std::time::Duration;

use super::{Window, until};

/// What passed in one window. At the boundary all of it is forgotten at once: twice the
/// limit may pass around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fixed {
    pub(super) start: u64,
    span: u64,
    pub(super) count: u64,
}

impl Fixed {
    /// Goes on to `now`; the time that counts, which never lies before the window.
    ///
    /// Where the clock stepped back, a window that has begun goes on: none is opened
    /// anew. One that is further ahead than its span, or of another span, becomes the
    /// present one with all that it counted.
    pub(super) fn advance(&mut self, window: &Window, now: u64) -> u64 {
        let start = window.start(now);
        if self.span == window.span && self.start == start.saturating_add(self.span) {
            return self.start;
        }
        if self.start.saturating_add(self.span) <= now {
            self.count = 0;
        }
        self.start = start;
        self.span = window.span;
        now
    }

    pub(super) const fn used(&self) -> u64 {
        self.count
    }

    pub(super) fn take(&mut self, cost: u32) {
        self.count = self.count.saturating_add(u64::from(cost));
    }

    /// What passed at `at` did not after all.
    pub(super) fn give_back(&mut self, at: u64, cost: u32) {
        if (self.start..self.start.saturating_add(self.span)).contains(&at) {
            self.count = self.count.saturating_sub(u64::from(cost));
        }
    }

    /// Until the next window opens.
    pub(super) fn free_in(&self, now: u64) -> Duration {
        until(self.start.saturating_add(self.span), now)
    }

    pub(super) fn idle_in(&self, now: u64) -> Duration {
        if self.count == 0 {
            return Duration::ZERO;
        }
        until(self.start.saturating_add(self.span), now)
    }

    /// What the store says, under a window of `span`.
    pub(super) fn tell(&mut self, [start, count, _]: [u64; 3], span: u64) {
        *self = Self { start, span, count };
    }

    /// The same as one instance's part: what is left of the whole, in parts.
    pub(super) fn scale(&mut self, part: impl Fn(u64) -> u64) {
        self.count = part(self.count);
    }
}
