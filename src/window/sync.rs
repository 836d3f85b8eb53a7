//! In which words do an instance and the store speak of a window that is shared?

use smallvec::SmallVec;

use super::tally::Loan;
use crate::units::Moment;

/// How a key stands, on the store's own clock. A fixed window: its start, what passed in
/// it, nothing. A log: when the next one may pass, what it holds, when the last passed.
/// A counter: its window's start, what passed in it, what in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures(pub [u64; 3]);

/// The last that an instance heard of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// All that ever passed.
    pub number: u64,
    /// How it stood.
    pub figures: Figures,
}

/// What passed here without a word to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    /// When the last of it did.
    pub at: Moment,
    /// How much.
    pub cost: u32,
}

/// What an instance says of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What it has heard of it; none at first.
    pub known: Option<Known>,
    /// What passed here while the store was away.
    pub owed: SmallVec<[Owed; 2]>,
    /// What was had and not used.
    pub returned: Vec<Loan>,
    /// Those who want to pass, in their order.
    pub wanted: Vec<Run>,
}

/// Some who came one after the other and cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many they are.
    pub count: u32,
    /// What each of them costs.
    pub cost: u32,
}

/// What the store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its clock.
    pub now: Moment,
    /// What is known of the key from now on.
    pub known: Known,
    /// How many of each run pass.
    pub passed: Vec<u32>,
}

impl Loan {
    /// When it passed, on the clock by which windows are told.
    pub const fn at(&self) -> Moment {
        self.at
    }

    /// Of what it took, the first one's number in the store; 0 where it has none there.
    pub const fn number(&self) -> u64 {
        if self.shared { self.number } else { 0 }
    }

    /// How much it took.
    pub const fn cost(&self) -> u32 {
        self.cost
    }
}
