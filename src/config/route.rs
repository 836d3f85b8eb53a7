//! What do `[[routes]]` say?

use std::sync::Arc;

use super::checked::RouteConfig;
use super::field::Field;
use super::name::{hint, is_name};
use super::pattern::pattern;
use super::section::Section;
use super::server::body_bytes;
use crate::route::Pattern;

/// The label of requests that have no route.
const NO_ROUTE: &str = "none";

/// All routes; `None` after a fault.
pub(super) fn routes(
    root: &Section<'_>,
    limits: &[String],
    upstreams: &[String],
) -> Option<Vec<RouteConfig>> {
    let field = root.get("routes");
    let items = match &field {
        Some(field) => field.items()?,
        None => Vec::new(),
    };
    if items.is_empty() {
        let problem = "there are none: write [[routes]] with a path and an upstream";
        match field {
            Some(field) => field.fault(problem),
            None => root.fault("routes", problem),
        }
        return None;
    }
    let read = |item| Some((item, route(item, limits, upstreams)?));
    let routes: Vec<_> = items.iter().map(read).collect();
    let known: Vec<_> = routes.iter().flatten().collect();
    for (index, (field, route)) in known.iter().enumerate() {
        let earlier = known.iter().take(index);
        check_against(field, route, earlier.map(|(field, route)| (*field, route)));
    }
    let routes: Option<Vec<_>> = routes.into_iter().collect();
    Some(routes?.into_iter().map(|(_, route)| route).collect())
}

fn route(field: &Field<'_>, limits: &[String], upstreams: &[String]) -> Option<RouteConfig> {
    let section = field.section()?;
    let pattern = pattern(&section);
    let name = section.get("name").map(|field| name(&field));
    let upstream = section.need("upstream", "write the name of one of [upstreams]");
    let upstream = upstream.and_then(|field| index(&field, upstreams, "[upstreams]"));
    let limits = limits_of(&section, limits);
    let strip_prefix = section.flag("strip_prefix", false);
    let max_body_bytes = section
        .get("max_body_bytes")
        .map(|field| body_bytes(&field));
    section.close();
    let pattern = pattern?;
    Some(RouteConfig {
        name: name.unwrap_or_else(|| Some(Arc::from(default_name(&pattern))))?,
        pattern,
        upstream: upstream?,
        limits: limits?,
        strip_prefix,
        max_body_bytes: match max_body_bytes {
            Some(bytes) => Some(bytes?),
            None => None,
        },
    })
}

fn default_name(pattern: &Pattern) -> String {
    let host = pattern.host.as_deref().unwrap_or_default();
    format!("{host}{}", pattern.path)
}

fn name(field: &Field<'_>) -> Option<Arc<str>> {
    let name = field.text()?.value;
    if !is_name(&name) {
        field.refuse("is not a name: 1 to 64 of a-z, 0-9, _ and -");
        return None;
    }
    if name == NO_ROUTE {
        field.refuse("is the name of requests that have no route");
        return None;
    }
    Some(Arc::from(name))
}

/// The index of what a field names.
fn index(field: &Field<'_>, known: &[String], table: &str) -> Option<usize> {
    let text = field.text()?;
    let index = known.iter().position(|name| *name == text.value);
    if index.is_none() {
        let hint = hint(text.shown(), known.iter().map(String::as_str));
        field.refuse(format_args!("is not in {table}{hint}"));
    }
    index
}

fn limits_of(section: &Section<'_>, known: &[String]) -> Option<Vec<usize>> {
    let Some(field) = section.get("limits") else {
        return Some(Vec::new());
    };
    let mut limits = Vec::new();
    let mut sound = true;
    for item in field.items()? {
        match index(&item, known, "[limits]") {
            Some(limit) if limits.contains(&limit) => {
                item.refuse("is asked twice on this route");
                sound = false;
            }
            Some(limit) => limits.push(limit),
            None => sound = false,
        }
    }
    sound.then_some(limits)
}

/// Notes where a route takes the requests, or the name, of an earlier one.
fn check_against<'a, 'b: 'a>(
    field: &Field<'_>,
    route: &RouteConfig,
    mut earlier: impl Iterator<Item = (&'a Field<'b>, &'a RouteConfig)> + Clone,
) {
    let clash = earlier.clone().find(|(_, other)| {
        route.pattern.clashes_with(&other.pattern) || other.pattern.clashes_with(&route.pattern)
    });
    if let Some((other, _)) = clash {
        field.fault(format_args!(
            "takes the same requests as {}; differ in host, path or methods",
            other.place()
        ));
    } else if let Some((other, _)) = earlier.find(|(_, other)| other.name == route.name) {
        field.fault(format_args!(
            "has the same name as {}; set `name`",
            other.place()
        ));
    }
}
