//! Who waits in a bucket, and when may the next one go?
//!
//! Everything here is pure: the caller says what time it is. `pace` holds the
//! arithmetic of slots, `load` who may still have one, `ledger` the slots that may yet come back, `bucket` the
//! line itself, `queue` those who wait in it, `held` what keeps all of it back. Where
//! instances share a line, `mirror` is what one of them knows of it, `shared` what a
//! bucket does by that, and `sync` has the words between it and the store.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod bucket;
mod held;
#[cfg(test)]
pub(crate) mod laws;
mod ledger;
mod load;
mod mirror;
mod pace;
mod queue;
mod shared;
mod sync;
mod ticket;

pub use bucket::Bucket;
pub use ledger::Loan;
pub use load::{Crowded, Verdict};
pub use pace::{Pace, PaceError, Slot, TOLERANCE};
pub use shared::{Heard, Unplaced};
pub use sync::{Answer, Call, Grant, Known, Reach, Run, Unused};
pub use ticket::{Promise, Ticket};
