//! How is a span of time written and shown?

use std::fmt;
use std::time::Duration;

/// Reads `250ms`, `5s`, `1.5s`, `2m`, `1h` or `1d`; `None` for any other shape
/// and for spans beyond a hundred years.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at_checked(split)?;
    let nanos: f64 = match unit.trim() {
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return None,
    };
    if number.starts_with('.') || number.ends_with('.') {
        return None;
    }
    let span = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * nanos / 1e9).ok()?;
    (span <= Duration::from_hours(100 * 366 * 24)).then_some(span)
}

/// Whole seconds, rounded up, at least one: what a `Retry-After` may say.
pub fn whole_seconds(span: Duration) -> u64 {
    let up = u64::from(span.subsec_nanos() > 0);
    span.as_secs().saturating_add(up).max(1)
}

/// Shows a span to people: `60s` as `1m`, `1.5s`, `250ms`, `17.6d`.
#[derive(Clone, Copy, Debug)]
pub struct Human(pub Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let (value, unit) = match seconds {
            s if s >= 86_400.0 => (s / 86_400.0, "d"),
            s if s >= 3_600.0 => (s / 3_600.0, "h"),
            s if s >= 60.0 => (s / 60.0, "m"),
            s if s >= 1.0 || s == 0.0 => (s, "s"),
            s if s >= 0.001 => (s * 1e3, "ms"),
            s => (s * 1e6, "µs"),
        };
        let text = format!("{value:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{text}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            ".5s",
            "5.s",
            "1.2.3s",
            "5 parsecs",
            "1e9s",
            "99999999999999d",
            "NaNs",
            "infs",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_started_second_counts_whole() {
        let seconds = |ms| whole_seconds(Duration::from_millis(ms));
        assert_eq!(
            (seconds(0), seconds(1), seconds(1_000), seconds(1_001)),
            (1, 1, 1, 2)
        );
    }
}
