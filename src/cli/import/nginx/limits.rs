//! Which limits do `limit_req_zone` and `limit_req` come to?

use std::collections::BTreeMap;

use super::allowed::allowed;
use super::fault::Fault;
use super::key::{Key, Maps, key};
use super::notes::Notes;
use super::plan::{Names, Table, string};
use super::tree::Directive;
use super::value::Level;
use crate::line::Pace;
use crate::units::Rate;

/// weir takes no larger burst, ...
const MOST: u32 = 10_000_000;
/// ... and this one at any rate that NGINX has.
const MOST_AT_ANY_RATE: u32 = 5_000_000;
/// The fastest rate that weir keeps, a second.
const FASTEST: u64 = 100_000;

/// The zones of a config, and the limits that came of them.
#[derive(Debug, Default)]
pub(super) struct Limits<'a> {
    zones: BTreeMap<&'a str, Zone<'a>>,
    maps: Maps<'a>,
    geos: Maps<'a>,
    made: Vec<Made>,
    names: Names,
}

#[derive(Debug)]
struct Zone<'a> {
    directive: &'a Directive,
    key: &'a str,
    rate: Rate,
    written: String,
}

#[derive(Debug)]
struct Made {
    zone: String,
    table: Table,
}

/// What one `limit_req` says.
struct Request<'a> {
    zone: &'a str,
    burst: u32,
    delay: Delay,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delay {
    All,
    Behind(u32),
    None,
}

impl<'a> Limits<'a> {
    /// The zones and maps of the `http` block.
    pub(super) fn of(http: &'a [Directive], notes: &mut Notes) -> Result<Self, Fault> {
        let mut limits = Self::default();
        for directive in http {
            match (&*directive.name, directive.values.as_slice()) {
                ("limit_req_zone", _) => {
                    let (name, zone) = zone(directive, notes)?;
                    if limits.zones.insert(name, zone).is_some() {
                        let problem = format!("there is another limit_req_zone named `{name}`");
                        return Err(directive.fault(problem));
                    }
                }
                ("map", [_, variable]) => {
                    let name = variable.trim_start_matches('$');
                    limits.maps.insert(name, directive);
                }
                ("geo", [variable]) => {
                    let name = variable.trim_start_matches('$');
                    limits.geos.insert(name, directive);
                }
                _ => {}
            }
        }
        Ok(limits)
    }

    /// The names of the limits that hold at a level of a server.
    pub(super) fn at(
        &mut self,
        level: &Level<'a>,
        server: &str,
        notes: &mut Notes,
    ) -> Result<Vec<String>, Fault> {
        let directives = level.nearest(&["limit_req"]);
        let mut names: Vec<String> = Vec::new();
        let mut zones = Vec::new();
        let mut waits = 0;
        for directive in directives {
            let request = request(directive)?;
            if zones.contains(&request.zone) {
                let problem = format!("the zone `{}` is asked twice here", request.zone);
                return Err(directive.fault(problem));
            }
            zones.push(request.zone);
            let Some(name) = self.limit(directive, &request, (level, server), notes)? else {
                continue;
            };
            let has_line = request.burst > 0 && request.delay != Delay::None;
            waits += usize::from(has_line);
            if has_line && waits > 1 {
                notes.differs(
                    directive,
                    "a request waits in one line after another, not for the longest of the waits",
                );
            }
            names.push(name);
        }
        Ok(names)
    }

    /// The limits that came of it all.
    pub(super) fn tables(self) -> Vec<Table> {
        self.made.into_iter().map(|made| made.table).collect()
    }

