//! What would a limit still admit?

use std::time::Duration;

/// What a limit would still admit under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// Requests that would be admitted if they all came now.
    pub admits: u64,
    /// Until one would be admitted.
    pub free_in: Duration,
    /// Until the key is as if nobody had come.
    pub idle_in: Duration,
}
