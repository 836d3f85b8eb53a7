//! Who waits, in which order, and how many slots do they all need?

use std::collections::BTreeMap;

use super::ticket::Ticket;

/// Those who wait, first come first.
#[derive(Debug)]
pub(super) struct Queue<T> {
    by_ticket: BTreeMap<Ticket, T>,
    slots: usize,
}

impl<T> Queue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// How many slots all of them need.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// How many slots those before `ticket` need, counted no further than `most` of them.
    pub(super) fn slots_before(&self, ticket: Ticket, most: usize) -> usize {
        let before = self.by_ticket.range(..ticket).take(most);
        before.map(|(ticket, _)| ticket.cost() as usize).sum()
    }

    pub(super) fn insert(&mut self, ticket: Ticket, waiter: T) {
        if self.by_ticket.insert(ticket, waiter).is_none() {
            self.slots = self.slots.saturating_add(ticket.cost() as usize);
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let waiter = self.by_ticket.remove(&ticket)?;
        self.slots = self.slots.saturating_sub(ticket.cost() as usize);
        Some(waiter)
    }

    pub(super) fn pop_first(&mut self) -> Option<(Ticket, T)> {
        let (ticket, waiter) = self.by_ticket.pop_first()?;
        self.slots = self.slots.saturating_sub(ticket.cost() as usize);
        Some((ticket, waiter))
    }

    pub(super) fn first(&self) -> Option<(Ticket, &T)> {
        let (ticket, waiter) = self.by_ticket.first_key_value()?;
        Some((*ticket, waiter))
    }

    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.by_ticket.get_mut(&ticket)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        let each = self.by_ticket.iter();
        each.map(|(ticket, waiter)| (*ticket, waiter))
    }

    /// All of them, in their order; nobody waits any more.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.slots = 0;
        std::mem::take(&mut self.by_ticket).into_values()
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            by_ticket: BTreeMap::new(),
            slots: 0,
        }
    }
}
