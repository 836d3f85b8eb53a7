//! Which networks does a key let by?
//!
//! `geo $limit { default 1; 10.0.0.0/8 0; }` and `map $limit $key { 0 ""; 1 $remote_addr; }`
//! are how NGINX is told not to count some: their key is empty.

use std::net::IpAddr;

use ipnet::IpNet;

use super::key::Maps;
use super::tree::Directive;

/// A key that is empty for some networks.
#[derive(Debug)]
pub(super) struct Allowed<'a> {
    /// The key of all others.
    pub(super) key: &'a str,
    pub(super) networks: Vec<&'a str>,
    /// What says so.
    pub(super) geo: &'a Directive,
}

/// What a key comes to that is such a `map`; `None` for any other.
pub(super) fn allowed<'a>(key: &str, maps: &Maps<'a>, geos: &Maps<'a>) -> Option<Allowed<'a>> {
    let map = *maps.get(variable(key)?)?;
    let geo = *geos.get(variable(map.first())?)?;
    let key = mapped(map, entry(geo, "default").unwrap_or_default());
    let mut networks = Vec::new();
    for one in geo.inside().iter().filter(|one| one.name != "default") {
        let is_network = one.name.parse::<IpNet>().is_ok() || one.name.parse::<IpAddr>().is_ok();
        // A network that is counted within one that isn't can't be said.
        if !is_network || !mapped(map, one.first()).is_empty() {
            return None;
        }
        networks.push(&*one.name);
    }
    (!key.is_empty()).then_some(Allowed { key, networks, geo })
}

/// The name in `$name` or `${name}`.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let braced = name
        .strip_prefix('{')
        .and_then(|name| name.strip_suffix('}'));
    Some(braced.unwrap_or(name))
}

/// What a map makes of a value.
fn mapped<'a>(map: &'a Directive, value: &str) -> &'a str {
    let found = entry(map, value).or_else(|| entry(map, "default"));
    found.unwrap_or_default()
}

fn entry<'a>(block: &'a Directive, name: &str) -> Option<&'a str> {
    let entry = block.inside().iter().find(|one| one.name == name)?;
    Some(entry.first())
}
