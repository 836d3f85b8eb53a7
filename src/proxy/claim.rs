//! Under which limits does a request fall, with which keys?

use std::sync::Arc;

use http::request::Parts;

use super::account::Account;
use super::app::{App, Route};
use super::sight::{Sight, bounded, prefer_wait};
use crate::bucket::{Claim, Claims, Limiter, Places};
use crate::key::{Facts, KeyHasher, KeyId, client_address};
use crate::limit::{OnMissingKey, Policy};
use crate::metrics::Reason;
use crate::respond::Rejection;

/// Finds the request's route, and its key in each of the route's limits.
pub(super) fn find<'a>(
    app: &'a App,
    parts: &Parts,
    account: &mut Account,
) -> Result<&'a Route, Rejection> {
    if account.peer().is_multiplexed() {
        bounded(parts, app.settings.max_header_bytes)?;
    }
    let sight = Sight::of(parts, account.peer().oddity())?;
    let (place, route) = app
        .routes
        .find(&sight.host, &sight.path, &parts.method)
        .ok_or(Rejection::NoRoute)?;
    account.route = Some(place);
    account.max_wait = prefer_wait(&parts.headers);
    let facts = facts(app, route, parts, &sight, account);
    account.claims = claims(app, route, &facts)?;
    Ok(route)
}

/// What the request's keys are read from.
fn facts<'a>(
    app: &App,
    route: &'a Route,
    parts: &'a Parts,
    sight: &'a Sight<'a>,
    account: &Account,
) -> Facts<'a> {
    Facts {
        ip: Some(client_address(
            account.peer().ip(),
            &parts.headers,
            &app.settings.trusted_proxies,
        )),
        host: &sight.host,
        method: &parts.method,
        route: &route.name,
        path: &sight.path,
        query: parts.uri.query(),
        headers: &parts.headers,
    }
}

/// Says under which keys a request waits. It is read once more: most requests, which
/// don't wait, have no use for the text.
pub(super) fn label(
    app: &App,
    route: &Route,
    parts: &Parts,
    account: &Account,
    places: &mut Places<'_>,
) {
    places.label(|policy: &Policy| {
        let sight = Sight::of(parts, None).ok()?;
        let facts = facts(app, route, parts, &sight, account);
        policy.key.text(&facts, policy.ipv6_prefix)
    });
}

fn claims(app: &App, route: &Route, facts: &Facts<'_>) -> Result<Claims, Rejection> {
    let mut claims = Claims::new();
    for limiter in &route.limiters {
        let key = |policy: &Policy| policy.key.read(facts, policy.ipv6_prefix, &app.hasher);
        claims.extend(claim(limiter, facts, &app.hasher, key)?);
    }
    Ok(claims)
}

/// What a request claims in a limit, under the key that `read` finds; nothing where the
/// limit doesn't count it.
pub fn claim(
    limiter: &Arc<Limiter>,
    facts: &Facts<'_>,
    hasher: &KeyHasher,
    read: impl FnOnce(&Policy) -> Option<KeyId>,
) -> Result<Option<Claim>, Rejection> {
    let policy = limiter.policy();
    if policy.exempt.takes(facts) {
        return Ok(None);
    }
    let unread = |reason: Reason, rejection: Rejection| {
        if policy.dry_run {
            limiter.metrics().would_refuse(reason);
            return Ok(None);
        }
        limiter.metrics().refused(reason);
        Err(rejection)
    };
    let limit = || Arc::clone(&policy.name);
    let key = match read(&policy) {
        Some(key) if policy.exempt.takes_key(key) => return Ok(None),
        Some(key) => policy.tiered(key, facts, hasher),
        None if policy.on_missing_key == OnMissingKey::Skip => return Ok(None),
        None => return unread(Reason::MissingKey, Rejection::MissingKey { limit: limit() }),
    };
    match policy.cost.of(facts.headers) {
        Ok(cost) => Ok(Some(Claim {
            limiter: Arc::clone(limiter),
            key,
            cost,
        })),
        Err(bad) => {
            let limit = limit();
            unread(Reason::Cost, Rejection::BadCost { limit, bad })
        }
    }
}
