//! Which quantities does weir compute with, and how are they read from text?

mod clock;
mod duration;
mod moment;
mod rate;
mod remaining;
mod size;

pub use clock::Clock;
pub use duration::{Human, parse_duration, whole_seconds};
pub use moment::Moment;
pub use rate::{Interval, Rate, RateError};
pub use remaining::Remaining;
pub use size::parse_size;
