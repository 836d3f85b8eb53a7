//! How does a request go to its upstream, and its answer come back?

use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::Instant;
use tracing::debug;

use super::account::Account;
use super::app::{Edition, Route, Upstream};
use super::outgoing::Content;
use crate::bucket::Permit;
use crate::forward::{
    Client, Fault, FaultKind, Hop, RequestBody, TargetKind, to_client, to_upstream, to_websocket,
};
use crate::key::is_trusted;
use crate::respond::{Rejection, built_in};

/// The longest that an upstream's `Retry-After` holds a line back.
const LONGEST_HOLD: Duration = Duration::from_mins(5);

/// Sends a request whose turn has come, and awaits the head of its answer.
pub(super) async fn send(
    edition: &Edition,
    route: &Route,
    upstream: &Upstream,
    mut parts: Box<Parts>,
    body: Incoming,
    permit: Permit,
    account: &mut Account,
) -> Result<Response<Content>, Rejection> {
    let (client, target) = match (&upstream.target.kind, edition.clients.get(route.upstream)) {
        (TargetKind::Server(target), Some(client)) => (client, target),
        // All of it is here with its head: the permit goes with this function.
        (TargetKind::Respond(respond), _) => return Ok(built_in(respond).await.map(Content::from)),
        (TargetKind::Server(_), None) => return Err(Rejection::NoRoute),
    };
    let settings = &edition.app.settings;
    let path = path(route, client, &parts);
    let hop = Hop {
        peer: account.peer().text(),
        secure: account.peer().is_secure,
        trusted: is_trusted(account.peer().ip(), &settings.trusted_proxies),
    };
    to_upstream(&mut parts, hop, target);
    account.mark(&mut parts.headers);
    let (body, upload) = RequestBody::new(body, settings.body_timeout, route.max_body_bytes);
    let socket = account.socket.take();
    let sent = Instant::now();
    let answer = if socket.is_some() {
        to_websocket(&mut parts.headers);
        Box::pin(client.send_upgrade(parts, path, body, upload)).await
    } else {
        client.send(parts, path, body, upload).await
    };
    let took = sent.elapsed();
    account.upstream_took = Some(took);
    let answer = answer.map_err(|fault| failed(upstream, fault))?;
    let status = answer.status();
    upstream.metrics.answered(status.as_u16(), took);
    let socket = socket.filter(|_| answer.is_switching());
    if let Some(socket) = socket {
        let switched = answer.switch(socket, permit);
        return Ok(switched.map(|tunnel| Content::Tunnel(Box::new(tunnel))));
    }
    if status.is_informational() {
        return Err(failed(
            upstream,
            Fault {
                kind: FaultKind::Broken,
                may_have_seen: true,
                cause: None,
            },
        ));
    }
    hold(account, status, answer.headers());
    let mut response = answer.with(permit);
    let version = response.version();
    to_client(response.headers_mut(), version);
    *response.version_mut() = http::Version::HTTP_11;
    Ok(response.map(Content::Upstream))
}

/// What the upstream is asked for: the client's own bytes, but for a prefix
/// that the route takes off and one that the upstream's URL puts before.
fn path(route: &Route, client: &Client<Incoming>, parts: &Parts) -> PathAndQuery {
    let whole = parts
        .uri
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"));
    let base = client.target().base_path.as_deref();
    if base.is_none() && !route.strip_prefix {
        return whole;
    }
    let own = if route.strip_prefix {
        route.pattern.strip(whole.path())
    } else {
        whole.path()
    };
    let query = whole
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let base = base.unwrap_or_default();
    PathAndQuery::try_from(format!("{base}{own}{query}")).unwrap_or(whole)
}

fn failed(upstream: &Upstream, fault: Fault) -> Rejection {
    if let Some(kind) = fault.kind.metric() {
        upstream.metrics.failed(kind);
        debug!(upstream = %upstream.target.name, error = %fault, cause = ?fault.cause, "upstream failed");
    }
    Rejection::Upstream(fault)
}

/// An upstream that says when to come back is left alone until then, by those
/// who wait in the line that it feels.
fn hold(account: &Account, status: StatusCode, headers: &HeaderMap) {
    let asks = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let Some(wait) = headers
        .get(header::RETRY_AFTER)
        .filter(|_| asks)
        .and_then(retry_after)
    else {
        return;
    };
    if let Some(claim) = account
        .claims
        .iter()
        .rfind(|claim| claim.limiter.has_line(claim.key))
    {
        claim.limiter.hold(claim.key, wait.min(LONGEST_HOLD));
    }
}

/// Seconds, or a date by the clock on the wall: the one clock that the upstream shares.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "an HTTP date is on the wall's clock"
    )]
    let now = SystemTime::now();
    httpdate::parse_http_date(text)
        .ok()?
        .duration_since(now)
        .ok()
}
