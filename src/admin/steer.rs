//! What can be changed by hand?

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tracing::{info, warn};
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::ask::{Named, OneKey, Queried, Which};
use super::door::Who;
use super::error::AdminError;
use super::view::Pause;
use crate::bucket::Limiter;
use crate::key::KeyId;
use crate::metrics::Reason;
use crate::store::Paused;
use crate::units::parse_duration;

/// How long a pause lasts where nobody says it.
const AN_HOUR: Duration = Duration::from_hours(1);

/// No pause lasts longer.
const LONGEST: Duration = Duration::from_hours(30 * 24);
const SHORTEST: Duration = Duration::from_millis(100);

/// Somebody's wish to reload, and whom to tell how it went.
#[derive(Debug)]
pub struct ReloadWish {
    /// Who is told.
    pub tell: oneshot::Sender<Result<Reloaded, Vec<String>>>,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Reloaded {
    /// The keys that say something else now, and files that hold something else.
    pub changed: Vec<String>,
    /// Those of them that hold from the next start only.
    pub needs_restart: Vec<String>,
}

/// How long to pause.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct For {
    /// A span of time such as `90s`, `10m`, `1h` or `2d`, up to 30 days.
    #[serde(rename = "for")]
    #[param(
        rename = "for",
        default = "1h",
        pattern = r"^([1-9][0-9]{0,5}s|[1-9][0-9]{0,3}m|[1-6]?[0-9]?[1-9]h|([1-9]|[12][0-9]|30)d)$"
    )]
    span: Option<String>,
}

/// Nothing is asked for in the query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What is paused now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PauseSaid {
    limit: String,
    /// The hash of the key, where it is one key's bucket.
    bucket: Option<String>,
    #[serde(flatten)]
    pause: Pause,
    /// Whether all instances hear of it; false while Redis is away, which is told when
    /// it is back.
    shared: bool,
}

/// How many were sent away.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SentAway {
    limit: String,
    /// The hash of the key, where it is one key's bucket.
    bucket: Option<String>,
    /// Requests that waited in this instance, and have been told.
    purged: usize,
    /// Whether all instances hear of it.
    shared: bool,
}

/// Lets nobody of a limit go for a while, on all instances. Those who wait keep their
/// places; where there is no line they get 503.
#[utoipa::path(post, path = "/api/limits/{limit}/pause", tag = "steer", params(Named, For),
    security((), ("token" = [])),
    responses((status = 200, body = PauseSaid), (status = 409, body = super::openapi::Problem, content_type = "application/problem+json"), super::openapi::Seeing, super::openapi::Changing))]
pub(super) async fn pause(
    State(admin): State<Admin>,
    Extension(who): Extension<Who>,
    which: Which<Named>,
    Queried(span): Queried<For>,
) -> Result<Json<PauseSaid>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    admin.hold(who, &limiter, None, span.read()?).await
}

/// Lets those of a limit go again, at its rate.
#[utoipa::path(post, path = "/api/limits/{limit}/resume", tag = "steer", params(Named),
    security((), ("token" = [])),
    responses((status = 200, body = PauseSaid), super::openapi::Seeing, super::openapi::Changing))]
pub(super) async fn resume(
    State(admin): State<Admin>,
    Extension(who): Extension<Who>,
    which: Which<Named>,
    Queried(Nothing {}): Queried<Nothing>,
) -> Result<Json<PauseSaid>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    admin.hold(who, &limiter, None, Duration::ZERO).await
}

/// Lets nobody of one key go for a while, on all instances.
#[utoipa::path(post, path = "/api/limits/{limit}/buckets/{id}/pause", tag = "steer", params(OneKey, For),
    security((), ("token" = [])),
    responses((status = 200, body = PauseSaid), (status = 409, body = super::openapi::Problem, content_type = "application/problem+json"), super::openapi::Seeing, super::openapi::Changing))]
pub(super) async fn pause_bucket(
    State(admin): State<Admin>,
    Extension(who): Extension<Who>,
    which: Which<OneKey>,
    Queried(span): Queried<For>,
) -> Result<Json<PauseSaid>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    let key = admin.key(&limiter, &which.id)?;
    admin.hold(who, &limiter, Some(key), span.read()?).await
}

/// Lets those of one key go again, unless the whole limit is paused.
#[utoipa::path(post, path = "/api/limits/{limit}/buckets/{id}/resume", tag = "steer", params(OneKey),
    security((), ("token" = [])),
    responses((status = 200, body = PauseSaid), super::openapi::Seeing, super::openapi::Changing))]
pub(super) async fn resume_bucket(
    State(admin): State<Admin>,
    Extension(who): Extension<Who>,
    which: Which<OneKey>,
    Queried(Nothing {}): Queried<Nothing>,
) -> Result<Json<PauseSaid>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    let key = admin.key(&limiter, &which.id)?;
    admin.hold(who, &limiter, Some(key), Duration::ZERO).await
}

