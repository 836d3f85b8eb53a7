//! How does an instance stand, at a glance?

use std::fmt::Write as _;

use crate::forward::TargetKind;
use crate::proxy::App;
use crate::store::RedisStore;
use crate::units::Human;

const HEAD: &str = r#"<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta http-equiv="refresh" content="2">
<title>weir</title><style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid #8884;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{font-weight:600;opacity:.7}
td{font-variant-numeric:tabular-nums}div{overflow-x:auto}
</style>"#;

const LIMITS: &str = "<h2>Limits</h2><div><table><tr><th>limit<th>waiting<th>longest line<th>oldest wait\
    <th>rate<th>burst<th>at once<th>longest wait<th>keys</tr>";

const UPSTREAMS: &str = "</table></div><h2>Upstreams</h2><div><table><tr><th>upstream<th>in flight<th>state\
    <th>at most in flight<th>answers</tr>";

/// What is to be said of a store that instances share.
fn shared(store: &RedisStore) -> String {
    let instances = match store.instances() {
        1 => "this instance alone".to_owned(),
        many => format!("{many} instances"),
    };
    if store.is_well() {
        format!(" Lines are in Redis, shared by {instances}.")
    } else {
        format!(" Redis is away: limits go on without it, as last shared by {instances}.")
    }
}

/// The status page: a table of limits, one of upstreams.
pub(super) fn status(app: &App, draining: bool) -> String {
    let mut page = String::from(HEAD);
    let state = if draining { "draining" } else { "ready" };
    let version = env!("CARGO_PKG_VERSION");
    // A String takes whatever is written.
    let _infallible = write!(
        page,
        "<h1>weir {version}: {state}</h1><p>{} waiting in this instance.{}</p>",
        app.crowd.waiting(),
        app.store.as_deref().map_or_else(String::new, shared),
    );
    page.push_str(LIMITS);
    for limiter in &app.limiters {
        let policy = limiter.policy();
        let census = limiter.observe();
        let longest_wait = policy.pace.longest_wait();
        let _infallible = write!(
            page,
            "<tr><td>{}{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            policy.name,
            if policy.dry_run { " (dry run)" } else { "" },
            census.waiting,
            census.longest,
            Human(census.oldest),
            policy.pace.rate(),
            policy.pace.burst(),
            policy.pace.delay().saturating_add(1),
            Human(
                policy
                    .max_wait
                    .map_or(longest_wait, |most| most.min(longest_wait))
            ),
            census.buckets,
        );
    }
    page.push_str(UPSTREAMS);
    for upstream in &app.upstreams {
        let (kind, probed) = match &upstream.target.kind {
            TargetKind::Server(server) => (
                format!("{}://{}", server.scheme, server.authority),
                server.health.is_some(),
            ),
            TargetKind::Respond(respond) => {
                (format!("built in, {}", respond.status.as_u16()), false)
            }
        };
        let most = upstream
            .target
            .max_in_flight
            .map_or("any number".to_owned(), |most| most.to_string());
        let state = match (probed, upstream.gate.is_well()) {
            (false, _) => "not probed",
            (true, true) => "well",
            (true, false) => "down",
        };
        let in_flight = upstream.gate.in_flight();
        let _infallible = write!(
            page,
            "<tr><td>{}<td>{in_flight}<td>{state}<td>{most}<td>{kind}</tr>",
            upstream.target.name
        );
    }
    page.push_str("</table></div><p><a href=\"/metrics\">metrics</a></p>");
    page
}
