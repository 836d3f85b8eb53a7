//! What does `[limits.NAME]` say?

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::field::{Field, printable};
use super::overrides::{self, overrides};
use super::pattern::method_of;
use super::rule;
use super::section::Section;
use super::server::network;
use super::store::ON_FAILURE;
use crate::key::{KeyHasher, KeyTemplate, TemplateError};
use crate::limit::{Exempt, OnMissingKey, Policy};

const MAX_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(30 * 24);

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
    let ipv6_prefix = section.whole("ipv6_prefix", 64, &(0..=128));
    let exempt = exempt(section, key.as_ref(), ipv6_prefix);
    let rule = rule::rule(section);
    let cost = rule::cost(section, rule.as_ref());
    let sync = rule::sync(section, rule.as_ref(), is_shared);
    let by = section.get("overrides_by");
    let limit = overrides::Limit {
        key: key.as_ref(),
        by: by.and_then(|field| template(&field)),
        ipv6_prefix,
        rule: rule.as_ref(),
        most_cost: cost.most(),
        sync,
    };
    let overrides = overrides(section, limit);
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
        sync,
        cost,
        overrides,
        key: key?,
        rule: rule?,
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
