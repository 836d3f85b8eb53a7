//! How do pages see what happens while it does?

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use tokio::sync::watch;

use super::Admin;
use super::error::AdminError;
use super::look::Status;

/// How often the status is told.
const ROUND: Duration = Duration::from_secs(1);

/// How many may watch at once.
pub(super) const WATCHERS: usize = 64;

/// The status as it was last told; shared, since looking at all keys costs.
pub(super) type Told = watch::Sender<Arc<str>>;

/// The status, once a second, as `data` of server-sent events.
#[utoipa::path(get, path = "/api/events", tag = "see",
    responses((status = 200, body = String, content_type = "text/event-stream"), (status = 421, body = super::openapi::Problem, content_type = "application/problem+json"), (status = 503, description = "Too many watch already", body = super::openapi::Problem, content_type = "application/problem+json")))]
pub(super) async fn events(
    State(admin): State<Admin>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, AdminError> {
    let watcher = Arc::clone(&admin.watchers).try_acquire_owned();
    let watcher = watcher.map_err(|_none_left| AdminError::TooManyWatch)?;
    let told = texts(now(&admin), admin.events.subscribe());
    Ok(Sse::new(told.map(move |text| {
        // Who no longer watches makes room for another.
        let _present = &watcher;
        Ok(Event::default().data(&*text))
    })))
}

/// The `first` text, then those that are told. Whoever is slow gets the newest, and
/// nothing is kept for it.
fn texts(first: Arc<str>, told: watch::Receiver<Arc<str>>) -> impl Stream<Item = Arc<str>> {
    unfold((Some(first), told), async |(first, mut told)| {
        let text = if let Some(first) = first {
            first
        } else {
            told.changed().await.ok()?;
            Arc::clone(&told.borrow_and_update())
        };
        Some((text, (None, told)))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_is_slow_gets_the_newest_and_nothing_piles_up() {
        let tell = watch::Sender::new(Arc::from("before"));
        let mut told = Box::pin(texts(Arc::from("first"), tell.subscribe()));
        assert_eq!(told.next().await.as_deref(), Some("first"));
        let missed: Vec<Arc<str>> = (0..100).map(|n| Arc::from(format!("{n}"))).collect();
        for text in &missed {
            tell.send_replace(Arc::clone(text));
        }
        tell.send_replace(Arc::from("newest"));
        let held = missed.iter().filter(|text| Arc::strong_count(text) > 1);
        assert_eq!(held.count(), 0);
        assert_eq!(told.next().await.as_deref(), Some("newest"));
        drop(tell);
        assert_eq!(told.next().await, None);
    }
}
