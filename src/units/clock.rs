//! What time is it for the memory store?

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::Moment;

/// Microseconds at which a process begins to count: a hundred years, so that
/// idle credit never reaches back before zero.
const START: Moment = Moment::from_micros(100 * 365 * 86_400 * 1_000_000);

/// A monotonic clock in whole microseconds. It stands still where tokio's does.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What time it is.
    pub fn now(&self) -> Moment {
        START.after(self.0.elapsed())
    }

    /// What time it is since 1970 by the clock on the wall, which may step back: for what
    /// people say begins on the full hour.
    #[expect(
        clippy::disallowed_methods,
        reason = "fixed windows are aligned to UTC, and count a step back as standing still"
    )]
    pub fn utc() -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Moment::default().after(since.unwrap_or_default())
    }

    /// When `moment` is for tokio's timers.
    pub fn instant(&self, moment: Moment) -> Instant {
        let in_ = moment.since(self.now());
        Instant::now() + in_.min(Duration::from_hours(365 * 24))
    }
}
