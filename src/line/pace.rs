//! Which slots does a rate give, and who may still have one?

use std::time::Duration;

use crate::units::{Human, Interval, Moment, Rate, whole_seconds};

/// How late a slot may be used, at most, and still count as on time. Later than
/// this it is gone, so that a stalled process does not make up for lost time.
pub const TOLERANCE: Duration = Duration::from_millis(2);

/// As much is allowed at any rate: a wake-up on a busy machine comes so late.
const LEAST_TOLERANCE: Duration = Duration::from_micros(500);

/// How early, at most, a limit without places lets a request go: clients that
/// keep its pace to the dot still arrive a hair before their slot.
const HAIR: Duration = Duration::from_millis(1);

/// The longest line that a limit may promise to drain.
const LONGEST_DRAIN: Duration = Duration::from_hours(10 * 365 * 24);

/// An instant at which a bucket may let a request go: `part` counts in the
/// fraction of a microsecond in which its limit's interval is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    at: Moment,
    part: u32,
}

impl Slot {
    /// The slot's instant, its fraction of a microsecond cut off.
    pub const fn at(self) -> Moment {
        self.at
    }
}

/// The arithmetic of one limit: an interval between slots, `burst` requests
/// beyond the steady rate, the first `delay` of which need not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    rate: Rate,
    interval: Interval,
    burst: u32,
    delay: u32,
}

/// Why a burst does not go with its rate.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PaceError {
    /// More requests would pass at once than the burst has.
    #[error("delay {delay} is above the burst of {burst}")]
    Delay {
        /// The delay asked for.
        delay: u32,
        /// The burst that it is part of.
        burst: u32,
    },
    /// The last one in line would wait for years.
    #[error("a burst of {burst} at {rate} takes {} to drain; at most {} can be kept exactly", Human(*drain), Human(LONGEST_DRAIN))]
    Drain {
        /// The burst asked for.
        burst: u32,
        /// The rate at which it would drain.
        rate: Rate,
        /// How long that would take.
        drain: Duration,
    },
}

/// A slot after one was used.
pub(super) struct Taken {
    pub(super) next: Slot,
    pub(super) missed: u64,
}

impl Pace {
    /// A pace of `rate` with `burst` and `delay`.
    pub fn new(rate: Rate, burst: u32, delay: u32) -> Result<Self, PaceError> {
        if delay > burst {
            return Err(PaceError::Delay { delay, burst });
        }
        let pace = Self {
            rate,
            interval: rate.interval(),
            burst,
            delay,
        };
        let drain = pace.span(pace.intervals(u64::from(burst).saturating_add(1)));
        if drain > LONGEST_DRAIN {
            return Err(PaceError::Drain { burst, rate, drain });
        }
        Ok(pace)
    }

    /// The steady rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The time between two slots, rounded up to whole microseconds.
    pub fn interval(&self) -> Duration {
        self.span(self.interval.ticks())
    }

    /// How many may wait, or go at once, beyond the steady rate.
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// How many of the burst pass without waiting.
    pub const fn delay(&self) -> u32 {
        self.delay
    }

    /// Whether requests may wait at all; where not, they pass or are refused at once.
    pub const fn has_line(&self) -> bool {
        self.burst > self.delay
    }

    /// The interval as whole microseconds and a part of one more.
    pub fn parts(&self) -> (u64, u32, u32) {
        self.interval.parts()
    }

    /// How long a newcomer may wait, in the ticks of the interval.
    pub fn bound_in_ticks(&self) -> u64 {
        u64::try_from(self.bound()).unwrap_or(u64::MAX)
    }

    /// The part of each of `instances` that share the limit without a word between them.
    #[must_use]
    pub fn share(&self, instances: u32) -> Self {
        let part = |all: u32| all.checked_div(instances).unwrap_or(all);
        let Some(rate) = self.rate.share(instances) else {
            return *self;
        };
        // What the whole can drain in time, a part can with a part of the places.
        Self::new(rate, part(self.burst), part(self.delay)).unwrap_or(*self)
    }

    /// A pace at which nobody waits.
    pub fn open() -> Self {
        let rate = Rate::fastest();
        let all = u32::MAX;
        Self {
            rate,
            interval: rate.interval(),
            burst: all,
            delay: all,
        }
    }

    /// Whether nobody waits at this pace.
    pub const fn is_open(&self) -> bool {
        self.delay == u32::MAX
    }

    /// The slot after `count` others.
    pub(super) fn slot_after(&self, next: Slot, count: usize) -> Moment {
        let slot = self
            .ticks(next)
            .saturating_add(self.intervals(count as u64));
        self.slot(slot).at()
    }

    /// The slot `next`, or the first that may be used at `held`.
    pub(super) fn no_earlier(&self, next: Slot, held: Moment) -> Slot {
        self.slot(self.ticks(next).max(self.floor(held)))
    }

    /// The slot that would be next had `count` never been used.
    pub(super) fn slot_before(&self, next: Slot, count: usize) -> Slot {
        let before = self
            .ticks(next)
            .saturating_sub(self.intervals(count as u64));
        if count == 0 { next } else { self.slot(before) }
    }

