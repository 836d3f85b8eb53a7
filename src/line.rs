//! Who waits in a bucket, and when may the next one go?
//!
//! Everything here is pure: the caller says what time it is. `pace` holds the
//! arithmetic of slots, `ledger` the slots that may yet come back, `bucket` the
//! line itself.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod bucket;
#[cfg(test)]
mod laws;
mod ledger;
mod pace;

pub use bucket::{Bucket, Promise, Ticket};
pub use ledger::Loan;
pub use pace::{Crowded, Pace, PaceError, Remaining, Slot, TOLERANCE, Verdict};
