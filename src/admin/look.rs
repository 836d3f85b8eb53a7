//! What is there to see?

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::ask::{Named, Queried, Which};
use super::error::AdminError;
use super::view::{BucketJson, ConfigView, LimitView, RouteView, StoreView, UpstreamView, seconds};
use crate::metrics::Readings;

/// How many buckets one asks for.
const TOP: usize = 50;
const MOST: usize = 1_000;

/// All limits.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Limits {
    limits: Vec<LimitView>,
}

/// The deepest buckets of a limit.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Deepest {
    limit: String,
    /// How many buckets the limit has in this instance.
    total: usize,
    /// Those in which most wait first, then those that owe most.
    buckets: Vec<BucketJson>,
}

/// How many buckets are to be shown.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Top {
    /// At most so many.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    top: Option<usize>,
}

/// How an instance stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    version: &'static str,
    /// `ready` or `draining`.
    state: &'static str,
    uptime_seconds: f64,
    /// Requests that wait in this instance.
    waiting: usize,
    /// Tasks of the runtime that looks after the instance.
    tasks: usize,
    config: ConfigView,
    store: StoreView,
    limits: Vec<LimitView>,
    upstreams: Vec<UpstreamView>,
    routes: Vec<RouteView>,
}

/// How the whole instance stands.
#[utoipa::path(get, path = "/api/status", tag = "see",
    responses((status = 200, body = Status), (status = 421, body = super::openapi::Problem, content_type = "application/problem+json")))]
pub(super) async fn status(State(admin): State<Admin>) -> Json<Status> {
    Json(Status::of(&admin))
}

impl Status {
    pub(super) fn of(admin: &Admin) -> Self {
        let app = admin.app.load();
        let readings = Readings::of(&app.metrics);
        let limiters = app.limiters.iter();
        let upstreams = app.upstreams.iter();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            state: if *admin.draining.borrow() {
                "draining"
            } else {
                "ready"
            },
            uptime_seconds: seconds(admin.began.elapsed()),
            waiting: app.crowd.waiting(),
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
            config: ConfigView::of(&readings),
            store: StoreView::of(&app),
            limits: limiters
                .map(|limiter| LimitView::of(limiter, &readings))
                .collect(),
            upstreams: upstreams
                .map(|upstream| UpstreamView::of(upstream, &readings))
                .collect(),
            routes: RouteView::all(&app, &readings),
        }
    }
}

/// All limits, with what they count.
#[utoipa::path(get, path = "/api/limits", tag = "see",
    responses((status = 200, body = Limits), (status = 421, body = super::openapi::Problem, content_type = "application/problem+json")))]
pub(super) async fn limits(State(admin): State<Admin>) -> Json<Limits> {
    let app = admin.app.load();
    let readings = Readings::of(&app.metrics);
    let limiters = app.limiters.iter();
    let limits = limiters.map(|limiter| LimitView::of(limiter, &readings));
    Json(Limits {
        limits: limits.collect(),
    })
}

/// One limit, with what it counts.
#[utoipa::path(get, path = "/api/limits/{limit}", tag = "see", params(Named),
    responses((status = 200, body = LimitView), super::openapi::Seeing))]
pub(super) async fn limit(
    State(admin): State<Admin>,
    which: Which<Named>,
) -> Result<Json<LimitView>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    let readings = Readings::of(&admin.app.load().metrics);
    Ok(Json(LimitView::of(&limiter, &readings)))
}

/// The deepest buckets of a limit, as this instance sees them.
#[utoipa::path(get, path = "/api/limits/{limit}/buckets", tag = "see", params(Named, Top),
    security((), ("token" = [])),
    responses((status = 200, body = Deepest), super::openapi::Seeing, super::openapi::Guarded))]
pub(super) async fn buckets(
    State(admin): State<Admin>,
    which: Which<Named>,
    Queried(Top { top }): Queried<Top>,
) -> Result<Json<Deepest>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    let top = top.unwrap_or(TOP);
    if !(1..=MOST).contains(&top) {
        return Err(AdminError::BadRequest(format!("top must be 1 to {MOST}")));
    }
    let (deepest, total) = limiter.deepest(top);
    Ok(Json(Deepest {
        limit: limiter.policy().name.to_string(),
        total,
        buckets: deepest.into_iter().map(BucketJson::of).collect(),
    }))
}

/// One bucket, by the hash of its key or by the key itself.
#[utoipa::path(get, path = "/api/limits/{limit}/buckets/{id}", tag = "see", params(super::ask::OneKey),
    security((), ("token" = [])),
    responses((status = 200, body = BucketJson), super::openapi::Seeing, super::openapi::Guarded))]
pub(super) async fn bucket(
    State(admin): State<Admin>,
    which: Which<super::ask::OneKey>,
) -> Result<Json<BucketJson>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    let key = admin.key(&limiter, &which.id)?;
    let bucket = limiter.view(key);
    let bucket = bucket.ok_or_else(|| AdminError::NoBucket(which.limit.clone()))?;
    Ok(Json(BucketJson::of(bucket)))
}

impl Admin {
    /// The limit of this name.
    pub(super) fn limiter(&self, name: &str) -> Result<Arc<crate::bucket::Limiter>, AdminError> {
        let app = self.app.load();
        let named = app
            .limiters
            .iter()
            .find(|limiter| *limiter.policy().name == *name);
        named
            .cloned()
            .ok_or_else(|| AdminError::NoLimit(name.to_owned()))
    }

    /// The key that somebody means: by its hash, or by its text. Of several that a
    /// text may be, the first that has a bucket.
    pub(super) fn key(
        &self,
        limiter: &crate::bucket::Limiter,
        text: &str,
    ) -> Result<crate::key::KeyId, AdminError> {
        let policy = limiter.policy();
        let hasher = &self.app.load().hasher;
        let read = policy.ids(text, hasher);
        let mut meant: Vec<_> = crate::key::KeyId::parse(text).into_iter().collect();
        meant.extend(read);
        let known = meant.iter().find(|key| limiter.knows(**key));
        let key = known.or(meant.first()).copied();
        key.ok_or_else(|| AdminError::NoBucket(policy.name.to_string()))
    }
}