    fn limit(
        &mut self,
        directive: &Directive,
        request: &Request<'_>,
        (level, server): (&Level<'a>, &str),
        notes: &mut Notes,
    ) -> Result<Option<String>, Fault> {
        let Some(zone) = self.zones.get(request.zone) else {
            let why = format!(
                "no limit_req_zone is named `{}`: nothing is limited",
                request.zone
            );
            notes.left_out(directive, &why);
            return Ok(None);
        };
        let allowed = allowed(zone.key, &self.maps, &self.geos);
        let text = allowed.as_ref().map_or(zone.key, |allowed| allowed.key);
        let key = match key(text, server, &self.maps) {
            Ok(key) => key,
            Err(why) => {
                notes.left_out(zone.directive, &why);
                notes.left_out(directive, "its zone is left out: nothing is limited");
                return Ok(None);
            }
        };
        for why in &key.differs {
            notes.differs(zone.directive, why);
        }
        notes.taken(zone.directive);
        notes.taken(directive);
        self.take_maps(zone.key, notes);
        self.take_maps(text, notes);
        let burst = burst(zone, request, directive, notes);
        let mut keys = vec![
            format!("key = {}", string(&key.template)),
            format!("rate = \"{}\"", zone.written),
        ];
        if burst > 0 {
            keys.push(format!("burst = {burst}"));
        }
        match request.delay {
            Delay::None => keys.push("nodelay = true".to_owned()),
            Delay::Behind(delay) if burst > 0 => keys.push(format!("delay = {}", delay.min(burst))),
            Delay::Behind(_) | Delay::All => {}
        }
        keys.extend(of_key(&key));
        if let Some(allowed) = allowed {
            notes.taken(allowed.geo);
            for entry in allowed.geo.inside() {
                notes.taken(entry);
            }
            let quoted: Vec<_> = allowed.networks.into_iter().map(string).collect();
            keys.push(format!("skip = [{}]", quoted.join(", ")));
        }
        keys.push(format!("status = {}", status(level, notes)?));
        if is_dry_run(level, notes)? {
            keys.push("dry_run = true".to_owned());
        }
        let from = format!("{} zone={}", zone.directive.spot(), request.zone);
        let same = |made: &&Made| made.zone == request.zone && made.table.keys == keys;
        if let Some(made) = self.made.iter().find(same) {
            return Ok(Some(made.table.name.clone()));
        }
        let template = keys.first();
        if self
            .made
            .iter()
            .any(|made| made.zone == request.zone && made.table.keys.first() == template)
        {
            notes.differs(
                directive,
                "the zone has another burst or delay elsewhere, which counts by itself here",
            );
        }
        let name = self.names.like(request.zone);
        self.made.push(Made {
            zone: request.zone.to_owned(),
            table: Table {
                name: name.clone(),
                keys,
                from,
            },
        });
        Ok(Some(name))
    }

    /// A map is taken with the key that it is a part of.
    fn take_maps(&self, key: &str, notes: &mut Notes) {
        for (name, map) in &self.maps {
            let plain = format!("${name}");
            let braced = format!("${{{name}}}");
            if key.contains(&plain) || key.contains(&braced) {
                notes.taken(map);
                map.inside().iter().for_each(|entry| notes.taken(entry));
            }
        }
    }
}

fn of_key(key: &Key) -> Vec<String> {
    let mut keys = Vec::new();
    if key.template.contains("ip}") {
        // NGINX counts each address by itself.
        keys.push("ipv6_prefix = 128".to_owned());
    }
    if key.may_miss {
        keys.push("on_missing_key = \"skip\"".to_owned());
    }
    keys
}

fn zone<'a>(directive: &'a Directive, notes: &mut Notes) -> Result<(&'a str, Zone<'a>), Fault> {
    let fault = |problem: String| directive.fault(problem);
    let (key, parameters) = directive
        .values
        .split_first()
        .ok_or_else(|| fault("`limit_req_zone` takes a key and a zone".to_owned()))?;
    let mut name = None;
    let mut rate = (1, 's');
    for parameter in parameters {
        match parameter.split_once('=') {
            Some(("zone", zone)) => {
                let (zone, _size) = zone
                    .split_once(':')
                    .ok_or_else(|| fault(format!("`{parameter}` has no size")))?;
                name = Some(zone);
            }
            Some(("rate", written)) => {
                rate = parsed_rate(written)
                    .ok_or_else(|| fault(format!("`{parameter}` is not a rate")))?;
            }
            None if parameter == "sync" => notes.differs(
                directive,
                "instances share nothing until [store] names a Redis",
            ),
            _ => return Err(fault(format!("`{parameter}` is not a parameter of it"))),
        }
    }
    let name = name.ok_or_else(|| fault("it has no `zone=`".to_owned()))?;
    let (mut number, unit) = rate;
    let seconds = if unit == 's' { 1 } else { 60 };
    if number > FASTEST * seconds {
        number = FASTEST * seconds;
        notes.differs(directive, "weir's fastest rate is 100000r/s");
    }
    let rate = Rate::new(number, seconds * 1_000_000)
        .ok_or_else(|| fault("it has no rate that weir keeps".to_owned()))?;
    if let Some(why) = rounded(number, seconds) {
        notes.differs(directive, &why);
    }
    let zone = Zone {
        directive,
        key,
        rate,
        written: format!("{number}r/{unit}"),
    };
    Ok((name, zone))
}

