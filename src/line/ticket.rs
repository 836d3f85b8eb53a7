//! What does one who waits hold, and what is it given when its turn comes?

use super::ledger::Loan;
use crate::units::Moment;

/// A place in the line: the earlier number goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    number: u64,
    joined: Moment,
    cost: u32,
}

impl Ticket {
    pub(super) const fn new(number: u64, cost: u32, joined: Moment) -> Self {
        Self {
            number,
            joined,
            cost,
        }
    }

    /// When its holder joined the line.
    pub const fn joined(self) -> Moment {
        self.joined
    }

    /// How many slots its holder needs.
    pub const fn cost(self) -> u32 {
        self.cost
    }
}

/// What is lent to the one whose turn it is.
#[derive(Debug)]
pub struct Promise<T> {
    /// Whose turn it is.
    pub ticket: Ticket,
    /// How to reach it.
    pub waiter: T,
    /// The slots in its hand.
    pub loan: Loan,
    /// When the last of them was due.
    pub due: Moment,
    /// Slots that went by unused before this one.
    pub missed: u64,
}
