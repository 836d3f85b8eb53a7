//! In which words do an instance and the store speak of a bucket that is shared?

use std::time::Duration;

use crate::units::Moment;

/// How far away the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The usual round trip.
    pub round_trip: Duration,
    /// How much earlier than a slot a call for it must begin.
    pub lead: Duration,
    /// How much earlier than a slot the store must promise it, to be heard in time.
    pub notice: Duration,
    /// How far ahead slots are promised.
    pub horizon: Duration,
}

/// A slot promised to this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The bucket's promises are numbered.
    pub number: u64,
    /// When the slot is due.
    pub slot: Moment,
    /// How many slots it stands for, of which `number` is the last.
    pub count: u32,
}

/// Slots that were promised and that nobody used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unused {
    /// The number of their promise.
    pub number: u64,
    /// How many they are.
    pub count: u32,
}

/// The last that an instance heard of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// How many slots had been promised.
    pub number: u64,
    /// The next free slot, on the store's own clock.
    pub next: u64,
}

/// Newcomers who came one after the other and ask for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many they are.
    pub count: u32,
    /// How long they would wait at most.
    pub max_wait: Option<Duration>,
    /// How many slots each of them needs.
    pub cost: u32,
}

/// What an instance says of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What it has heard of the bucket; none at first.
    pub known: Option<Known>,
    /// The next free slot that it has come to by itself, while the store was away.
    pub owed: Option<Moment>,
    /// How many slots its requests in the line have yet to get.
    pub held: usize,
    /// How many slots those need who have a place and can't go.
    pub aside: usize,
    /// Whether it has tickets in the line, or should have.
    pub has_tickets: bool,
    /// Whether its tickets go to the tail: it misses its slots.
    pub at_tail: bool,
    /// Whether slots must come no earlier than it can hear of them.
    pub needs_lead: bool,
    /// Promises that nobody used, the last first.
    pub returned: Vec<Unused>,
    /// Which of its tickets, counted from 1, were given up; a hint.
    pub left: Vec<u32>,
    /// How many slots were used here since, by what the last answer had left.
    pub spent: u32,
    /// How far ahead of the present that may bring the bucket.
    pub debt: Duration,
    /// Those who want a place.
    pub wanted: Vec<Run>,
    /// For how long nobody may go, if someone said so.
    pub hold: Option<Duration>,
    /// For how long the bucket is paused, as this instance knows.
    pub paused: Option<Duration>,
    /// The edition of the list of dead instances that was told last.
    pub buried: u64,
}

/// What the store answers, on this instance's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What is known of the bucket from now on.
    pub known: Known,
    /// The next free slot.
    pub next: Moment,
    /// Until when nobody may go.
    pub hold: Moment,
    /// How many tickets are in the line.
    pub length: usize,
    /// How many of them are this instance's.
    pub tickets: usize,
    /// How many are before the first of them.
    pub place: Option<usize>,
    /// How many of each run have a place now.
    pub joined: Vec<u32>,
    /// Slots promised to this instance.
    pub grants: Vec<Grant>,
    /// The edition of the list of dead instances that was told with the call.
    pub buried: u64,
}