/// NGINX keeps rates in thousandths of a request a second, cut off: what that comes to
/// where anyone would notice.
fn rounded(number: u64, seconds: u64) -> Option<String> {
    let exact = number * 1_000;
    let kept = exact / seconds;
    let off = exact - kept * seconds;
    (off * 100 > exact).then(|| {
        let each = 1_000.0 / f64::from(u32::try_from(kept.max(1)).unwrap_or(u32::MAX));
        format!("the rate is kept exactly; NGINX makes it one request every {each:.1} s")
    })
}

fn parsed_rate(written: &str) -> Option<(u64, char)> {
    let (number, unit) = match (written.strip_suffix("r/s"), written.strip_suffix("r/m")) {
        (Some(number), _) => (number, 's'),
        (None, Some(number)) => (number, 'm'),
        (None, None) => return None,
    };
    let number = number.parse::<u64>().ok().filter(|number| *number > 0)?;
    u32::try_from(number).is_ok().then_some((number, unit))
}

fn request(directive: &Directive) -> Result<Request<'_>, Fault> {
    let mut zone = None;
    let (mut burst, mut delay) = (0, Delay::All);
    for parameter in directive.texts() {
        let number = |text: &str| {
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| directive.fault(format!("`{parameter}` is not a number above 0")))
        };
        match parameter.split_once('=') {
            Some(("zone", name)) if !name.is_empty() => zone = Some(name),
            Some(("burst", count)) => burst = number(count)?,
            Some(("delay", count)) => delay = Delay::Behind(number(count)?),
            None if parameter == "nodelay" => delay = Delay::None,
            _ => return Err(directive.fault(format!("`{parameter}` is not a parameter of it"))),
        }
    }
    Ok(Request {
        zone: zone.ok_or_else(|| directive.fault("it has no `zone=`"))?,
        burst,
        delay,
    })
}

/// The burst, or as much of it as weir takes.
fn burst(zone: &Zone<'_>, request: &Request<'_>, directive: &Directive, notes: &mut Notes) -> u32 {
    let most = request.burst.min(MOST);
    let burst = match Pace::new(zone.rate, most, 0) {
        Ok(_) => most,
        Err(_) => most.min(MOST_AT_ANY_RATE),
    };
    if burst < request.burst {
        notes.differs(directive, &format!("weir keeps a burst of {burst} here"));
    }
    burst
}

fn status(level: &Level<'_>, notes: &mut Notes) -> Result<u16, Fault> {
    let Some(directive) = level.one("limit_req_status") else {
        return Ok(503);
    };
    notes.taken(directive);
    let status = directive.first().parse::<u16>().ok();
    status
        .filter(|status| (400..600).contains(status))
        .ok_or_else(|| directive.fault("it takes a status from 400 to 599"))
}

fn is_dry_run(level: &Level<'_>, notes: &mut Notes) -> Result<bool, Fault> {
    let Some(directive) = level.one("limit_req_dry_run") else {
        return Ok(false);
    };
    notes.taken(directive);
    match directive.first() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(directive.fault("it is `on` or `off`")),
    }
}
