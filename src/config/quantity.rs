//! Is a number, a size or a span of time in its range?

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::{DeInteger, DeValue};

use super::field::Field;
use crate::units::{Human, parse_duration, parse_size};

impl Field<'_> {
    /// A whole number in `range`.
    pub(super) fn whole<N>(&self, range: &RangeInclusive<N>) -> Option<N>
    where
        N: Copy + PartialOrd + Display + TryFrom<i128>,
    {
        let DeValue::Integer(integer) = self.value() else {
            self.mismatch("a whole number");
            return None;
        };
        self.within(number(integer), range, range.start(), range.end())
    }

    /// A span of time in `range`, such as `250ms`.
    pub(super) fn duration(&self, range: &RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.text_like("a span of time, as a string like \"250ms\" or \"5s\"")?;
        let span = parse_duration(&text.value);
        if span.is_none() {
            self.refuse(
                "is not a span of time: write a number and a unit, like 250ms, 5s, 2m, 1h or 1d",
            );
        }
        let (from, to) = (Human(*range.start()), Human(*range.end()));
        self.within(Some(span?), range, from, to)
    }

    /// A number of bytes in `range`: a number or a string such as `64 KiB`.
    pub(super) fn bytes(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        let bytes = match self.value() {
            DeValue::Integer(integer) => number(integer),
            DeValue::String(_) => {
                let bytes = parse_size(&self.text()?.value);
                if bytes.is_none() {
                    self.refuse(
                        "is not a size: write a number of bytes or one with a unit, like 64 KiB",
                    );
                }
                Some(bytes?)
            }
            _ => {
                self.mismatch("a number of bytes, or a string like \"64 KiB\"");
                return None;
            }
        };
        let kibi = |bytes: &u64| format!("{} KiB", bytes / 1_024);
        self.within(bytes, range, kibi(range.start()), kibi(range.end()))
    }

    /// The value, if it is in `range`; a fault names its ends as they are shown.
    fn within<T: PartialOrd>(
        &self,
        value: Option<T>,
        range: &RangeInclusive<T>,
        from: impl Display,
        to: impl Display,
    ) -> Option<T> {
        let inside = value.filter(|value| range.contains(value));
        if inside.is_none() {
            self.refuse(format_args!("must be from {from} to {to}"));
        }
        inside
    }
}

/// The number; `None` where `N` cannot hold it.
fn number<N: TryFrom<i128>>(integer: &DeInteger<'_>) -> Option<N> {
    let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    N::try_from(number).ok()
}
