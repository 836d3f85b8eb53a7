//! How many may go, and when: what does `algorithm` say, and the keys that belong to it?

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;
use toml::de::DeValue;

use super::field::Field;
use super::section::Section;
use crate::limit::{Cost, Rule};
use crate::line::{Pace, PaceError};
use crate::units::{Human, Rate, RateError};
use crate::window::{Kind, Window};

const MOST_PLACES: u32 = 10_000_000;
/// A log keeps each one that passed.
const MOST_LOGGED: u32 = 100_000;
const WINDOW: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_hours(366 * 24);

/// How long an instance may count without a word to Redis.
const SYNC: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_mins(1);

#[derive(Clone, Copy)]
pub(super) enum Algorithm {
    LeakyBucket,
    TokenBucket,
    Window(Kind),
}

const ALGORITHMS: [(&str, Algorithm); 5] = [
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("token_bucket", Algorithm::TokenBucket),
    ("fixed_window", Algorithm::Window(Kind::Fixed)),
    ("sliding_window_log", Algorithm::Window(Kind::Log)),
    ("sliding_window_counter", Algorithm::Window(Kind::Counter)),
];

const OF_BUCKETS: [&str; 5] = ["rate", "burst", "delay", "nodelay", "capacity"];
const OF_WINDOWS: [&str; 3] = ["limit", "window", "offset"];

pub(super) fn rule(section: &Section<'_>) -> Option<Rule> {
    match algorithm(section) {
        None => {
            // Which keys belong to an algorithm that isn't there, nobody can tell.
            section.settle(&OF_BUCKETS);
            section.settle(&OF_WINDOWS);
            section.get("rate").and_then(|field| rate_of(&field));
            None
        }
        Some(Algorithm::LeakyBucket) => pace(section, leaky_bucket).map(Rule::Pace),
        Some(Algorithm::TokenBucket) => pace(section, token_bucket).map(Rule::Pace),
        Some(Algorithm::Window(kind)) => window(section, kind).map(Rule::Window),
    }
}

pub(super) fn algorithm(section: &Section<'_>) -> Option<Algorithm> {
    let field = section.get("algorithm");
    field.map_or(Some(Algorithm::LeakyBucket), |field| {
        field.choice(&ALGORITHMS, &[])
    })
}

pub(super) fn refuse_buckets(section: &Section<'_>) {
    section.refuse(
        &OF_BUCKETS,
        "belongs to the bucket algorithms; a window has a limit",
    );
}

pub(super) fn refuse_windows(section: &Section<'_>) {
    section.refuse(
        &OF_WINDOWS,
        "belongs to the window algorithms; a bucket has a rate",
    );
}

pub(super) fn refuse_capacity(section: &Section<'_>) {
    section.refuse(
        &["capacity"],
        "belongs to `algorithm = \"token_bucket\"`; a leaky bucket has a burst",
    );
}

pub(super) fn refuse_burst(section: &Section<'_>) {
    section.refuse(
        &["burst", "delay", "nodelay"],
        "belongs to `algorithm = \"leaky_bucket\"`; a token bucket has a capacity",
    );
}

pub(super) fn refuse_offset(section: &Section<'_>) {
    section.refuse(
        &["offset"],
        "belongs to `algorithm = \"fixed_window\"`; a sliding window begins nowhere",
    );
}

/// A number of places, at least so many.
pub(super) fn places_of(field: &Field<'_>, least: u32) -> Option<u32> {
    field.whole(&(least..=MOST_PLACES))
}

pub(super) fn limit_of(field: &Field<'_>, kind: Kind) -> Option<u32> {
    let most = if kind == Kind::Log {
        MOST_LOGGED
    } else {
        MOST_PLACES
    };
    field.whole(&(1..=most))
}

pub(super) fn span_of(field: &Field<'_>) -> Option<Duration> {
    field.duration(&WINDOW)
}

/// How much of the limit a request needs: a number, or where to read it.
pub(super) fn cost(section: &Section<'_>, rule: Option<&Rule>) -> Cost {
    // More than there ever is at once would always be refused.
    let costs = 1..=rule.map_or(MOST_PLACES, Rule::most);
    let Some(field) = section.get("cost") else {
        return Cost::default();
    };
    if !matches!(field.value(), DeValue::Table(_)) {
        return field.whole(&costs).map_or_else(Cost::default, Cost::each);
    }
    let Some(table) = field.section() else {
        return Cost::default();
    };
    let header = table.need("header", "write which header says what a request costs");
    let header = header.and_then(|field| header_name(&field));
    let most = table.need("max", "write the most that a request may cost");
    let most = most.and_then(|field| field.whole(&costs));
    let usual = table.whole("default", 1, &costs);
    table.close();
    header
        .zip(most)
        .map_or_else(Cost::default, |(header, most)| {
            Cost::in_header(header, most, usual)
        })
}

