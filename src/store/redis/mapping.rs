//! What time is it on a store's clock, and when is that here?

use std::time::Duration;

use crate::units::Moment;

/// How fast two clocks may drift apart: a microsecond in ten milliseconds.
const DRIFT: u64 = 10_000;

/// How far off a clock must be, beyond all doubt, to have been set anew.
const STEP: i64 = 1_000;

/// How the store's clock and this instance's relate. Of all calls the quickest say
/// it best: an answer's time was read somewhere between its call and its arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mapping {
    offset: i64,
    doubt: u64,
    since: Moment,
    is_set: bool,
}

impl Mapping {
    /// The store's clock stood at `theirs` at some time from `sent` to `got`.
    pub(super) fn observe(&mut self, theirs: u64, sent: Moment, got: Moment) {
        let trip = micros(got.since(sent));
        let here = sent.as_micros().saturating_add(trip / 2);
        let offset = signed(theirs).saturating_sub(signed(here));
        let doubt = trip / 2;
        let aged = self
            .doubt
            .saturating_add(micros(got.since(self.since)) / DRIFT);
        let apart = offset.saturating_sub(self.offset).saturating_abs();
        let stepped = apart > signed(doubt.saturating_add(aged)).saturating_add(STEP);
        if !self.is_set || doubt <= aged || stepped {
            *self = Self {
                offset,
                doubt,
                since: got,
                is_set: true,
            };
        }
    }

    /// When it is `theirs` on the store's clock.
    pub(super) fn here(&self, theirs: u64) -> Moment {
        let here = signed(theirs).saturating_sub(self.offset);
        Moment::from_micros(u64::try_from(here).unwrap_or(0))
    }

    /// What the store's clock says at `here`, if it has ever been heard.
    pub(super) fn there(&self, here: Moment) -> Option<u64> {
        let theirs = signed(here.as_micros()).saturating_add(self.offset);
        self.is_set.then(|| u64::try_from(theirs).ok())?
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 3_155_760_000_000_000;
    const THERE: u64 = 1_700_000_000_000_000;

    fn at(micros: u64) -> Moment {
        Moment::from_micros(HERE + micros)
    }

    #[test]
    fn the_quickest_calls_say_it_best() {
        let mut mapping = Mapping::default();
        mapping.observe(THERE + 9_000, at(0), at(10_000));
        assert_eq!(
            mapping.here(THERE + 9_000),
            at(5_000),
            "the middle, at first"
        );
        mapping.observe(THERE + 20_100, at(20_000), at(20_200));
        assert_eq!(mapping.here(THERE + 30_000), at(30_000));
        mapping.observe(THERE + 40_000, at(40_000), at(48_000));
        assert_eq!(
            mapping.here(THERE + 50_000),
            at(50_000),
            "a slow one teaches nothing"
        );
        assert_eq!(mapping.there(at(50_000)), Some(THERE + 50_000));
    }

    #[test]
    fn a_clock_that_was_set_anew_is_believed_at_once() {
        let mut mapping = Mapping::default();
        mapping.observe(THERE, at(0), at(200));
        mapping.observe(THERE - 60_000_000, at(1_000), at(9_000));
        assert_eq!(mapping.here(THERE - 60_000_000), at(5_000));
    }
}
