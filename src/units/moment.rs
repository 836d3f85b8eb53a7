//! When does something happen, on the clock of a store?

use std::time::Duration;

/// An instant in whole microseconds on a store's clock.
///
/// The memory store counts from a hundred years before the process began, so
/// that the idle credit of a slow limit never reaches back before zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The moment `micros` microseconds after the clock's zero.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's zero.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The moment `span` later; spans beyond the clock's range stop at its end.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The moment `span` earlier, the clock's zero at the earliest.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// How long from `earlier` until this moment; zero where it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
