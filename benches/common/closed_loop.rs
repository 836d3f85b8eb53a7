//! How are instances kept busy by clients that never pause?

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::wire::{Connection, GET};

const OK: u16 = 200;
/// A client that was refused asks again after this, lest refusals become the load.
const AFTER_REFUSAL: Duration = Duration::from_millis(10);

/// Clients that each ask again as soon as they are answered.
#[derive(Debug)]
pub(crate) struct ClosedLoop {
    clients: JoinSet<Result<()>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    served: AtomicU64,
    refused: AtomicU64,
}

impl ClosedLoop {
    /// Connects all clients, then lets them go.
    pub(crate) async fn start(address: SocketAddr, clients: u32) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..clients {
            connections.push(Connection::open(address).await?);
        }
        let counts = Arc::new(Counts::default());
        let mut clients = JoinSet::new();
        for connection in connections {
            clients.spawn(ask_for_ever(connection, Arc::clone(&counts)));
        }
        Ok(Self { clients, counts })
    }

    /// Answers from the backend so far.
    pub(crate) fn served(&self) -> u64 {
        self.counts.served.load(Ordering::Relaxed)
    }

    /// Hangs up. Fails if any client failed, or was refused: then the limit was not the one meant.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.clients.abort_all();
        while let Some(ended) = self.clients.join_next().await {
            match ended {
                Ok(asked) => asked.context("a client failed")?,
                Err(error) if error.is_cancelled() => {}
                Err(error) => return Err(error).context("a client panicked"),
            }
        }
        let refused = self.counts.refused.load(Ordering::Relaxed);
        ensure!(refused == 0, "{refused} answers were no {OK}");
        Ok(())
    }
}

async fn ask_for_ever(mut connection: Connection, counts: Arc<Counts>) -> Result<()> {
    loop {
        if connection.ask(GET).await? == OK {
            counts.served.fetch_add(1, Ordering::Relaxed);
        } else {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            sleep(AFTER_REFUSAL).await;
        }
    }
}
