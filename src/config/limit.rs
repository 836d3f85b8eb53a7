//! What does `[limits.NAME]` say?

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::field::{Field, printable};
use super::pattern::method_of;
use super::section::Section;
use super::server::network;
use super::store::ON_FAILURE;
use crate::key::{KeyHasher, KeyTemplate, TemplateError};
use crate::limit::{Exempt, OnMissingKey, Policy};
use crate::line::{Pace, PaceError};
use crate::units::{Rate, RateError};

const MOST_PLACES: u32 = 10_000_000;
const MAX_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(30 * 24);

#[derive(Clone, Copy)]
enum Algorithm {
    LeakyBucket,
    TokenBucket,
}

const NOW: [(&str, Algorithm); 2] = [
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("token_bucket", Algorithm::TokenBucket),
];
const LATER: [&str; 3] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
];

pub(super) fn policy(section: &Section<'_>, name: &str, is_shared: bool) -> Option<Policy> {
    let missing = [
        ("reject", OnMissingKey::Reject),
        ("skip", OnMissingKey::Skip),
    ];
    let key = section.need(
        "key",
        "write \"{ip}\" for one bucket per address, or a word for one bucket in all",
    );
    let key = key.and_then(|field| template(&field));
    let on_failure = if is_shared {
        let field = section.get("on_failure");
        field.and_then(|field| field.choice(&ON_FAILURE, &[]))
    } else {
        section.refuse(&["on_failure"], "belongs to a store of `kind = \"redis\"`");
        None
    };
    let pace = pace(section);
    let ipv6_prefix = section.whole("ipv6_prefix", 64, &(0..=128));
    let exempt = exempt(section, key.as_ref(), ipv6_prefix);
    let status = section.whole("status", 429, &(400..=599));
    let policy = Policy {
        name: Arc::from(name),
        ipv6_prefix,
        exempt,
        on_missing_key: section.choice("on_missing_key", OnMissingKey::Reject, &missing, &[]),
        max_wait: section
            .get("max_wait")
            .and_then(|field| field.duration(&MAX_WAIT)),
        status: StatusCode::from_u16(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS),
        dry_run: section.flag("dry_run", false),
        on_failure,
        key: key?,
        pace: pace?,
    };
    Some(policy)
}

/// Whom a limit does not count.
fn exempt(section: &Section<'_>, key: Option<&KeyTemplate>, ipv6_prefix: u8) -> Exempt {
    let listed = |name: &'static str| {
        let items = section.get(name).and_then(|field| field.items());
        items.unwrap_or_default()
    };
    let exempted = |field: &Field<'_>| {
        let text = field.text()?.value;
        // Under any secret: it only matters whether there is such a key.
        let is_key = |key: &KeyTemplate| {
            let hasher = KeyHasher::new("");
            !key.ids(&text, ipv6_prefix, &hasher).is_empty()
        };
        if !key.is_none_or(is_key) {
            field.refuse("is not how a key of this limit can read");
            return None;
        }
        Some(text)
    };
    Exempt::new(
        listed("skip").iter().filter_map(network).collect(),
        listed("skip_methods")
            .iter()
            .filter_map(method_of)
            .collect(),
        listed("skip_keys").iter().filter_map(exempted).collect(),
    )
}

fn template(field: &Field<'_>) -> Option<KeyTemplate> {
    let text = field.text()?;
    let shown = || field.shown().unwrap_or_default();
    let error = match text.value.parse::<KeyTemplate>() {
        Ok(template) => return Some(template),
        Err(TemplateError::Brace(_)) => TemplateError::Brace(shown()),
        Err(TemplateError::Part(_)) if text.from_env => TemplateError::Part(shown()),
        Err(TemplateError::Part(part)) => TemplateError::Part(printable(&part)),
        Err(TemplateError::Empty) => TemplateError::Empty,
    };
    field.fault(error);
    None
}

fn pace(section: &Section<'_>) -> Option<Pace> {
    let algorithm = section.get("algorithm");
    let algorithm = algorithm.map_or(Some(Algorithm::LeakyBucket), |field| {
        field.choice(&NOW, &LATER)
    });
    let Some(algorithm) = algorithm else {
        // Which keys belong to an algorithm that isn't there, nobody can tell.
        section.settle(&["burst", "delay", "nodelay", "capacity", "limit", "window"]);
        section.get("rate").and_then(|field| rate_of(&field));
        return None;
    };
    section.refuse(
        &["limit", "window"],
        "belongs to the window algorithms, which are not supported yet",
    );
    let rate = section.need("rate", "write a number and a unit, like \"10r/s\"");
    let rate = rate.and_then(|field| Some((rate_of(&field)?, field.text()?.from_env)));
    let (at, burst, delay) = match algorithm {
        Algorithm::LeakyBucket => leaky_bucket(section)?,
        Algorithm::TokenBucket => token_bucket(section)?,
    };
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

fn rate_of(field: &Field<'_>) -> Option<Rate> {
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
    section.refuse(
        &["capacity"],
        "belongs to `algorithm = \"token_bucket\"`; a leaky bucket has a burst",
    );
    let places = 0..=MOST_PLACES;
    let field = section.get("burst");
    let burst = field.as_ref().map_or(Some(0), |field| field.whole(&places));
    let nodelay = section.flag("nodelay", false);
    let delay_field = section.get("delay");
    let delay = delay_field
        .as_ref()
        .map_or(Some(0), |field| field.whole(&places));
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
    section.refuse(
        &["burst", "delay", "nodelay"],
        "belongs to `algorithm = \"leaky_bucket\"`; a token bucket has a capacity",
    );
    let field = section.need("capacity", "write how many requests may pass at once")?;
    let capacity = field.whole(&(1..=MOST_PLACES))?;
    let burst = capacity.saturating_sub(1);
    Some((Some(field), burst, burst))
}
