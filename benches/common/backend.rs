//! When did each request leave the proxy, as seen by what stands behind it?

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::wire::{ANSWER, head_length};

/// A backend on a thread of its own that answers at once and can note when requests arrive.
/// It lives until the benchmark ends.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    arrivals: Arc<Arrivals>,
}

impl Backend {
    pub(crate) fn start() -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .context("listen for the backend")?;
        listener
            .set_nonblocking(true)
            .context("make the backend's listener non-blocking")?;
        let address = listener.local_addr().context("backend's address")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .context("backend's runtime")?;
        let arrivals = Arc::new(Arrivals::default());
        let noted = Arc::clone(&arrivals);
        thread::Builder::new()
            .name("backend".to_owned())
            .spawn(move || runtime.block_on(accept(listener, noted)))
            .context("start the backend's thread")?;
        Ok(Self { address, arrivals })
    }

    /// Forgets what was noted before and notes each arrival from now on.
    pub(crate) fn note_arrivals(&self) {
        self.arrivals.replace(Some(Vec::with_capacity(1 << 16)));
    }

    /// The arrivals since `note_arrivals`, in order; none are noted from now on.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.replace(None).unwrap_or_default()
    }

    /// When they came.
    pub(crate) fn moments(&self) -> Vec<Instant> {
        self.arrivals().iter().map(|arrival| arrival.at).collect()
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// What its target is, where that is a number: `/17`.
    pub(crate) number: Option<u32>,
}

/// Held for a push or a swap only: the backend's thread writes, the benchmark's reads.
#[derive(Debug, Default)]
struct Arrivals(Mutex<Option<Vec<Arrival>>>);

impl Arrivals {
    fn note(&self, arrival: Arrival) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(noted) = noted.as_mut() {
            noted.push(arrival);
        }
    }

    fn replace(&self, with: Option<Vec<Arrival>>) -> Option<Vec<Arrival>> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut noted, with)
    }
}

async fn accept(listener: std::net::TcpListener, arrivals: Arc<Arrivals>) -> Result<()> {
    let listener = TcpListener::from_std(listener).context("backend's listener")?;
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        let arrivals = Arc::clone(&arrivals);
        tokio::spawn(async move { serve(stream, &arrivals).await });
    }
}

/// Ends with an error when the proxy hangs up, which is how every connection ends here.
async fn serve(mut stream: TcpStream, arrivals: &Arrivals) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::with_capacity(4096);
    while stream.read_buf(&mut unread).await? > 0 {
        let at = Instant::now();
        while let Some(head) = head_length(&unread) {
            let number = number(&unread);
            arrivals.note(Arrival { at, number });
            unread.drain(..head);
            stream.write_all(ANSWER).await?;
        }
    }
    Ok(())
}

fn number(request: &[u8]) -> Option<u32> {
    let digits = request.strip_prefix(b"GET /")?;
    let end = digits.iter().position(|byte| *byte == b' ')?;
    std::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}
