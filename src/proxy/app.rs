//! What does a request find when it comes in?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use ipnet::IpNet;

use super::streams::Streams;
use crate::bucket::{Crowd, Gate, Limiter, SlotTimer};
use crate::forward::{Clients, Target};
use crate::key::KeyHasher;
use crate::metrics::{Metrics, RouteMetrics, UpstreamMetrics};
use crate::route::{Pattern, Routes};
use crate::store::RedisStore;

/// All that the requests of an instance share.
#[derive(Debug)]
pub struct App {
    /// Which request goes where.
    pub routes: Routes<Route>,
    /// Requests that no route takes.
    pub no_route: RouteMetrics,
    /// All limits, in the order of the config.
    pub limiters: Vec<Arc<Limiter>>,
    /// All upstreams, in the order of the config.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Those who wait.
    pub crowd: Arc<Crowd>,
    /// What keys are hashed with.
    pub hasher: KeyHasher,
    /// Where buckets are shared with other instances.
    pub store: Option<Arc<RedisStore>>,
    /// What doesn't belong to a route.
    pub settings: Settings,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Whether nobody is served any more.
    pub closed: Arc<AtomicBool>,
}

/// What doesn't belong to a route.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who may say from where a request comes.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a request's body may make no progress.
    pub body_timeout: Duration,
    /// The size of a request's head in bytes.
    pub max_header_bytes: usize,
    /// Whether answers carry the older `RateLimit-*` fields as well.
    pub legacy_headers: bool,
    /// Whether each request has a line in the log.
    pub access_log: bool,
}

/// A route with all that it needs.
#[derive(Debug)]
pub struct Route {
    /// Its name.
    pub name: Arc<str>,
    /// Which requests it takes.
    pub pattern: Pattern,
    /// Its limits, in the order in which they are asked.
    pub limiters: Vec<Arc<Limiter>>,
    /// Its upstream, an index into [`App::upstreams`].
    pub upstream: usize,
    /// Whether the pattern's path is taken off before forwarding.
    pub strip_prefix: bool,
    /// The most that a request's body may have.
    pub max_body_bytes: u64,
    /// What is counted for it.
    pub metrics: RouteMetrics,
}

/// An upstream with its gate.
#[derive(Debug)]
pub struct Upstream {
    /// Who answers.
    pub target: Target,
    /// Who may ask.
    pub gate: Arc<Gate>,
    /// What is counted for it.
    pub metrics: Arc<UpstreamMetrics>,
}

/// What the requests of one runtime share.
#[derive(Debug)]
pub struct Worker {
    /// What holds for requests that come now. A reload is one swap.
    pub edition: ArcSwap<Edition>,
    /// The runtime's timer.
    pub timer: SlotTimer,
    /// The runtime's answers that wait for clients of HTTP/2.
    pub streams: Streams,
}

/// What holds for a request from its head to the end of its answer.
#[derive(Debug)]
pub struct Edition {
    /// The instance, as one config has it.
    pub app: Arc<App>,
    /// The runtime's connections to that config's upstreams.
    pub clients: Clients<Incoming>,
}

impl App {
    /// Whether nobody is served any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}