    /// The slot at `at`.
    pub(super) const fn slot_at(at: Moment) -> Slot {
        Slot { at, part: 0 }
    }

    /// The longest wait of a request that is admitted.
    pub fn longest_wait(&self) -> Duration {
        self.span(self.intervals(u64::from(self.burst.saturating_sub(self.delay))))
    }

    /// The seconds in which the burst drains, at least one: the window of a
    /// `RateLimit-Policy`.
    pub fn window(&self) -> u64 {
        let drain = self.span(self.intervals(u64::from(self.burst.max(1))));
        whole_seconds(drain)
    }

    /// The next slot of a bucket to which nobody has come.
    pub(super) fn fresh(&self, now: Moment) -> Slot {
        self.slot(self.floor(now))
    }

    /// Whether a bucket with this next slot is as if nobody had come.
    pub(super) fn is_fresh(&self, next: Slot, now: Moment) -> bool {
        self.ticks(next) <= self.floor(now)
    }

    /// The slot `next`, or the one `ahead` intervals from now if that is earlier.
    pub(super) fn no_later(&self, next: Slot, ahead: u32, now: Moment) -> Slot {
        let most = self
            .at(now)
            .saturating_add(self.intervals(u64::from(ahead)));
        self.slot(self.ticks(next).min(most))
    }

    /// Uses `cost` slots from `next` on, at `now`, for a request that found the line
    /// empty: idle credit never reaches back further than `delay` intervals.
    pub(super) fn take_on_arrival(&self, next: Slot, now: Moment, cost: u32) -> Slot {
        let next = self.ticks(next).max(self.floor(now));
        self.slot(next.saturating_add(self.intervals(u64::from(cost))))
    }

    /// Uses `cost` slots from `next` on, at `now`, for one who waited for the last of
    /// them. One that came no later than is tolerated keeps the grid, so that late
    /// wake-ups do not add up; what came later than that is gone.
    /// Slots from before `from`, when it joined or might not go, were nobody's.
    pub(super) fn take_in_turn(&self, next: Slot, from: Moment, now: Moment, cost: u32) -> Taken {
        let kept = self.floor(now).saturating_sub(self.tolerance());
        let before = u64::from(cost.saturating_sub(1));
        let first = self.ticks(next).max(self.floor(from));
        let due = first.saturating_add(self.intervals(before));
        let missed = kept
            .saturating_sub(due)
            .checked_div(self.interval.ticks())
            .unwrap_or(0);
        Taken {
            next: self.slot(due.max(kept).saturating_add(self.interval.ticks())),
            missed: u64::try_from(missed).unwrap_or(u64::MAX),
        }
    }

    /// How long a newcomer may wait: the places of the line, or for a limit
    /// without places the hair by which a punctual client comes early.
    pub(super) fn bound(&self) -> u128 {
        if self.has_line() {
            self.intervals(u64::from(self.burst.saturating_sub(self.delay)))
        } else {
            let half = self.interval.ticks().checked_div(2).unwrap_or(0);
            half.min(self.duration(HAIR))
        }
    }

    /// Two intervals, within bounds: whatever the rate, a late wake-up is made up
    /// for without a crowd.
    fn tolerance(&self) -> u128 {
        self.intervals(2)
            .clamp(self.duration(LEAST_TOLERANCE), self.duration(TOLERANCE))
    }

    /// The earliest that `next` counts from: `delay` intervals of idle credit.
    pub(super) fn floor(&self, now: Moment) -> u128 {
        self.at(now)
            .saturating_sub(self.intervals(u64::from(self.delay)))
    }

    pub(super) fn intervals(&self, count: u64) -> u128 {
        self.interval.ticks().saturating_mul(u128::from(count))
    }

    pub(super) fn at(&self, moment: Moment) -> u128 {
        self.micros(u128::from(moment.as_micros()))
    }

    pub(super) fn duration(&self, span: Duration) -> u128 {
        self.micros(span.as_micros())
    }

    fn micros(&self, micros: u128) -> u128 {
        micros.saturating_mul(u128::from(self.interval.ticks_per_micro()))
    }

    /// After a reload the fraction may be another's: it never counts as a whole.
    pub(super) fn ticks(&self, slot: Slot) -> u128 {
        let part = slot
            .part
            .min(self.interval.ticks_per_micro().saturating_sub(1));
        self.at(slot.at).saturating_add(u128::from(part))
    }

    fn slot(&self, ticks: u128) -> Slot {
        let of = u128::from(self.interval.ticks_per_micro());
        let micros = ticks.checked_div(of).unwrap_or(ticks);
        let part = ticks.checked_rem(of).unwrap_or(0);
        Slot {
            at: Moment::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)),
            part: u32::try_from(part).unwrap_or(0),
        }
    }

    /// Rounded up to whole microseconds: coming back then succeeds.
    pub(super) fn span(&self, ticks: u128) -> Duration {
        let micros = ticks.div_ceil(u128::from(self.interval.ticks_per_micro()).max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}
