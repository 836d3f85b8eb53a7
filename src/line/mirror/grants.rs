//! Which slots has the store promised to this instance?

use std::collections::VecDeque;

use crate::line::sync::Grant;
use crate::units::Moment;

/// Promised slots that nobody has in hand yet, the earliest first.
#[derive(Debug, Default)]
pub(in crate::line) struct Grants {
    queue: VecDeque<Grant>,
    slots: usize,
}

impl Grants {
    pub(in crate::line) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many slots they are.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// When the last of the first `cost` slots is due, where there are so many.
    pub(in crate::line) fn due(&self, cost: u32) -> Option<Moment> {
        let last = self.queue.get(self.position(cost)?);
        last.map(|grant| grant.slot)
    }

    /// Which grant the last of the first `cost` slots lies in.
    fn position(&self, cost: u32) -> Option<usize> {
        let mut needed = cost;
        self.queue.iter().position(|grant| {
            needed = needed.saturating_sub(grant.count);
            needed == 0
        })
    }

    /// More were promised.
    pub(super) fn extend(&mut self, grants: impl Iterator<Item = Grant>) {
        for grant in grants {
            self.slots = self.slots.saturating_add(grant.count as usize);
            self.queue.push_back(grant);
        }
        let grants = self.queue.make_contiguous();
        grants.sort_unstable_by_key(|grant| grant.number);
    }

    /// One comes back that is still in time for another.
    pub(super) fn push_front(&mut self, grant: Grant) {
        self.slots = self.slots.saturating_add(grant.count as usize);
        self.queue.push_front(grant);
    }

    /// The first `cost` slots, or as many as there are.
    pub(super) fn take(&mut self, cost: u32, mut taken: impl FnMut(Grant)) {
        let mut needed = cost;
        while let Some(first) = self.queue.front_mut().filter(|_| needed > 0) {
            let part = split(first, needed);
            if first.count == 0 {
                self.queue.pop_front();
            }
            needed = needed.saturating_sub(part.count);
            self.slots = self.slots.saturating_sub(part.count as usize);
            taken(part);
        }
    }

    /// The grant in which the last of the first `cost` slots lies.
    pub(super) fn remove_last_of(&mut self, cost: u32) -> Option<Grant> {
        let grant = self.queue.remove(self.position(cost)?)?;
        self.slots = self.slots.saturating_sub(grant.count as usize);
        Some(grant)
    }

    /// Slots beyond the first `wanted` ones, the last first.
    pub(super) fn trim(&mut self, wanted: usize, mut spare: impl FnMut(Grant)) {
        while let Some(last) = self.queue.back_mut().filter(|_| self.slots > wanted) {
            let surplus = u32::try_from(self.slots.saturating_sub(wanted)).unwrap_or(u32::MAX);
            let part = split(last, surplus);
            if last.count == 0 {
                self.queue.pop_back();
            }
            self.slots = self.slots.saturating_sub(part.count as usize);
            spare(part);
        }
    }
}

/// So many slots of a grant, or all that it has: they are no longer in it.
fn split(grant: &mut Grant, most: u32) -> Grant {
    let part = Grant {
        count: grant.count.min(most),
        ..*grant
    };
    grant.count = grant.count.saturating_sub(part.count);
    part
}
