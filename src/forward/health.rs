//! Is an upstream well?

use std::time::Duration;

use tracing::{info, warn};

use super::connect::protocols;
use super::target::{Health, Protocol, ServerTarget};
use super::tls::client_config;
use crate::bucket::Gate;
use crate::metrics::{UpstreamError, UpstreamMetrics};

/// Probes that must fail in a row before an upstream counts as down.
const FAILURES: u32 = 2;

/// Asks an upstream again and again whether it is well, and keeps its gate shut
/// while it is not: those who wait keep their places. Ends with the runtime.
pub async fn probe(
    name: &str,
    target: &ServerTarget,
    health: &Health,
    gate: &Gate,
    metrics: &UpstreamMetrics,
) -> Result<(), Unprobed> {
    let url = format!("{}://{}{}", target.scheme, target.authority, health.path);
    let client = client(target)?;
    let mut failures = 0_u32;
    let mut ticks = tokio::time::interval(health.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = client
            .get(&url)
            .send()
            .await
            .and_then(reqwest::Response::error_for_status);
        match answer {
            Ok(_well) => {
                failures = 0;
                if !gate.is_well() {
                    gate.set_well(true);
                    info!(upstream = name, "upstream is well again");
                }
            }
            Err(failed) => {
                failures = failures.saturating_add(1);
                metrics.failed(UpstreamError::Health);
                if failures >= FAILURES && gate.is_well() {
                    gate.set_well(false);
                    let why = failed.without_url();
                    warn!(upstream = name, failures, error = %why, "upstream is down: its lines wait");
                }
            }
        }
    }
}

/// Why an upstream can't be probed.
#[derive(Debug, thiserror::Error)]
pub enum Unprobed {
    /// TLS to it can't be set up.
    #[error("TLS can't be set up")]
    Tls(#[from] super::tls::TlsError),
    /// The probe's client can't be made.
    #[error("the client can't be made")]
    Client(#[from] reqwest::Error),
}

fn client(target: &ServerTarget) -> Result<reqwest::Client, Unprobed> {
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(target.connect_timeout)
        .timeout(target.timeout.min(Duration::from_secs(10)));
    if target.scheme == http::uri::Scheme::HTTPS {
        let mut tls = client_config(&target.tls)?;
        tls.alpn_protocols = protocols(target.protocol);
        client = client.tls_backend_preconfigured(tls);
    }
    match target.protocol {
        Protocol::Auto => (),
        Protocol::Http1 => client = client.http1_only(),
        Protocol::Http2 => client = client.http2_prior_knowledge(),
    }
    Ok(client.build()?)
}
