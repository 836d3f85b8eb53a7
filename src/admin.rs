//! What do people and Prometheus see of an instance?

mod page;

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use http::header::{self, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::watch;

use crate::proxy::App;
use crate::respond::Problem;

/// What the admin listener shows.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The instance.
    pub app: Arc<ArcSwap<App>>,
    /// Whether it is shutting down.
    pub draining: watch::Receiver<bool>,
}

/// The admin listener's pages.
pub fn router(admin: Admin) -> Router {
    Router::new()
        .route("/", get(status))
        .route("/metrics", get(metrics))
        .route(
            "/healthz",
            get(|| async { Json(json!({ "status": "alive" })) }),
        )
        .route("/readyz", get(readyz))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "no such page") })
        .layer(from_fn(own_name_only))
        .with_state(admin)
}

fn problem(status: StatusCode, detail: &str) -> Response {
    Problem::new(status, detail.to_owned())
        .answer()
        .map(Body::from)
}

/// A page elsewhere must not reach this listener by a name that it pointed here.
async fn own_name_only(headers: HeaderMap, request: Request, next: Next) -> Response {
    let foreign = headers
        .get(header::HOST)
        .is_some_and(|host| !is_own_name(host));
    if foreign {
        return problem(
            StatusCode::MISDIRECTED_REQUEST,
            "this listener answers to an address or to localhost",
        );
    }
    next.run(request).await
}

/// Whether a `Host` is an address, localhost, or a name without a dot, as in a cluster.
fn is_own_name(host: &HeaderValue) -> bool {
    host.to_str().is_ok_and(|host| {
        let name = crate::key::normal_host(host);
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<std::net::IpAddr>().is_ok()
            || !name.contains('.')
            || name.ends_with(".localhost")
    })
}

async fn status(State(admin): State<Admin>) -> Html<String> {
    Html(page::status(&admin.app.load(), *admin.draining.borrow()))
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
    let app = admin.app.load();
    let store = app.store.as_ref().map_or_else(
        || json!({ "kind": "memory", "state": "up" }),
        |store| {
            let state = if store.is_well() { "up" } else { "degraded" };
            json!({ "kind": "redis", "state": state, "instances": store.instances() })
        },
    );
    let body = json!({
        "status": if draining { "draining" } else { "ready" },
        "store": store,
    });
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_answers_to_its_own_names_only() {
        for (host, own) in [
            ("127.0.0.1:9180", true),
            ("[::1]:9180", true),
            ("localhost:9180", true),
            ("weir:9180", true),
            ("evil.example:9180", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(is_own_name(&HeaderValue::from_static(host)), own, "{host}");
        }
    }
}
