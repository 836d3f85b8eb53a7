//! How are instances kept busy by clients that never pause?

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::wire::{Connection, GET, keyed};

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
        Self::start_with(address, clients, None).await
    }

    /// The same, where each request has one of so many keys in the header `X-Key`.
    pub(crate) async fn start_with(
        address: SocketAddr,
        clients: u32,
        keys: Option<u64>,
    ) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..clients {
            connections.push(Connection::open(address).await?);
        }
        let counts = Arc::new(Counts::default());
        let mut clients = JoinSet::new();
        for (number, connection) in (0..).zip(connections) {
            let keys = keys.map(|keys| Keys::new(keys, number));
            clients.spawn(ask_for_ever(connection, keys, Arc::clone(&counts)));
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

/// Keys in an order of no pattern that a cache would know.
#[derive(Debug)]
struct Keys {
    count: u64,
    state: u64,
}

impl Keys {
    const fn new(count: u64, seed: u64) -> Self {
        Self { count, state: seed }
    }

    /// Knuth's MMIX generator; its upper bits are the good ones.
    const fn next(&mut self) -> u64 {
        let next = self.state.wrapping_mul(6_364_136_223_846_793_005);
        self.state = next.wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 24) % self.count
    }
}

async fn ask_for_ever(
    mut connection: Connection,
    mut keys: Option<Keys>,
    counts: Arc<Counts>,
) -> Result<()> {
    loop {
        let status = match &mut keys {
            None => connection.ask(GET).await?,
            Some(keys) => connection.ask(keyed(keys.next()).as_bytes()).await?,
        };
        if status == OK {
            counts.served.fetch_add(1, Ordering::Relaxed);
        } else {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            sleep(AFTER_REFUSAL).await;
        }
    }
}
