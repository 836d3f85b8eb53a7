//! What do many samples come to: their middle, their tail, their spread?

use std::time::{Duration, Instant};

/// A count as a number to reckon with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and bytes here stay far below 2^52"
)]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

pub(crate) fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Samples in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Sorted(Vec<f64>);

impl Sorted {
    pub(crate) fn new(samples: impl IntoIterator<Item = f64>) -> Self {
        let mut samples = samples.into_iter().collect::<Vec<_>>();
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }

    /// The smallest sample that at least `per_mille` thousandths do not exceed; `NaN` of none.
    pub(crate) fn percentile(&self, per_mille: usize) -> f64 {
        let rank = (self.0.len() * per_mille).div_ceil(1000);
        let found = self.0.get(rank.saturating_sub(1));
        found.copied().unwrap_or(f64::NAN)
    }

    /// The middle one, or the mean of the middle two.
    pub(crate) fn median(&self) -> f64 {
        let upper = self.0.len() / 2;
        let lower = self.0.len().saturating_sub(1) / 2;
        let at = |index| self.0.get(index).copied().unwrap_or(f64::NAN);
        f64::midpoint(at(lower), at(upper))
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

/// How evenly requests left, against one every `interval`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// |gap - interval| in milliseconds.
    pub(crate) error_p50: f64,
    pub(crate) error_p99: f64,
    pub(crate) error_p999: f64,
    /// Departures in one aligned millisecond.
    pub(crate) crowd_p999: f64,
    pub(crate) crowd_most: f64,
    /// Departures to those expected, in percent.
    pub(crate) kept: f64,
}

impl Spacing {
    /// `None` of fewer than two departures. `departures` are in order.
    pub(crate) fn of(departures: &[Instant], interval: Duration) -> Option<Self> {
        let (first, last) = (departures.first()?, departures.last()?);
        let gaps = departures.iter().zip(departures.iter().skip(1));
        let errors = Sorted::new(
            gaps.clone()
                .map(|(one, next)| milliseconds(next.duration_since(*one).abs_diff(interval))),
        );
        let span = last.duration_since(*first);
        let mut crowds = vec![0_u64; usize::try_from(span.as_millis()).ok()? + 1];
        for departure in departures {
            let bucket = departure.duration_since(*first).as_millis();
            *crowds.get_mut(usize::try_from(bucket).ok()?)? += 1;
        }
        let crowds = Sorted::new(crowds.into_iter().map(number));
        let expected = span.div_duration_f64(interval);
        let left = number(u64::try_from(gaps.len()).ok()?);
        (expected > 0.0).then(|| Self {
            error_p50: errors.percentile(500),
            error_p99: errors.percentile(990),
            error_p999: errors.percentile(999),
            crowd_p999: crowds.percentile(999),
            crowd_most: crowds.most(),
            kept: left / expected * 100.0,
        })
    }
}
