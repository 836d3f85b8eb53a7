//! How is Redis put far away?

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

/// Takes connections and carries bytes to the target and back, each way so much later. Ends when
/// dropped.
#[derive(Debug)]
pub(crate) struct Delay {
    pub(crate) address: SocketAddr,
    task: AbortHandle,
}

impl Delay {
    pub(crate) async fn before(target: SocketAddr, each_way: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let address = listener.local_addr().context("own address")?;
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, target, each_way));
            }
        });
        let task = task.abort_handle();
        Ok(Self { address, task })
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends when either side hangs up.
async fn relay(client: TcpStream, target: SocketAddr, delay: Duration) -> Result<()> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        ended = carry(from_client, to_server, delay) => ended,
        ended = carry(from_server, to_client, delay) => ended,
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    delay: Duration,
) -> Result<()> {
    let (send, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let take = async {
        loop {
            let mut bytes = Vec::with_capacity(4096);
            if from.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
            send.send((Instant::now() + delay, bytes))?;
        }
    };
    let deliver = async {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at.into()).await;
            to.write_all(&bytes).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = take => ended,
        ended = deliver => ended,
    }
}
