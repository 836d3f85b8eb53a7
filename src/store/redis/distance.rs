//! How far away is the store?

use std::time::Duration;

use crate::line::Reach;

/// Slots are promised at least so far ahead, and at most.
const HORIZON: Duration = Duration::from_millis(30);
const FURTHEST: Duration = Duration::from_millis(250);

/// What a promise needs beyond the way to be heard of in time.
const SPARE: Duration = Duration::from_millis(15);

/// The usual round trip and how much it varies, smoothed as TCP does (RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    smoothed: Duration,
    varies: Duration,
}

impl Distance {
    /// A round trip took so long.
    pub(super) fn observe(&mut self, trip: Duration) {
        if self.smoothed.is_zero() {
            *self = Self {
                smoothed: trip,
                varies: trip / 8,
            };
            return;
        }
        let off = self.smoothed.abs_diff(trip);
        self.varies = (self.varies * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + trip) / 8;
    }

    /// How early to call, and how far ahead slots are promised.
    pub(super) fn reach(&self) -> Reach {
        let lead = (self.smoothed + self.varies * 4).min(FURTHEST);
        Reach {
            round_trip: self.smoothed,
            lead,
            // The way back, and what it varies by.
            notice: (self.smoothed / 2 + self.varies * 2).min(FURTHEST),
            // Between two of its calls there must be slots that it can hear of in time.
            horizon: (lead + self.smoothed + SPARE).clamp(HORIZON, FURTHEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_promised_as_far_ahead_as_the_way_is_long() {
        let reach = |trip: u64| {
            let mut distance = Distance::default();
            (0..100).for_each(|_| distance.observe(Duration::from_millis(trip)));
            distance.reach()
        };
        assert_eq!(reach(0).horizon, HORIZON);
        assert_eq!(reach(80).lead.as_millis(), 80);
        assert_eq!(reach(80).notice.as_millis(), 40);
        assert_eq!(reach(80).horizon.as_millis(), 175);
        assert_eq!(reach(10_000).horizon, FURTHEST);
    }
}
