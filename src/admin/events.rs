//! How do pages see what happens while it does?

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::Admin;
use super::look::Status;

/// How often the status is told.
const ROUND: Duration = Duration::from_secs(1);

/// The status as it was last told; shared, since looking at all keys costs.
pub(super) type Told = watch::Sender<Arc<str>>;

/// The status, once a second, as `data` of server-sent events.
#[utoipa::path(get, path = "/api/events", tag = "see",
    responses((status = 200, body = String, content_type = "text/event-stream"), (status = 421, body = super::openapi::Problem, content_type = "application/problem+json")))]
pub(super) async fn events(
    State(admin): State<Admin>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let told = admin.events.subscribe();
    let first = now(&admin);
    Sse::new(unfold((Some(first), told), async |(first, mut told)| {
        let text = if let Some(first) = first {
            first
        } else {
            told.changed().await.ok()?;
            Arc::clone(&told.borrow_and_update())
        };
        Some((Ok(Event::default().data(&*text)), (None, told)))
    }))
}

/// Tells the status to all who listen, forever.
pub(super) async fn tell(admin: Admin) {
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        if admin.events.receiver_count() > 0 {
            admin.events.send_replace(now(&admin));
        }
    }
}

fn now(admin: &Admin) -> Arc<str> {
    let json = serde_json::to_string(&Status::of(admin));
    json.unwrap_or_default().into()
}
