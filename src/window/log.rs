//! When did each of those pass who still count?

use std::collections::VecDeque;
use std::time::Duration;

use super::{Window, until};

/// All that passed within the span, one by one: as many at most as the limit.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    /// What all entries cost.
    logged: u64,
    /// The last that passed: the log's time does not go back before it.
    newest: u64,
    /// What the store knows one by one, and this instance as one.
    block: Block,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    number: u64,
    cost: u32,
}

/// Some that passed, of whom only the last one's time is known, and when the next one
/// may pass.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    count: u64,
    /// Where that is known.
    frees: Option<u64>,
    newest: u64,
}

impl Log {
    /// Goes on to `now`; the time that counts, which never lies before the last entry.
    /// Where the clock stepped back by more than the span, all entries go with it.
    pub(super) fn advance(&mut self, window: &Window, now: u64) -> u64 {
        let back = self.newest.saturating_sub(now);
        if back > window.span {
            for entry in &mut self.entries {
                entry.at = entry.at.saturating_sub(back);
            }
            let frees = &mut self.block.frees;
            *frees = frees.map(|frees| frees.saturating_sub(back));
            self.block.newest = self.block.newest.saturating_sub(back);
            self.newest = now;
        }
        let now = now.max(self.newest);
        let is_over = |at: u64| at.saturating_add(window.span) <= now;
        while let Some(entry) = self.entries.pop_front_if(|entry| is_over(entry.at)) {
            self.logged = self.logged.saturating_sub(u64::from(entry.cost));
        }
        if is_over(self.block.newest) {
            self.block = Block::default();
        }
        now
    }

    pub(super) const fn used(&self) -> u64 {
        self.logged.saturating_add(self.block.count)
    }

    /// How many more may pass at `now`.
    pub(super) fn room(&self, limit: u64, now: u64) -> u64 {
        let room = limit.saturating_sub(self.used());
        // Of those that the store knows one by one, one has gone by then.
        let one_gone = self.entries.is_empty() && self.block.frees.is_some_and(|at| at <= now);
        room.max(u64::from(one_gone && limit > 0))
    }

    pub(super) fn take(&mut self, now: u64, number: u64, cost: u32) {
        if cost > 0 {
            self.entries.push_back(Entry {
                at: now,
                number,
                cost,
            });
            self.logged = self.logged.saturating_add(u64::from(cost));
            self.newest = now;
        }
    }

    /// Who passed under this number did not after all.
    pub(super) fn give_back(&mut self, number: u64) {
        let found = self
            .entries
            .binary_search_by_key(&number, |entry| entry.number);
        if let Some(entry) = found.ok().and_then(|found| self.entries.remove(found)) {
            self.logged = self.logged.saturating_sub(u64::from(entry.cost));
        }
    }

    /// Until `cost` more may pass, if nobody comes.
    pub(super) fn free_in(&self, window: &Window, now: u64, cost: u32) -> Duration {
        let must_go = self.used().saturating_add(u64::from(cost));
        let mut must_go = must_go.saturating_sub(u64::from(window.limit));
        if must_go == 0 {
            return Duration::ZERO;
        }
        if let Some(frees) = self
            .block
            .frees
            .filter(|_| cost == 1 && self.entries.is_empty())
        {
            return until(frees, now);
        }
        must_go = must_go.saturating_sub(self.block.count);
        let mut last = self.block.newest;
        for entry in &self.entries {
            if must_go == 0 {
                break;
            }
            must_go = must_go.saturating_sub(u64::from(entry.cost));
            last = entry.at;
        }
        until(last.saturating_add(window.span), now)
    }

    pub(super) fn idle_in(&self, span: u64, now: u64) -> Duration {
        let logged = self.entries.back().map(|entry| entry.at);
        let block = Some(self.block.newest).filter(|_| self.block.count > 0);
        let last = logged.max(block);
        last.map_or(Duration::ZERO, |last| until(last.saturating_add(span), now))
    }

    /// What the store says.
    pub(super) fn tell(&mut self, [frees, count, newest]: [u64; 3]) {
        *self = Self {
            newest,
            block: Block {
                count,
                frees: Some(frees),
                newest,
            },
            ..Self::default()
        };
    }

    /// The same as one instance's part: what is left of the whole, in parts.
    pub(super) fn scale(&mut self, part: impl Fn(u64) -> u64) {
        self.block.count = part(self.block.count);
        // One that goes is not this instance's alone.
        self.block.frees = None;
    }
}
