//! Who waits in this instance, and how do they learn that it is their turn?
//!
//! `ask` has the words between a request and a limit, `limiter` answers them,
//! `place` is a place in its line and the slot that follows it, `gate` keeps an
//! upstream from being asked too much at once, and `places` leads one request
//! through all of them. Where instances share buckets, `exchange` is the talk with
//! their store and `standing` says who is in charge of a bucket.

mod ask;
mod between;
mod crowd;
mod door;
mod exchange;
mod gate;
mod limiter;
mod pauses;
mod place;
mod places;
mod snapshot;
mod standing;
#[cfg(test)]
mod waiting_tests;

pub use ask::{Ask, Census, Entry, Refusal, Usable};
pub use crowd::Crowd;
pub use gate::{Gate, GateId, Permit};
pub use limiter::{Limiter, SlotTimer, Wake};
pub use pauses::{MOST_PAUSED_KEYS, TooManyPaused};
pub use place::{Asked, Evicted, Place, Turn};
pub use places::{Claim, Claims, Pass, Places, Refused, Unserved};
pub use snapshot::BucketView;
