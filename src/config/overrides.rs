//! What do `overrides` say, and for whom?

use std::collections::HashSet;
use std::time::Duration;

use super::field::Field;
use super::rule::{
    Algorithm, algorithm, offset, places_of, rate_of, refuse_buckets, refuse_burst,
    refuse_capacity, refuse_offset, refuse_windows, span_of,
};
use super::section::Section;
use crate::key::{KeyHasher, KeyTemplate};
use crate::limit::{Overrides, Rule};
use crate::line::Pace;
use crate::units::Human;
use crate::window::{Kind, Window};

/// More of them a config file is not the place for.
const MOST: usize = 10_000;

/// What a limit says that its overrides depend on.
pub(super) struct Limit<'a> {
    pub(super) key: Option<&'a KeyTemplate>,
    pub(super) by: Option<KeyTemplate>,
    pub(super) ipv6_prefix: u8,
    pub(super) rule: Option<&'a Rule>,
    pub(super) most_cost: u32,
    pub(super) sync: Option<Duration>,
}

/// The rules of some keys, each like that of their limit but for what they say.
pub(super) fn overrides(section: &Section<'_>, limit: Limit<'_>) -> Overrides {
    let Some(outer) = section.get("overrides") else {
        if let Some(by) = section.get("overrides_by") {
            by.fault("has no effect: there are no overrides");
        }
        return Overrides::default();
    };
    let template = limit.by.as_ref().or(limit.key);
    let entries = outer.section().map(|table| {
        if template.is_none_or(KeyTemplate::is_secret) {
            table.secret_entries()
        } else {
            table.entries()
        }
    });
    let entries = entries.unwrap_or_default();
    if entries.len() > MOST {
        outer.fault(format_args!("has more than {MOST} keys"));
    }
    let mut known = HashSet::new();
    let named = entries.into_iter().filter_map(|(name, field)| {
        let own = field.section()?;
        // Under any secret: it only matters whether there is such a key.
        let ids = template.map(|key| key.ids(name, limit.ipv6_prefix, &KeyHasher::new("")));
        let own_ids: HashSet<_> = ids.iter().flatten().copied().collect();
        if !known.is_disjoint(&own_ids) {
            field.fault("reads like another override of this limit");
        }
        known.extend(own_ids);
        if ids.is_some_and(|ids| ids.is_empty()) {
            let what = if limit.by.is_some() {
                "overrides_by"
            } else {
                "a key of this limit"
            };
            field.fault(format_args!("is not how {what} can read"));
        }
        let rule = limit
            .rule
            .and_then(|base| rule(section, &own, base))
            .filter(|rule| suits(&field, rule, &limit));
        if limit.rule.is_some() {
            own.close();
        }
        Some((name.to_owned(), rule?))
    });
    let named = named.collect();
    Overrides::new(limit.by, named)
}

/// Whether what the limit says of its requests goes with the rule, too.
fn suits(field: &Field<'_>, rule: &Rule, limit: &Limit<'_>) -> bool {
    let (most, cost) = (rule.most(), limit.most_cost);
    if cost > most {
        field.fault(format_args!(
            "lets one request have {most} at most, and one may cost {cost}"
        ));
    }
    let sync = limit.sync.zip(rule.window());
    let sync = sync.filter(|(sync, window)| *sync >= window.span());
    if let Some((sync, window)) = sync {
        field.fault(format_args!(
            "has a window of {}, not longer than the sync of {}",
            Human(window.span()),
            Human(sync)
        ));
    }
    let has_line = rule.has_line() && limit.sync.is_some();
    if has_line {
        field.fault("has places to wait, and sync is for limits in which nobody waits");
    }
    cost <= most && sync.is_none() && !has_line
}

fn rule(limit: &Section<'_>, own: &Section<'_>, base: &Rule) -> Option<Rule> {
    own.refuse(&["algorithm"], "is the limit's, for all of its keys");
    match base {
        Rule::Pace(pace) => bucket(limit, own, pace).map(Rule::Pace),
        Rule::Window(window) => span(own, window).map(Rule::Window),
    }
}

fn bucket(limit: &Section<'_>, own: &Section<'_>, base: &Pace) -> Option<Pace> {
    refuse_windows(own);
    let rate = own.get("rate");
    let rate_here = rate.as_ref().map_or(Some(base.rate()), rate_of);
    let (at, size) = match algorithm(limit)? {
        Algorithm::TokenBucket => capacity(own, base),
        Algorithm::LeakyBucket | Algorithm::Window(_) => burst(limit, own, base),
    };
    let (burst, delay) = size?;
    match Pace::new(rate_here?, burst, delay) {
        Ok(pace) => Some(pace),
        Err(error) => {
            at.or(rate)?.fault(error);
            None
        }
    }
}

/// Where a size is written, and what burst and delay it comes to.
type Size<'a> = (Option<Field<'a>>, Option<(u32, u32)>);

fn capacity<'a>(own: &Section<'a>, base: &Pace) -> Size<'a> {
    refuse_burst(own);
    let field = own.get("capacity");
    let burst = match &field {
        None => Some(base.burst()),
        Some(field) => places_of(field, 1).map(|capacity| capacity.saturating_sub(1)),
    };
    (field, burst.map(|burst| (burst, burst)))
}

fn burst<'a>(limit: &Section<'_>, own: &Section<'a>, base: &Pace) -> Size<'a> {
    refuse_capacity(own);
    let field = own.get("burst");
    let delay_field = own.get("delay");
    let nodelay = own.get("nodelay").map(|field| field.flag());
    let burst = field
        .as_ref()
        .map_or(Some(base.burst()), |field| places_of(field, 0));
    let delay = delay_field.as_ref().map(|field| places_of(field, 0));
    let Some(burst) = burst else {
        return (field, None);
    };
    let delay = match (delay_field, delay, nodelay) {
        (Some(at), _, Some(Some(true))) => {
            at.fault("does not go with nodelay, which lets the whole burst pass at once");
            None
        }
        (Some(at), Some(Some(delay)), _) if delay > burst => {
            at.refuse(format_args!("is above the burst of {burst}"));
            None
        }
        (_, Some(delay), _) => delay,
        (_, None, Some(nodelay)) => nodelay.map(|nodelay| if nodelay { burst } else { 0 }),
        (_, None, None) if limit.flag("nodelay", false) => Some(burst),
        (_, None, None) if base.delay() > burst => {
            if let Some(at) = &field {
                let delay = base.delay();
                at.refuse(format_args!("is below the limit's delay of {delay}"));
            }
            None
        }
        (_, None, None) => Some(base.delay()),
    };
    (field, delay.map(|delay| (burst, delay)))
}

fn span(own: &Section<'_>, base: &Window) -> Option<Window> {
    refuse_buckets(own);
    let kind = base.kind();
    let limit = own.get("limit").map_or(Some(base.limit()), |field| {
        super::rule::limit_of(&field, kind)
    });
    let field = own.get("window");
    let long = field.as_ref().map_or(Some(base.span()), span_of);
    let begins = match (kind, own.get("offset")) {
        (Kind::Fixed, Some(_)) => offset(own, long),
        (Kind::Fixed, None) => Some(base.offset()),
        (Kind::Log | Kind::Counter, _) => {
            refuse_offset(own);
            Some(Duration::ZERO)
        }
    };
    let (limit, long, begins) = (limit?, long?, begins?);
    if begins >= long
        && let Some(at) = field
    {
        at.refuse(format_args!(
            "is not longer than the limit's offset of {}",
            Human(begins)
        ));
        return None;
    }
    Some(Window::new(kind, limit, long, begins))
}