/// For how long an instance counts by itself.
pub(super) fn sync(
    section: &Section<'_>,
    rule: Option<&Rule>,
    is_shared: bool,
) -> Option<Duration> {
    if !is_shared {
        section.refuse(&["sync"], "belongs to a store of `kind = \"redis\"`");
        return None;
    }
    let Some(rule) = rule else {
        section.settle(&["sync"]);
        return None;
    };
    if rule.has_line() {
        section.refuse(
            &["sync"],
            "belongs to limits in which nobody waits: the slots of a line are Redis's to give",
        );
        return None;
    }
    let field = section.get("sync")?;
    let sync = field.duration(&SYNC)?;
    if let Some(window) = rule.window()
        && sync >= window.span()
    {
        field.refuse(format_args!(
            "is not shorter than the window of {}",
            Human(window.span())
        ));
        return None;
    }
    Some(sync)
}

fn header_name(field: &Field<'_>) -> Option<HeaderName> {
    let text = field.text()?.value;
    let name = text.parse::<HeaderName>();
    if name.is_err() {
        field.refuse("is not a header's name");
    }
    name.ok()
}

fn window(section: &Section<'_>, kind: Kind) -> Option<Window> {
    refuse_buckets(section);
    let limit = section.need("limit", "write how many may pass in a window");
    let limit = limit.and_then(|field| limit_of(&field, kind));
    let span = section.need("window", "write a span of time, like \"1m\" or \"1d\"");
    let span = span.and_then(|field| span_of(&field));
    let offset = if kind == Kind::Fixed {
        offset(section, span)
    } else {
        refuse_offset(section);
        Some(Duration::ZERO)
    };
    Some(Window::new(kind, limit?, span?, offset?))
}

/// How long after full multiples of its span, in UTC, a window begins.
pub(super) fn offset(section: &Section<'_>, span: Option<Duration>) -> Option<Duration> {
    let Some(field) = section.get("offset") else {
        return Some(Duration::ZERO);
    };
    let offset = field.duration(&(Duration::ZERO..=*WINDOW.end()))?;
    if let Some(span) = span.filter(|span| offset >= *span) {
        field.refuse(format_args!(
            "is not shorter than the window of {}",
            Human(span)
        ));
        return None;
    }
    Some(offset)
}

fn pace<'a>(
    section: &Section<'a>,
    burst: impl FnOnce(&Section<'a>) -> Option<Burst<'a>>,
) -> Option<Pace> {
    refuse_windows(section);
    let rate = section.need("rate", "write a number and a unit, like \"10r/s\"");
    let rate = rate.and_then(|field| Some((rate_of(&field)?, field.text()?.from_env)));
    let (at, burst, delay) = burst(section)?;
    let (rate, from_env) = rate?;
    match Pace::new(rate, burst, delay) {
        Ok(pace) => Some(pace),
        Err(error) => {
            let at = at.or_else(|| section.get("rate"))?;
            match error {
                PaceError::Drain { .. } if from_env => {
                    at.refuse("takes too long to drain at this rate");
                }
                PaceError::Drain { .. } | PaceError::Delay { .. } => at.fault(error),
            }
            None
        }
    }
}

pub(super) fn rate_of(field: &Field<'_>) -> Option<Rate> {
    let text = field.text()?;
    let shown = field.shown().unwrap_or_default();
    let error = match text.value.parse::<Rate>() {
        Ok(rate) => return Some(rate),
        Err(RateError::Shape(_)) => RateError::Shape(shown),
        Err(RateError::Zero(_)) => RateError::Zero(shown),
        Err(RateError::Range(_)) => RateError::Range(shown),
    };
    field.fault(error);
    None
}

/// Where a burst is written, the burst, and how much of it passes at once.
type Burst<'a> = (Option<Field<'a>>, u32, u32);

fn leaky_bucket<'a>(section: &Section<'a>) -> Option<Burst<'a>> {
    refuse_capacity(section);
    let field = section.get("burst");
    let burst = field.as_ref().map_or(Some(0), |field| places_of(field, 0));
    let nodelay = section.flag("nodelay", false);
    let delay_field = section.get("delay");
    let delay = delay_field
        .as_ref()
        .map_or(Some(0), |field| places_of(field, 0));
    let (burst, delay) = (burst?, delay?);
    match delay_field {
        Some(field) if nodelay => {
            field.fault("does not go with nodelay, which lets the whole burst pass at once");
            None
        }
        Some(at) if delay > burst => {
            at.refuse(format_args!("is above the burst of {burst}"));
            None
        }
        _ => Some((field, burst, if nodelay { burst } else { delay })),
    }
}

fn token_bucket<'a>(section: &Section<'a>) -> Option<Burst<'a>> {
    refuse_burst(section);
    let field = section.need("capacity", "write how many requests may pass at once")?;
    let capacity = places_of(&field, 1)?;
    let burst = capacity.saturating_sub(1);
    Some((Some(field), burst, burst))
}
