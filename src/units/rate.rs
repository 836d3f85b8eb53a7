//! How often may something happen, exactly?

use std::fmt;
use std::str::FromStr;

const MICROS_PER_SECOND: u64 = 1_000_000;
const SLOWEST: u64 = 86_400 * MICROS_PER_SECOND;
const FASTEST_PER_SECOND: u64 = 100_000;
/// Digits kept after the point in `0.5r/s`.
const DECIMALS: usize = 6;

/// A rate between one a day and a hundred thousand a second, held as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    requests: u64,
    micros: u64,
}

/// Why a rate was not taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RateError {
    /// The text has another shape.
    #[error(
        "`{0}` is not a rate: write a number and a unit, like 10r/s, 5r/m, 0.5r/s, 100r/h or 1r/d"
    )]
    Shape(String),
    /// A rate of zero would never let anything go.
    #[error("`{0}` must be above 0")]
    Zero(String),
    /// The rate lies outside what is kept exactly.
    #[error("`{0}` is out of range: from 1r/d to {FASTEST_PER_SECOND}r/s")]
    Range(String),
}

impl Rate {
    /// `requests` in every `micros` microseconds, reduced; `None` where it is
    /// zero, slower than one a day or faster than a hundred thousand a second.
    pub fn new(requests: u64, micros: u64) -> Option<Self> {
        let divisor = gcd(requests, micros);
        let (requests, micros) = (requests.checked_div(divisor)?, micros.checked_div(divisor)?);
        let fast = u128::from(requests).saturating_mul(u128::from(MICROS_PER_SECOND))
            > u128::from(micros).saturating_mul(u128::from(FASTEST_PER_SECOND));
        let slow = u128::from(micros) > u128::from(requests).saturating_mul(u128::from(SLOWEST));
        let fits = u32::try_from(requests).is_ok();
        (requests > 0 && micros > 0 && !fast && !slow && fits).then_some(Self { requests, micros })
    }

    /// A hundred thousand a second.
    pub const fn fastest() -> Self {
        Self {
            requests: 1,
            micros: MICROS_PER_SECOND / FASTEST_PER_SECOND,
        }
    }

    /// One of `parts` equal parts of the rate, however slow that is.
    pub fn share(self, parts: u32) -> Option<Self> {
        let micros = self.micros.checked_mul(u64::from(parts))?;
        (parts > 0).then_some(Self { micros, ..self })
    }

    /// The time between two slots, `1 / rate`, without rounding.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "`new` refuses zero requests"
    )]
    pub fn interval(self) -> Interval {
        Interval {
            micros: self.micros / self.requests,
            part: u32::try_from(self.micros % self.requests).unwrap_or(0),
            of: u32::try_from(self.requests).unwrap_or(u32::MAX),
        }
    }

    /// Requests a second, for a gauge or a page.
    #[expect(clippy::cast_precision_loss, reason = "floats only leave the program")]
    pub fn per_second(self) -> f64 {
        self.requests as f64 * MICROS_PER_SECOND as f64 / self.micros as f64
    }

    /// How many whole requests the rate gives in `seconds`.
    pub fn times(self, seconds: u64) -> u64 {
        let micros = u128::from(seconds).saturating_mul(u128::from(MICROS_PER_SECOND));
        let whole = micros
            .saturating_mul(u128::from(self.requests))
            .checked_div(u128::from(self.micros))
            .unwrap_or(0);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }
}

/// The time between two slots: `micros` and `part / of` of a microsecond more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    micros: u64,
    part: u32,
    of: u32,
}

impl Interval {
    /// The interval in units of `1 / of` microseconds, a whole number.
    pub fn ticks(self) -> u128 {
        u128::from(self.micros)
            .saturating_mul(u128::from(self.of))
            .saturating_add(u128::from(self.part))
    }

    /// Whole microseconds, and the `part` of `of` parts of one more.
    pub const fn parts(self) -> (u64, u32, u32) {
        (self.micros, self.part, self.of)
    }

