//! What became of a request, and who is told?

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::upgrade::OnUpgrade;
use tracing::info;

use super::app::{Edition, Route};
use super::outgoing::{Content, Outgoing};
use crate::bucket::Claims;
use crate::metrics::{Outcome, RouteMetrics};
use crate::peer::Peer;
use crate::respond::{Dialect, LimitFields, Rejection};

static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The longest request id that is taken over from a client.
const LONGEST_ID: usize = 128;

/// One request's entry: opened with its head, closed when its answer has ended
/// or when it is dropped, whichever way. It is counted once.
#[derive(Debug)]
pub(super) struct Account {
    edition: Arc<Edition>,
    peer: Arc<Peer>,
    started: Instant,
    id: HeaderValue,
    /// Its place among all routes: a handle of its own would be counted by all threads.
    pub(super) route: Option<usize>,
    pub(super) claims: Claims,
    pub(super) max_wait: Option<Duration>,
    pub(super) waited: Option<Duration>,
    pub(super) upstream_took: Option<Duration>,
    /// The client's connection, where it asks for a WebSocket.
    pub(super) socket: Option<OnUpgrade>,
    dialect: Dialect,
    outcome: Outcome,
    status: u16,
}

impl Account {
    /// Opens a request's entry. Until it is said to be otherwise, its client left.
    ///
    /// Boxed, as it goes from the request's future into its answer's body.
    pub(super) fn open(edition: &Arc<Edition>, peer: &Arc<Peer>, headers: &HeaderMap) -> Box<Self> {
        peer.asked();
        Box::new(Self {
            edition: Arc::clone(edition),
            peer: Arc::clone(peer),
            started: Instant::now(),
            id: request_id(headers),
            route: None,
            claims: Claims::new(),
            max_wait: None,
            waited: None,
            upstream_took: None,
            socket: None,
            dialect: Dialect::of(headers),
            outcome: Outcome::Left,
            status: 499,
        })
    }

    /// Who asks.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Marks the request that goes to the upstream.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        headers.insert(&X_REQUEST_ID, self.id.clone());
    }

    /// The request is answered as its upstream says.
    pub(super) fn answer(mut self: Box<Self>, response: Response<Content>) -> Response<Outgoing> {
        self.outcome = if self.waited.is_some() {
            Outcome::Delayed
        } else {
            Outcome::Passed
        };
        let status = response.status().as_u16();
        self.close_with(status, response)
    }

    /// The request is answered by weir: it was not served.
    pub(super) fn reject(mut self: Box<Self>, rejection: &Rejection) -> Response<Outgoing> {
        self.outcome = rejection.outcome();
        if rejection.is_too_large() {
            self.metrics().body_refused();
        }
        // To a client of gRPC it is 200 with another status, and counts as what it is.
        let status = rejection.status().as_u16();
        let response = rejection.answer_in(self.dialect);
        self.close_with(status, response.map(Content::from))
    }

    fn close_with(
        mut self: Box<Self>,
        status: u16,
        mut response: Response<Content>,
    ) -> Response<Outgoing> {
        self.label(status, response.headers_mut());
        response.map(|content| Outgoing::new(content, self))
    }

    /// What every answer says of the request and its limits.
    fn label(&mut self, status: u16, headers: &mut HeaderMap) {
        self.status = status;
        headers.insert(&X_REQUEST_ID, self.id.clone());
        LimitFields::of(&self.claims, self.max_wait)
            .write(headers, self.edition.app.settings.legacy_headers);
        if let Some(waited) = self.waited {
            let timing = format!("queue;dur={:.3}", waited.as_secs_f64() * 1e3);
            if let Ok(timing) = HeaderValue::try_from(timing) {
                headers.append(&SERVER_TIMING, timing);
            }
        }
    }

    fn route(&self) -> Option<&Route> {
        self.edition.app.routes.get(self.route?)
    }

    fn metrics(&self) -> &RouteMetrics {
        self.route()
            .map_or(&self.edition.app.no_route, |route| &route.metrics)
    }

    fn log(&self, took: Duration) {
        let millis =
            |span: Option<Duration>| span.map(|span| (span.as_secs_f64() * 1e6).round() / 1e3);
        let keys: Vec<String> = self
            .claims
            .iter()
            .map(|claim| claim.key.to_string())
            .collect();
        info!(
            target: "weir::access",
            route = self.route().map_or("none", |route| &route.name),
            keys = keys.join(","),
            outcome = self.outcome.as_str(),
            status = self.status,
            wait_ms = millis(self.waited),
            upstream_ms = millis(self.upstream_took),
            took_ms = millis(Some(took)),
            request_id = self.id.to_str().unwrap_or_default(),
            "request"
        );
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.started);
        let metrics = self.metrics();
        metrics.ended(self.outcome);
        if self.outcome != Outcome::Left {
            metrics.answered(self.status, took);
        }
        if self.edition.app.settings.access_log {
            self.log(took);
        }
        self.peer.answered(now);
    }
}

/// The client's id for the request where it is short and safe, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    let theirs = headers.get(&X_REQUEST_ID).filter(|id| {
        let bytes = id.as_bytes();
        !bytes.is_empty() && bytes.len() <= LONGEST_ID && bytes.iter().all(safe)
    });
    // A copy: the value itself would keep the whole head's buffer alive.
    let copied = theirs.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok());
    copied.unwrap_or_else(new_id)
}

/// 128 bits that no other request of any instance is likely to have.
fn new_id() -> HeaderValue {
    use std::cell::Cell;
    use std::hash::{BuildHasher as _, RandomState};

    thread_local! {
        static SEEDS: [RandomState; 2] = [RandomState::new(), RandomState::new()];
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }
    let count = COUNT.get();
    COUNT.set(count.wrapping_add(1));
    let [high, low] = SEEDS.with(|seeds| {
        let half = |seed: &RandomState| u128::from(seed.hash_one(count));
        seeds.each_ref().map(half)
    });
    let id = (high << 64) | low;
    let digit = |place: usize| {
        let digit = (id >> (124 - 4 * place)) & 15;
        b"0123456789abcdef"
            .get(usize::try_from(digit).unwrap_or(0))
            .copied()
            .unwrap_or(b'0')
    };
    let text: [u8; 32] = std::array::from_fn(digit);
    HeaderValue::from_bytes(&text).expect("hex digits make a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_kept_if_short_and_safe() {
        let id = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(
                "x-request-id",
                HeaderValue::from_bytes(value.as_bytes()).expect("a value"),
            );
            request_id(&headers)
        };
        assert_eq!(id("a-1:b/c"), "a-1:b/c");
        for odd in ["", "a b", "a\tb", "<x>", "\u{e9}", &"x".repeat(129)] {
            let made = id(odd);
            assert_eq!(made.len(), 32, "{odd} became {made:?}");
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
