//! What do people and programs see of an instance, and what may they change?
//!
//! `look` is what there is to see, `view` how it is written, `events` the same as it
//! happens; `steer` is what can be changed, `door` who may, `ask` how that is read and
//! `error` what they are told otherwise. `openapi` describes it all, `page` is for people,
//! who open a `session` there.

mod ask;
mod door;
mod error;
mod events;
mod look;
mod openapi;
mod page;
mod session;
mod steer;
mod view;

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::{self, HeaderValue};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, watch};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::proxy::App;

pub use door::{Doors, From};
use error::AdminError;
pub use steer::{ReloadWish, Reloaded};

/// What the admin listener shows and changes.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The instance.
    pub app: Arc<ArcSwap<App>>,
    /// Whether it is shutting down.
    pub draining: watch::Receiver<bool>,
    /// Who may see and change what.
    pub doors: Arc<ArcSwap<Doors>>,
    /// Where a reload is asked for.
    pub reload: mpsc::Sender<ReloadWish>,
    began: Instant,
    events: events::Told,
    watchers: Arc<Semaphore>,
    sessions: Arc<session::Sessions>,
}

impl Admin {
    /// The admin side of an instance that begins now.
    pub fn new(
        app: Arc<ArcSwap<App>>,
        draining: watch::Receiver<bool>,
        doors: Arc<ArcSwap<Doors>>,
        reload: mpsc::Sender<ReloadWish>,
    ) -> Self {
        Self {
            app,
            draining,
            doors,
            reload,
            began: Instant::now(),
            events: watch::Sender::new("{}".into()),
            watchers: Arc::new(Semaphore::new(events::WATCHERS)),
            sessions: Arc::new(session::Sessions::new()),
        }
    }
}

/// The admin listener's pages. Within a runtime, which looks after those who watch.
pub fn router(admin: Admin) -> Router {
    tokio::spawn(events::tell(admin.clone()));
    let (api, description) = api(&admin).split_for_parts();
    Router::new()
        .merge(page::router())
        .route("/session", post(session::open).delete(session::close))
        .route("/metrics", get(metrics))
        .route(
            "/healthz",
            get(|| async { Json(json!({ "status": "alive" })) }),
        )
        .route("/readyz", get(readyz))
        .route("/api/openapi.json", get(|| async { Json(description) }))
        .merge(api)
        .fallback(|| async { AdminError::NoPage })
        .method_not_allowed_fallback(|| async { AdminError::NoMethod })
        .layer(from_fn(door::own_name_only))
        .layer(map_response(of_the_moment))
        .with_state(admin)
}

/// The part for programs.
fn api(admin: &Admin) -> OpenApiRouter<Admin> {
    let seen = OpenApiRouter::with_openapi(openapi::Description::openapi())
        .routes(routes!(look::status))
        .routes(routes!(events::events))
        .routes(routes!(look::limits))
        .routes(routes!(look::limit));
    let keys = OpenApiRouter::new()
        .routes(routes!(look::buckets))
        .routes(routes!(look::bucket))
        .route_layer(from_fn_with_state(admin.clone(), door::to_keys));
    let changes = OpenApiRouter::new()
        .routes(routes!(steer::pause))
        .routes(routes!(steer::resume))
        .routes(routes!(steer::pause_bucket))
        .routes(routes!(steer::resume_bucket))
        .routes(routes!(steer::purge))
        .routes(routes!(steer::purge_bucket))
        .routes(routes!(steer::reload))
        .route_layer(from_fn_with_state(admin.clone(), door::to_changes));
    seen.merge(keys).merge(changes)
}

/// What is told is so at this moment: nobody shall keep it.
async fn of_the_moment(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let app = admin.app.load();
    for limiter in &app.limiters {
        limiter.observe();
    }
    for upstream in &app.upstreams {
        upstream.gate.observe();
    }
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], app.metrics.render()).into_response()
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let draining = *admin.draining.borrow();
    let status = if draining {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    let body = json!({
        "status": if draining { "draining" } else { "ready" },
        "store": view::StoreView::of(&admin.app.load()),
    });
    (status, Json(body)).into_response()
}
