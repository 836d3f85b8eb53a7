//! How does an instance run under an operator's eyes?

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use super::log;
use crate::config::{load, warnings};
use crate::server::{Order, run};

/// Serves until a signal asks it to end; all that is wrong with the config is an error.
pub(super) fn serve(path: &Path) -> anyhow::Result<ExitCode> {
    let config = load(path)?;
    let _guard = log::begin(config.log);
    for warning in warnings(&config) {
        warn!(config = %path.display(), "{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before anyone knows that it runs: no signal finds the kernel's default.
        let mut signals = Signals::listen().context("signals can't be listened for")?;
        let began = |listen: SocketAddr, admin: SocketAddr| {
            let version = env!("CARGO_PKG_VERSION");
            let scheme = if config.server.tls.is_some() {
                "https"
            } else {
                "http"
            };
            let config = path.display();
            info!(%config, "weir {version} listens on {scheme}://{listen}, admin on http://{admin}");
        };
        let read = || load(path);
        run(&config, read, async || signals.order().await, began).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The signals that an instance obeys.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// SIGHUP reloads the config; SIGTERM and SIGINT end the instance.
    async fn order(&mut self) -> Order {
        tokio::select! {
            _ = self.hangup.recv() => Order::Reload,
            _ = self.terminate.recv() => Order::Stop,
            _ = self.interrupt.recv() => Order::Stop,
        }
    }
}
