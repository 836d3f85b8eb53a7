//! Which numbers of a sound config may surprise whoever wrote them?

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use http::{HeaderMap, Method};

use super::checked::{Config, RouteConfig};
use super::outlook::Outlook;
use crate::forward::TargetKind;
use crate::key::{Facts, KeyHasher};
use crate::limit::{OnMissingKey, Policy, Rule};
use crate::units::Human;

/// So long clients wait that set no time of their own.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than this nobody waits on purpose.
const LONGEST: Duration = Duration::from_mins(1);
/// More at once than this a backend should be asked about.
const CROWD: u32 = 100;
/// A shorter token can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Something that works as written, but perhaps not as meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    path: String,
    text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// All that may surprise, in the order of the sections.
pub fn warnings(config: &Config) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |path: String, text: String| found.push(Warning { path, text });
    of_server(config, &mut warn);
    for (index, policy) in config.limits.iter().enumerate() {
        let mut warn = |text| warn(format!("limits.{}", policy.name), text);
        if used(config, |route| route.limits.contains(&index)) {
            of_limit(config, policy, &mut warn);
        } else {
            warn("no route asks it".to_owned());
        }
    }
    for (index, target) in config.upstreams.iter().enumerate() {
        if !used(config, |route| route.upstream == index) {
            let path = format!("upstreams.{}", target.name);
            warn(path, "no route leads to it".to_owned());
        }
    }
    for (index, route) in config.routes.iter().enumerate() {
        let limits: Vec<_> = enforced(config, route).map(Outlook::of).collect();
        let texts = [crowd(config, route, &limits), queue(&limits)];
        for text in texts.into_iter().flatten() {
            warn(format!("routes[{index}]"), text);
        }
    }
    found
}

fn used(config: &Config, by: impl Fn(&RouteConfig) -> bool) -> bool {
    config.routes.iter().any(by)
}

fn of_server(config: &Config, warn: &mut impl FnMut(String, String)) {
    let server = &config.server;
    let mut warn = |key: &str, text| warn(format!("server.{key}"), text);
    if server
        .trusted_proxies
        .iter()
        .any(|net| net.prefix_len() == 0)
    {
        let text = "whoever connects is believed: any client may claim any address";
        warn("trusted_proxies", text.to_owned());
    }
    let token = server.admin_token.as_ref();
    if token.is_some_and(|token| token.reveal().len() < SHORTEST_TOKEN) {
        let text = format!("shorter than {SHORTEST_TOKEN} characters: it can be guessed");
        warn("admin_token", text);
    }
    let places = config
        .limits
        .iter()
        .map(|policy| Outlook::of(policy).places);
    let places: u64 = places.map(u64::from).sum();
    let max_waiting = server.max_waiting;
    if places > max_waiting as u64 {
        let text = format!(
            "{max_waiting} is less than the {places} places that one key in each limit has: with more waiting, weir answers 503"
        );
        warn("max_waiting", text);
    }
}

fn of_limit(config: &Config, policy: &Policy, warn: &mut impl FnMut(String)) {
    let outlook = Outlook::of(policy);
    let worst = outlook.worst_wait;
    if let Rule::Pace(pace) = &policy.rule
        && pace.burst() == 0
    {
        warn(format!(
            "{} without burst refuses whatever comes closer together than {}: of 10 requests at once 1 passes; set burst (and delay or nodelay), or a larger capacity",
            pace.rate(),
            Human(outlook.interval),
        ));
    }
    let most = policy.cost.most();
    let costly = most > outlook.burst.saturating_add(1);
    if costly && let Some(max_wait) = policy.max_wait.map(Human) {
        warn(format!(
            "a request that costs {most} never passes: its slots take longer than the max_wait of {max_wait}"
        ));
    } else if let Some(max_wait) = policy.max_wait.map(Human) {
        let of = outlook.unreachable;
        if !policy.rule.has_line() {
            warn("max_wait has no effect: nobody waits here".to_owned());
        } else if outlook.burst == policy.rule.delay() {
            let interval = Human(outlook.interval);
            warn(format!(
                "max_wait of {max_wait} is shorter than one interval of {interval}: nobody ever waits"
            ));
        } else if of > 0 {
            let places = outlook.places;
            let stay = if of == 1 {
                "place stays"
            } else {
                "places stay"
            };
            warn(format!(
                "max_wait of {max_wait} is reached with {places} waiting: {of} {stay} empty"
            ));
        }
    }
    if worst > LONGEST || (worst > PATIENCE && policy.max_wait.is_none()) {
        warn(format!(
            "a request may wait {}, and clients commonly give up after {}: set a smaller burst or a shorter max_wait",
            Human(worst),
            Human(PATIENCE),
        ));
    }
    if worst > config.server.shutdown_grace {
        warn(format!(
            "a request may wait {}, longer than the shutdown_grace of {}: those far back get 503 at a restart",
            Human(worst),
            Human(config.server.shutdown_grace),
        ));
    }
    if policy.on_missing_key == OnMissingKey::Skip && may_miss(policy) {
        warn("a request without its key is not limited at all (on_missing_key = \"skip\"): give the key a fallback, like {header.x-user-id|ip}".to_owned());
    }
    if policy.ipv6_prefix < 32 {
        warn(format!(
            "ipv6_prefix of {} puts whole providers into one bucket",
            policy.ipv6_prefix
        ));
    }
}

/// Whether a request that has nothing but an address lacks the key.
fn may_miss(policy: &Policy) -> bool {
    let facts = Facts {
        ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host: "localhost",
        method: &Method::GET,
        route: "/",
        path: "/",
        query: None,
        headers: &HeaderMap::new(),
    };
    let hasher = KeyHasher::new("");
    policy
        .key
        .read(&facts, policy.ipv6_prefix, &hasher)
        .is_none()
}

/// The limits of a route that do refuse.
fn enforced<'a>(config: &'a Config, route: &'a RouteConfig) -> impl Iterator<Item = &'a Policy> {
    let limits = route.limits.iter();
    let asked = limits.filter_map(|limit| config.limits.get(*limit));
    asked.filter(|policy| !policy.dry_run)
}

/// What a burst does to an upstream that takes any number at once.
fn crowd(config: &Config, route: &RouteConfig, limits: &[Outlook]) -> Option<String> {
    let target = config.upstreams.get(route.upstream)?;
    if target.max_in_flight.is_some() || matches!(target.kind, TargetKind::Respond(_)) {
        return None;
    }
    let at_once = limits.iter().map(|limit| limit.at_once).min()?;
    let name = &target.name;
    (at_once > CROWD).then(|| {
        format!(
            "{at_once} requests of one key reach upstream `{name}` at once: set its max_in_flight, or delay instead of nodelay"
        )
    })
}

/// How long a request waits in several lines, none of which is too long alone.
fn queue(limits: &[Outlook]) -> Option<String> {
    let waits = || limits.iter().map(|limit| limit.worst_wait);
    let sum = waits().fold(Duration::ZERO, Duration::saturating_add);
    let alone = waits().max()?;
    (sum > PATIENCE && alone <= PATIENCE).then(|| {
        let patience = Human(PATIENCE);
        format!(
            "the waits of its limits add up to {}, and clients commonly give up after {patience}",
            Human(sum)
        )
    })
}
