//! How does a client ask, and what is it told?

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::StatusCode;
use http::header::RETRY_AFTER;
use tokio::time::Instant;

use super::scene::Step;
use super::tape::Tape;

/// Longer than any line of the demo: whoever waits so long waits for nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// What all clients share: their connections, not their requests.
pub(super) fn clients() -> anyhow::Result<reqwest::Client> {
    let clients = reqwest::Client::builder().no_proxy().timeout(PATIENCE);
    clients.build().context("no client can be made")
}

/// Sends one request at `at` and notes what comes of it. Fails where the answer
/// is neither the backend's nor a refusal.
pub(super) async fn ask(
    clients: reqwest::Client,
    url: String,
    at: Instant,
    tape: Arc<Tape>,
) -> anyhow::Result<()> {
    tokio::time::sleep_until(at).await;
    tape.note(Step::Sent);
    let answer = clients.get(url).send().await?;
    match answer.status() {
        StatusCode::OK => {
            answer.bytes().await?;
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let told = answer.headers().get(RETRY_AFTER);
            let told = told.and_then(|told| told.to_str().ok()?.parse().ok());
            tape.note(Step::Refused(told));
        }
        other => anyhow::bail!("a client was answered {other}"),
    }
    Ok(())
}
