//! What does the API say of limits, buckets and all the rest?

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

use crate::bucket::{BucketView, Limiter};
use crate::forward::TargetKind;
use crate::metrics::Readings;
use crate::proxy::{App, Upstream};
use crate::window::Window;

/// Counts by what they are of.
type Counts = BTreeMap<String, u64>;

/// Until when something is paused.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Pause {
    /// Whether nobody may go for now.
    pub(super) paused: bool,
    /// For how long yet, in seconds.
    pub(super) paused_for_seconds: Option<f64>,
    /// Until when, by this machine's clock.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) paused_until: Option<String>,
}

/// A limit.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct LimitView {
    name: String,
    /// `leaky_bucket`, or `token_bucket` where nobody waits; `fixed_window`,
    /// `sliding_window_log` or `sliding_window_counter` where it counts.
    algorithm: &'static str,
    /// What its key is made of.
    key: String,
    /// Whether its keys may be credentials, so that only their hashes are shown.
    secret: bool,
    /// As configured, `10r/s`; of a window, `1000 per 1d`.
    rate: String,
    rate_per_second: f64,
    /// How many may wait, or go at once, beyond the rate.
    burst: u32,
    /// How many of those go at once.
    delay: u32,
    /// How many may pass in a window.
    limit: Option<u32>,
    window_seconds: Option<f64>,
    /// The longest wait that a request is admitted to.
    max_wait_seconds: Option<f64>,
    dry_run: bool,
    /// Requests that wait in this instance.
    waiting: usize,
    /// Keys that this instance knows.
    buckets: usize,
    /// The longest line, all instances together where they share it.
    line_length: usize,
    oldest_wait_seconds: f64,
    #[serde(flatten)]
    pause: Pause,
    /// Keys that are paused by themselves.
    paused_buckets: usize,
    /// Requests admitted since this instance began, whether they waited or not.
    admitted: u64,
    /// Requests refused since then, by why.
    #[schema(value_type = BTreeMap<String, u64>)]
    refused: Counts,
    /// Requests that a dry run would have refused, by why.
    #[schema(value_type = BTreeMap<String, u64>)]
    would_refuse: Counts,
    /// Slots by what became of them.
    #[schema(value_type = BTreeMap<String, u64>)]
    slots: Counts,
}

/// A bucket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct BucketJson {
    /// The hash of its key.
    id: String,
    /// Its key, while somebody waits and it can't be a credential.
    key: Option<String>,
    /// Requests that wait in this instance.
    waiting: usize,
    /// Requests that wait in all instances that share the line, as last heard.
    line_length: usize,
    /// How long until its next slot.
    next_slot_seconds: f64,
    oldest_wait_seconds: f64,
    #[serde(flatten)]
    pause: Pause,
}

/// An upstream.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct UpstreamView {
    name: String,
    /// Where it is, or `built in`.
    target: String,
    in_flight: usize,
    max_in_flight: Option<u32>,
    /// `well`, `down`, or `unknown` where it is not probed.
    state: &'static str,
    /// Answers since this instance began, by class of status.
    #[schema(value_type = BTreeMap<String, u64>)]
    answers: Counts,
    /// Seconds that all those answers took to begin.
    answer_seconds: f64,
    /// What went wrong, by kind.
    #[schema(value_type = BTreeMap<String, u64>)]
    errors: Counts,
}

/// A route.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RouteView {
    name: String,
    limits: Vec<String>,
    upstream: String,
    /// Requests since this instance began, by how they ended.
    #[schema(value_type = BTreeMap<String, u64>)]
    requests: Counts,
}

/// The config that is served by.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ConfigView {
    /// When it was loaded, by this machine's clock.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) loaded_at: Option<String>,
    /// Reloads that were asked for since this instance began, by how they went:
    /// `success` or `failure`.
    #[schema(value_type = BTreeMap<String, u64>)]
    reloads: Counts,
}

/// Where buckets live.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct StoreView {
    /// `memory` or `redis`.
    pub(super) kind: &'static str,
    /// `up`, or `degraded` where limits go on without it.
    pub(super) state: &'static str,
    /// Live instances that share it, this one included, as last seen.
    pub(super) instances: u32,
}

