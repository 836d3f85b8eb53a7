//! What is one HTTP/2 connection to an upstream, and is it still good?

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::traffic::{Traffic, Watched};
use crate::forward::connect::Stream;

/// What an answer may run ahead of its client: held in memory for each.
const STREAM_WINDOW: u32 = 256 * 1024;

/// The connection as a whole is held back by none of its answers.
const CONNECTION_WINDOW: u32 = i32::MAX.unsigned_abs();

/// What a request's body may run ahead of the upstream.
const SEND_BUFFER: usize = 128 * 1024;

/// The largest head of an answer.
const HEADERS: u32 = 256 * 1024;

/// How long an upstream may say nothing to a request before it is pinged, and
/// then nothing to the ping. It is looked at once a second.
const SILENT: Duration = Duration::from_secs(5);

/// Pings without an answer to a request in between: servers of gRPC close a
/// connection at the fourth.
const MOST_PINGS: u8 = 2;

/// An HTTP/2 connection, shared by requests.
#[derive(Debug)]
pub(in crate::forward) struct Link {
    sender: SendRequest<Bytes>,
    traffic: Arc<Traffic>,
    ping: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    shares: usize,
    /// When the last share was given back.
    idle_since: Instant,
    silence: Option<Silence>,
    pings: u8,
    is_bad: bool,
}

/// A request was sent, and nothing has come since.
#[derive(Debug)]
struct Silence {
    read: u64,
    since: Instant,
    pinged: Option<Instant>,
}

/// One request's share of a connection, given back when dropped.
#[derive(Debug)]
pub(in crate::forward) struct Share {
    pub(super) link: Arc<Link>,
    pub(super) sender: SendRequest<Bytes>,
    /// Whether the connection was made for this request.
    pub(in crate::forward) is_fresh: bool,
}

/// Why a stream is no connection of HTTP/2.
#[derive(Debug, thiserror::Error)]
pub(in crate::forward) enum NoLink {
    /// What came was something else.
    #[error("the upstream does not speak HTTP/2")]
    Foreign,
    /// It ended at once.
    #[error("the connection ended before it began")]
    Ended,
    /// It lets nobody ask anything.
    #[error("the upstream takes no streams")]
    Full,
    /// The protocol was broken.
    #[error("the connection broke")]
    Broken(#[from] h2::Error),
}

impl Silence {
    fn begun(read: u64) -> Self {
        Self {
            read,
            since: Instant::now(),
            pinged: None,
        }
    }
}

impl Link {
    /// Opens a connection. It is there once the upstream has said what it takes:
    /// no request goes to a server that may not even speak HTTP/2.
    pub(in crate::forward) async fn open(stream: Stream) -> Result<Arc<Self>, NoLink> {
        let traffic = Arc::<Traffic>::default();
        let (stream, begun) = Watched::new(TokioIo::new(stream), Arc::clone(&traffic));
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(HEADERS)
            .handshake::<_, Bytes>(stream)
            .await?;
        let ping = Arc::<Notify>::default();
        tokio::spawn(drive(connection, Arc::clone(&ping)));
        match begun.await {
            Ok(true) => (),
            Ok(false) => return Err(NoLink::Foreign),
            Err(_ended) => return Err(NoLink::Ended),
        }
        let state = State {
            shares: 0,
            idle_since: Instant::now(),
            silence: None,
            pings: 0,
            is_bad: false,
        };
        Ok(Arc::new(Self {
            sender,
            traffic,
            ping,
            state: Mutex::new(state),
        }))
    }

    /// A share, where the upstream takes one more request.
    pub(super) fn share(self: &Arc<Self>) -> Option<Share> {
        let most = self.sender.current_max_send_streams();
        let sender = self.sender.clone();
        let mut state = self.state.lock();
        if state.shares >= most {
            return None;
        }
        state.shares = state.shares.saturating_add(1);
        Some(Share {
            link: Arc::clone(self),
            sender,
            is_fresh: false,
        })
    }

    /// Whether new requests may go over it.
    pub(super) fn is_open(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let ready = self.sender.clone().poll_ready(&mut cx);
        matches!(ready, Poll::Ready(Ok(()))) && !self.state.lock().is_bad
    }

    /// Whether nobody has used it for so long.
    pub(super) fn is_unused_for(&self, span: Duration) -> bool {
        let state = self.state.lock();
        state.shares == 0 && state.idle_since.elapsed() >= span
    }

    /// Takes no more requests: it answers nobody.
    pub(super) fn set_bad(&self) {
        self.state.lock().is_bad = true;
    }

    /// How long ago the last sign of life came.
    pub(super) fn quiet_for(&self) -> Duration {
        self.traffic.quiet_for()
    }

    pub(super) fn written(&self) -> u64 {
        self.traffic.written()
    }

    /// A request goes out: something should come back.
    pub(super) fn asked(&self) {
        let read = self.traffic.read();
        let mut state = self.state.lock();
        state.silence.get_or_insert_with(|| Silence::begun(read));
    }

    /// A request was answered.
    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        state.silence = None;
        state.pings = 0;
    }

    /// Pings an upstream that is silent, and gives it up where it stays so.
    pub(super) fn listen(&self) {
        let read = self.traffic.read();
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(silence) = &mut state.silence else {
            return;
        };
        if silence.read != read {
            // It lives. What came may have been no answer, so it is listened for on.
            *silence = Silence::begun(read);
            return;
        }
        match silence.pinged {
            None if silence.since.elapsed() >= SILENT && state.pings < MOST_PINGS => {
                silence.pinged = Some(Instant::now());
                state.pings = state.pings.saturating_add(1);
                self.ping.notify_one();
            }
            Some(pinged) if pinged.elapsed() >= SILENT => state.is_bad = true,
            None | Some(_) => (),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.link.state.lock();
        state.shares = state.shares.saturating_sub(1);
        if state.shares == 0 {
            state.idle_since = Instant::now();
            state.silence = None;
        }
    }
}

/// Moves a connection's bytes until it has ended: nobody asks over it any more,
/// and all that were asked are answered.
async fn drive(mut connection: Connection<Watched<TokioIo<Stream>>, Bytes>, wanted: Arc<Notify>) {
    let Some(mut pings) = connection.ping_pong() else {
        return;
    };
    loop {
        tokio::select! {
            // What goes wrong is told to the requests that it goes wrong for.
            _ended = &mut connection => return,
            () = wanted.notified() => ping(&mut pings),
            _pong = poll_fn(|cx| pings.poll_pong(cx)) => (),
        }
    }
}

fn ping(pings: &mut PingPong) {
    // One that is still on its way will do.
    let _on_its_way = pings.send_ping(Ping::opaque());
}
