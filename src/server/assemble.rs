//! How does a config become what requests are served by?

use std::sync::Arc;

use super::instance::Estate;
use crate::bucket::{Gate, Limiter};
use crate::config::Config;
use crate::forward::Target;
use crate::limit::Policy;
use crate::proxy::{App, Route, Settings, Upstream};
use crate::route::Routes;

/// Puts together what requests are served by. Names were resolved when the
/// config was checked. What the config before had under the same name goes on:
/// buckets with those who wait in them, and permits that are out.
pub(super) fn assemble(config: &Config, estate: &Estate, before: Option<&App>) -> App {
    let limiters: Vec<_> = config
        .limits
        .iter()
        .map(|policy| limiter(policy.clone().resolved(&estate.hasher), estate, before))
        .collect();
    let upstreams = config
        .upstreams
        .iter()
        .map(|target| upstream(target, estate, before));
    let routes = config.routes.iter().map(|route| {
        let limiters = route
            .limits
            .iter()
            .filter_map(|index| limiters.get(*index).cloned());
        let route = Route {
            name: Arc::clone(&route.name),
            pattern: route.pattern.clone(),
            limiters: limiters.collect(),
            upstream: route.upstream,
            strip_prefix: route.strip_prefix,
            max_body_bytes: route.max_body_bytes.unwrap_or(config.server.max_body_bytes),
            metrics: estate.metrics.route(&route.name),
        };
        (route.pattern.clone(), route)
    });
    App {
        routes: Routes::new(routes.collect()),
        no_route: estate.metrics.route("none"),
        upstreams: upstreams.collect(),
        limiters,
        crowd: Arc::clone(&estate.crowd),
        hasher: estate.hasher.clone(),
        store: estate.store.clone(),
        settings: Settings {
            trusted_proxies: config.server.trusted_proxies.clone(),
            body_timeout: config.server.body_timeout,
            max_header_bytes: config.server.max_header_bytes,
            legacy_headers: config.server.legacy_headers,
            access_log: config.log.access,
        },
        metrics: Arc::clone(&estate.metrics),
        closed: Arc::clone(&estate.closed),
    }
}

fn limiter(policy: Policy, estate: &Estate, before: Option<&App>) -> Arc<Limiter> {
    let same = |limiter: &&Arc<Limiter>| limiter.policy().name == policy.name;
    let known = before.and_then(|before| before.limiters.iter().find(same));
    if let Some(known) = known.filter(|known| known.policy().rule.is_like(&policy.rule)) {
        known.change(policy);
        return Arc::clone(known);
    }
    let counted = estate.metrics.limit(&policy.name);
    let new = Limiter::new(
        policy,
        Arc::clone(&estate.room),
        Arc::clone(&estate.crowd),
        estate.clock,
        counted,
        estate.store.clone(),
    );
    // Those who wait in a line are served by it, though nobody else comes there any more.
    if let Some(known) = known {
        new.succeed(known);
    }
    new
}

fn upstream(target: &Target, estate: &Estate, before: Option<&App>) -> Arc<Upstream> {
    let same = |upstream: &&Arc<Upstream>| {
        upstream.target.name == target.name && upstream.target.max_in_flight == target.max_in_flight
    };
    let known = before.and_then(|before| before.upstreams.iter().find(same));
    let (gate, metrics) = if let Some(known) = known {
        (Arc::clone(&known.gate), Arc::clone(&known.metrics))
    } else {
        let metrics = Arc::new(estate.metrics.upstream(&target.name));
        (
            Arc::new(Gate::new(target.max_in_flight, Arc::clone(&metrics))),
            metrics,
        )
    };
    Arc::new(Upstream {
        target: target.clone(),
        gate,
        metrics,
    })
}