/// Sends away all who wait in a limit: they get 503.
#[utoipa::path(delete, path = "/api/limits/{limit}/line", tag = "steer", params(Named),
    security((), ("token" = [])),
    responses((status = 200, body = SentAway), super::openapi::Seeing, super::openapi::Changing))]
pub(super) async fn purge(
    State(admin): State<Admin>,
    Extension(who): Extension<Who>,
    which: Which<Named>,
    Queried(Nothing {}): Queried<Nothing>,
) -> Result<Json<SentAway>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    Ok(admin.send_away(who, &limiter, None).await)
}

/// Sends away all who wait under one key: they get 503.
#[utoipa::path(delete, path = "/api/limits/{limit}/buckets/{id}/line", tag = "steer", params(OneKey),
    security((), ("token" = [])),
    responses((status = 200, body = SentAway), super::openapi::Seeing, super::openapi::Changing))]
pub(super) async fn purge_bucket(
    State(admin): State<Admin>,
    Extension(who): Extension<Who>,
    which: Which<OneKey>,
    Queried(Nothing {}): Queried<Nothing>,
) -> Result<Json<SentAway>, AdminError> {
    let limiter = admin.limiter(&which.limit)?;
    let key = admin.key(&limiter, &which.id)?;
    Ok(admin.send_away(who, &limiter, Some(key)).await)
}

/// Reads the config file anew, and serves by it if nothing is wrong with it.
#[utoipa::path(post, path = "/api/reload", tag = "steer", security((), ("token" = [])),
    responses((status = 200, body = Reloaded), (status = 422, description = "Nothing changed; all that is wrong with the file", body = super::openapi::Problem, content_type = "application/problem+json"), (status = 503, description = "Shutting down", body = super::openapi::Problem, content_type = "application/problem+json"), super::openapi::Asking, super::openapi::Changing))]
pub(super) async fn reload(
    State(admin): State<Admin>,
    Extension(who): Extension<Who>,
    Queried(Nothing {}): Queried<Nothing>,
) -> Result<Json<Reloaded>, AdminError> {
    info!(%who, "reload asked for");
    let (tell, told) = oneshot::channel();
    let asked = admin.reload.send(ReloadWish { tell }).await;
    asked.map_err(|_ended| AdminError::Draining)?;
    let reloaded = told.await.map_err(|_ended| AdminError::Draining)?;
    reloaded.map(Json).map_err(AdminError::Faults)
}

impl For {
    fn read(&self) -> Result<Duration, AdminError> {
        let Some(text) = &self.span else {
            return Ok(AN_HOUR);
        };
        let span = parse_duration(text).filter(|span| (SHORTEST..=LONGEST).contains(span));
        span.ok_or_else(|| {
            AdminError::BadRequest("for must be a span like 10m, from 100ms to 30d".to_owned())
        })
    }
}

impl Admin {
    /// Pauses for a span; ends a pause where that is zero.
    async fn hold(
        &self,
        who: Who,
        limiter: &Arc<Limiter>,
        key: Option<KeyId>,
        span: Duration,
    ) -> Result<Json<PauseSaid>, AdminError> {
        limiter.pause_for(key, span)?;
        let limit = limiter.policy().name.to_string();
        let bucket = key.map(|key| key.to_string());
        let shared = match &self.app.load().store {
            None => true,
            Some(store) => {
                let paused = Paused {
                    limit: limit.clone(),
                    key,
                };
                store.pause(paused, span).await
            }
        };
        let seconds = span.as_secs_f64();
        if span.is_zero() {
            info!(%who, limit, bucket, shared, "resumed");
        } else {
            info!(%who, limit, bucket, seconds, shared, "paused");
        }
        Ok(Json(PauseSaid {
            limit,
            bucket,
            pause: Pause::of(limiter.paused_for(key)),
            shared,
        }))
    }

    async fn send_away(
        &self,
        who: Who,
        limiter: &Arc<Limiter>,
        key: Option<KeyId>,
    ) -> Json<SentAway> {
        let purged = limiter.purge(key, Reason::Purged);
        let limit = limiter.policy().name.to_string();
        let bucket = key.map(|key| key.to_string());
        let mut shared = true;
        if let Some(store) = &self.app.load().store {
            let paused = Paused {
                limit: limit.clone(),
                key,
            };
            if let Err(error) = store.purge(&paused).await {
                warn!(limit, error = %error, "other instances don't hear of a purge");
                shared = false;
            }
        }
        info!(%who, limit, bucket, purged, shared, "line purged");
        Json(SentAway {
            limit,
            bucket,
            purged,
            shared,
        })
    }
}