    /// Ticks in a microsecond: the unit in which this interval is whole.
    pub const fn ticks_per_micro(self) -> u32 {
        self.of
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let shape = || RateError::Shape(text.to_owned());
        let (number, unit) = text.trim().split_once("r/").ok_or_else(shape)?;
        let seconds: u64 = match unit.trim() {
            "s" | "sec" | "second" => 1,
            "m" | "min" | "minute" => 60,
            "h" | "hour" => 3_600,
            "d" | "day" => 86_400,
            _ => return Err(shape()),
        };
        let (whole, decimals) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(decimals) || number.trim().ends_with('.') {
            return Err(shape());
        }
        if decimals.len() > DECIMALS {
            return Err(RateError::Range(text.to_owned()));
        }
        let scaled: u64 = format!("{whole}{decimals:0<DECIMALS$}")
            .parse()
            .map_err(|_too_long: std::num::ParseIntError| RateError::Range(text.to_owned()))?;
        if scaled == 0 {
            return Err(RateError::Zero(text.to_owned()));
        }
        // `scaled` millionths of a request in so many seconds.
        let micros = seconds
            .saturating_mul(MICROS_PER_SECOND)
            .saturating_mul(1_000_000);
        Self::new(scaled, micros).ok_or_else(|| RateError::Range(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (seconds, unit) in [(1, "s"), (60, "m"), (3_600, "h"), (86_400, "d")] {
            let micros = u128::from(MICROS_PER_SECOND).saturating_mul(seconds);
            let scaled = micros.saturating_mul(u128::from(self.requests));
            let per = u128::from(self.micros);
            if scaled.checked_rem(per) == Some(0) {
                return write!(f, "{}r/{unit}", scaled.checked_div(per).unwrap_or(0));
            }
        }
        write!(f, "{}r/s", self.per_second())
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    a.checked_rem(b).map_or(a, |rest| gcd(b, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(text: &str) -> (u64, u32, u32) {
        let i = text.parse::<Rate>().expect(text).interval();
        (i.micros, i.part, i.of)
    }

    #[test]
    fn rates_are_kept_exactly() {
        assert_eq!(interval("1r/s"), (1_000_000, 0, 1));
        assert_eq!(interval("1r/m"), (60_000_000, 0, 1));
        assert_eq!(interval("7r/m"), (8_571_428, 4, 7));
        assert_eq!(interval("0.5r/s"), (2_000_000, 0, 1));
        assert_eq!(interval("3000r/s"), (333, 1, 3));
        assert_eq!(interval("1r/d"), (86_400_000_000, 0, 1));
        assert_eq!(interval("100000r/s"), (10, 0, 1));
        assert_eq!(interval("99999r/s"), (10, 10, 99_999));
    }

    #[test]
    fn absurd_rates_are_refused_with_their_text() {
        for text in [
            "", "r/s", "10", "10r", "10r/", "10r/y", "-1r/s", "1e3r/s", "1.r/s", ".5r/s", "+1r/s",
            "٣r/s",
        ] {
            let error = text.parse::<Rate>().expect_err(text);
            assert_eq!(error, RateError::Shape(text.to_owned()), "{text}");
        }
        for text in ["0r/s", "0.0r/m", "0r/d"] {
            assert_eq!(text.parse::<Rate>(), Err(RateError::Zero(text.to_owned())));
        }
        for text in [
            "1000000000r/s",
            "100001r/s",
            "100000.5r/s",
            "0.5r/d",
            "0.0000001r/s",
            "99999999999999999999999999r/s",
            "18446744073709551615r/s",
        ] {
            assert_eq!(
                text.parse::<Rate>(),
                Err(RateError::Range(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_rate_is_shown_as_it_was_written() {
        for text in ["10r/s", "5r/m", "7r/m", "1r/h", "1r/d", "100000r/s"] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
        assert_eq!("0.5r/s".parse::<Rate>().expect("half").to_string(), "30r/m");
    }
}
