//! How many does the sliding window hold, by the counts of two fixed ones?

use std::time::Duration;

use super::{Window, until};

/// What passed in the present window and the one before, which counts for the part that
/// a window ending now still covers of it. Whole numbers throughout: a fraction of the
/// window before counts as a whole request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) start: u64,
    span: u64,
    pub(super) current: u64,
    pub(super) previous: u64,
}

impl Counter {
    /// Goes on to `now`, as a fixed window does.
    pub(super) fn advance(&mut self, window: &Window, now: u64) -> u64 {
        let start = window.start(now);
        if self.span == window.span && self.start == start.saturating_add(self.span) {
            return self.start;
        }
        let end = self.start.saturating_add(self.span);
        if end.saturating_add(self.span) <= now {
            (self.previous, self.current) = (0, 0);
        } else if end <= now {
            (self.previous, self.current) = (self.current, 0);
        }
        self.start = start;
        self.span = window.span;
        now
    }

    /// previous × (window − elapsed) / window + current, rounded up.
    pub(super) fn used(&self, now: u64) -> u64 {
        let rest = self.span.saturating_sub(now.saturating_sub(self.start));
        let weighed = u128::from(self.previous)
            .saturating_mul(u128::from(rest))
            .div_ceil(u128::from(self.span.max(1)));
        u64::try_from(weighed)
            .unwrap_or(u64::MAX)
            .saturating_add(self.current)
    }

    pub(super) fn take(&mut self, cost: u32) {
        self.current = self.current.saturating_add(u64::from(cost));
    }

    /// What passed at `at` did not after all.
    pub(super) fn give_back(&mut self, at: u64, cost: u32) {
        let end = self.start.saturating_add(self.span);
        let count = if (self.start..end).contains(&at) {
            &mut self.current
        } else if (self.start.saturating_sub(self.span)..self.start).contains(&at) {
            &mut self.previous
        } else {
            return;
        };
        *count = count.saturating_sub(u64::from(cost));
    }

    /// Until `cost` more may pass, if nobody comes.
    pub(super) fn free_in(&self, limit: u64, now: u64, cost: u32) -> Duration {
        let end = self.start.saturating_add(self.span);
        let cost = u64::from(cost);
        let then = if self.current.saturating_add(cost) <= limit {
            let room = limit.saturating_sub(self.current).saturating_sub(cost);
            self.start
                .saturating_add(self.elapsed_at(self.previous, room))
        } else {
            let room = limit.saturating_sub(cost);
            end.saturating_add(self.elapsed_at(self.current, room))
        };
        until(then, now)
    }

    /// How far into a window the one `before` it counts for no more than `room`.
    fn elapsed_at(&self, before: u64, room: u64) -> u64 {
        let rest = u128::from(room)
            .saturating_mul(u128::from(self.span))
            .checked_div(u128::from(before));
        let rest = rest.and_then(|rest| u64::try_from(rest).ok());
        self.span
            .saturating_sub(rest.unwrap_or(self.span).min(self.span))
    }

    pub(super) fn idle_in(&self, now: u64) -> Duration {
        let end = self.start.saturating_add(self.span);
        if self.current > 0 {
            until(end.saturating_add(self.span), now)
        } else if self.previous > 0 {
            until(end, now)
        } else {
            Duration::ZERO
        }
    }

    /// What the store says, under a window of `span`.
    pub(super) fn tell(&mut self, [start, current, previous]: [u64; 3], span: u64) {
        *self = Self {
            start,
            span,
            current,
            previous,
        };
    }

    /// The same as one instance's part: what is left of the whole, in parts.
    pub(super) fn scale(&mut self, part: impl Fn(u64) -> u64) {
        self.current = part(self.current);
        self.previous = part(self.previous);
    }
}