impl Pause {
    pub(super) fn of(left: Option<Duration>) -> Self {
        Self {
            paused: left.is_some(),
            paused_for_seconds: left.map(seconds),
            paused_until: left.and_then(date),
        }
    }
}

impl LimitView {
    pub(super) fn of(limiter: &Limiter, readings: &Readings) -> Self {
        let policy = limiter.policy();
        let census = limiter.observe();
        let window = policy.rule.window();
        Self {
            name: policy.name.to_string(),
            algorithm: policy.rule.algorithm(),
            key: policy.key.to_string(),
            secret: policy.key.is_secret(),
            rate: policy.rule.to_string(),
            rate_per_second: policy.rule.per_second(),
            burst: policy.rule.burst(),
            delay: policy.rule.delay(),
            limit: window.map(Window::limit),
            window_seconds: window.map(|window| seconds(window.span())),
            max_wait_seconds: policy.max_wait.map(seconds),
            dry_run: policy.dry_run,
            waiting: census.waiting,
            buckets: census.buckets,
            line_length: census.longest,
            oldest_wait_seconds: seconds(census.oldest),
            pause: Pause::of(limiter.paused_for(None)),
            paused_buckets: limiter.paused_keys().len(),
            admitted: readings.admitted(&policy.name),
            refused: readings.refused(&policy.name),
            would_refuse: readings.would_refuse(&policy.name),
            slots: readings.slots(&policy.name),
        }
    }
}

impl BucketJson {
    pub(super) fn of(bucket: BucketView) -> Self {
        Self {
            id: bucket.id.to_string(),
            key: bucket.key,
            waiting: bucket.waiting,
            line_length: bucket.length,
            next_slot_seconds: seconds(bucket.next_slot),
            oldest_wait_seconds: seconds(bucket.oldest_wait),
            pause: Pause::of(bucket.paused),
        }
    }
}

impl UpstreamView {
    pub(super) fn of(upstream: &Upstream, readings: &Readings) -> Self {
        let name = &upstream.target.name;
        let (target, probed) = match &upstream.target.kind {
            TargetKind::Server(server) => (
                format!("{}://{}", server.scheme, server.authority),
                server.health.is_some(),
            ),
            TargetKind::Respond(_) => ("built in".to_owned(), false),
        };
        Self {
            name: name.to_string(),
            target,
            in_flight: upstream.gate.in_flight(),
            max_in_flight: upstream.target.max_in_flight,
            state: match (probed, upstream.gate.is_well()) {
                (false, _) => "unknown",
                (true, true) => "well",
                (true, false) => "down",
            },
            answers: readings.upstream_answers(name),
            answer_seconds: readings.upstream_seconds(name),
            errors: readings.upstream_errors(name),
        }
    }
}

impl RouteView {
    pub(super) fn all(app: &App, readings: &Readings) -> Vec<Self> {
        let upstream = |index: usize| {
            let upstream = app.upstreams.get(index);
            upstream.map_or_else(String::new, |upstream| upstream.target.name.to_string())
        };
        let routes = app.routes.iter().map(|route| Self {
            name: route.name.to_string(),
            limits: route
                .limiters
                .iter()
                .map(|limiter| limiter.policy().name.to_string())
                .collect(),
            upstream: upstream(route.upstream),
            requests: readings.requests(&route.name),
        });
        routes.collect()
    }
}

impl ConfigView {
    pub(super) fn of(readings: &Readings) -> Self {
        let loaded = SystemTime::UNIX_EPOCH.checked_add(readings.loaded());
        Self {
            loaded_at: loaded.and_then(written),
            reloads: readings.reloads(),
        }
    }
}

impl StoreView {
    pub(super) fn of(app: &App) -> Self {
        app.store.as_ref().map_or(
            Self {
                kind: "memory",
                state: "up",
                instances: 1,
            },
            |store| Self {
                kind: "redis",
                state: if store.is_well() { "up" } else { "degraded" },
                instances: store.instances(),
            },
        )
    }
}

/// Whole microseconds as seconds.
pub(super) fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e6
}

/// The date so far from now, for people.
fn date(left: Duration) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a date is for people")]
    let now = SystemTime::now();
    written(now.checked_add(left)?)
}

fn written(time: SystemTime) -> Option<String> {
    let time = OffsetDateTime::from(time);
    time.replace_nanosecond(0).ok()?.format(&Rfc3339).ok()
}
