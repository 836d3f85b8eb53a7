//! How long may a benchmark take?

use std::time::Duration;

/// How thoroughly it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Full,
    Quick,
}

impl Length {
    /// The one or the other, for a full or a quick run.
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }

    /// How long one measurement lasts.
    pub(crate) fn window(self, full: Duration) -> Duration {
        self.pick(full, full / 2)
    }
}
