//! Who is at the other end of a connection, and is it still there?

mod announced;
mod certificate;
mod chunks;
mod connections;
mod deadline;
mod head;
mod own;
mod preface;
mod scan;
mod socket;
mod stream;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::Context;
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use http::HeaderValue;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::sync::Notify;

pub use announced::{AnnounceError, announced};
pub use certificate::{Certificate, CertificateError, CertificateFiles};
pub use connections::{Connections, Open};
pub use deadline::Deadline;
pub use head::Oddity;
pub use preface::Protocol;
pub use socket::Socket;
pub use stream::Stream;

/// After how long a silence the kernel asks whether a client is still there.
const KEEP_ALIVE: Duration = Duration::from_mins(1);

/// How long a client may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From a head's first byte to its last.
    pub header: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// For taking any more of an answer.
    pub write: Duration,
}

/// A client's connection. Its service, its bytes and its deadlines meet here.
#[derive(Debug)]
pub struct Peer {
    ip: IpAddr,
    /// The address as headers have it.
    text: HeaderValue,
    socket: TcpStream,
    /// Whether its bytes come through TLS.
    pub is_secure: bool,
    timeouts: Timeouts,
    /// Whether it speaks HTTP/2: many requests at once.
    is_multiplexed: AtomicBool,
    /// Requests that are under way, in HTTP/2.
    under_way: AtomicUsize,
    /// For the next byte of a head, or for the head's end.
    request: Deadline,
    /// Whether a head has begun and is not whole.
    in_head: AtomicBool,
    /// Requests whose heads came as far as the path.
    asked: AtomicU32,
    /// The first request that servers read in two ways, counted from 1; 0 for none.
    odd: AtomicU32,
    /// Why they would.
    oddity: Mutex<Option<Oddity>>,
    /// Whether bytes came behind the head: hyper reads no further for now.
    has_more: AtomicBool,
    more: Notify,
    /// For the next byte that the client takes.
    write: Deadline,
    /// Until when a client of HTTP/2 counts as one that takes its answers.
    takes: Deadline,
    dismissed: AtomicBool,
    /// Told once it is dismissed.
    task: AtomicWaker,
    #[expect(dead_code, reason = "it is counted as long as anyone has it")]
    open: Open,
}

impl Peer {
    /// A connection that was just accepted, with TLS or without.
    #[expect(clippy::missing_panics_doc, reason = "every address makes a header")]
    pub fn new(
        socket: TcpStream,
        address: SocketAddr,
        is_secure: bool,
        timeouts: Timeouts,
        open: Open,
    ) -> Arc<Self> {
        let ip = address.ip().to_canonical();
        let peer = Self {
            ip,
            text: HeaderValue::try_from(ip.to_string()).expect("an address makes a header"),
            socket,
            is_secure,
            timeouts,
            is_multiplexed: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            request: Deadline::default(),
            in_head: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            odd: AtomicU32::new(0),
            oddity: Mutex::new(None),
            has_more: AtomicBool::new(false),
            more: Notify::new(),
            write: Deadline::default(),
            takes: Deadline::default(),
            dismissed: AtomicBool::new(false),
            task: AtomicWaker::new(),
            open,
        };
        // TLS begins with the connection, a request when its client likes.
        peer.request.set(if is_secure {
            timeouts.header
        } else {
            timeouts.idle
        });
        Arc::new(peer)
    }

    /// Where it comes from.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Where it comes from, as headers have it.
    pub fn text(&self) -> &HeaderValue {
        &self.text
    }

    /// The client is known to speak this: its requests may begin.
    pub fn speaks(&self, protocol: Protocol) {
        if protocol == Protocol::Http2 {
            self.is_multiplexed.store(true, Ordering::Relaxed);
            self.request.set(self.timeouts.idle);
        } else if self.is_secure {
            self.request.set(self.timeouts.idle);
        }
    }

    /// Whether requests share the connection: each is a stream of HTTP/2, and hyper
    /// tells of those that are given up.
    pub fn is_multiplexed(&self) -> bool {
        self.is_multiplexed.load(Ordering::Relaxed)
    }

    /// A client of HTTP/2 has taken something of some answer.
    pub fn took(&self) {
        self.takes.set(self.timeouts.write);
    }

    /// Whether it has, lately.
    pub fn takes(&self) -> bool {
        self.takes.is_set() && !self.takes.is_over()
    }

    /// How long the client may take nothing of an answer.
    pub const fn write_timeout(&self) -> Duration {
        self.timeouts.write
    }

    /// A request's head is here: from now on it is weir that takes its time.
    pub fn asked(&self) {
        self.request.clear();
        if self.is_multiplexed() {
            self.under_way.fetch_add(1, Ordering::Relaxed);
        } else {
            self.in_head.store(false, Ordering::Relaxed);
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The answer is whole by `now`, or given up: the client may ask again.
    pub fn answered(&self, now: Instant) {
        if !self.is_multiplexed() || self.under_way.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.request.set_from(now, self.timeouts.idle);
        }
    }

    /// Why servers would read the request that was asked last in two ways, which
    /// hyper doesn't tell.
    pub fn oddity(&self) -> Option<Oddity> {
        let odd = self.odd.load(Ordering::Relaxed);
        if odd == 0 || self.asked.load(Ordering::Relaxed) < odd {
            return None;
        }
        *self.oddity.lock()
    }

    /// The `number`th request of the connection is odd.
    fn note_odd(&self, number: u32, oddity: Oddity) {
        *self.oddity.lock() = Some(oddity);
        self.odd.store(number, Ordering::Relaxed);
    }

    /// Bytes came while a request is awaited: its head must be whole in time, unless
    /// it `is_whole` with them, as most are.
    fn begins(&self, is_whole: bool) {
        if self.in_head.load(Ordering::Relaxed) {
            return;
        }
        self.has_more.store(false, Ordering::Relaxed);
        if !is_whole {
            self.in_head.store(true, Ordering::Relaxed);
            self.request.set(self.timeouts.header);
        }
    }

    /// Whether the client made no progress for too long.
    pub fn is_overdue(&self) -> bool {
        self.request.is_over() || self.write.is_over()
    }

    /// Ends the connection, whatever is under way.
    pub fn cut(&self) {
        // One that is gone already needs no cutting.
        let _gone = SockRef::from(&self.socket).shutdown(std::net::Shutdown::Both);
    }

    /// Takes no more requests from it: the instance drains.
    pub fn dismiss(&self) {
        self.dismissed.store(true, Ordering::SeqCst);
        self.task.wake();
    }

    /// Whether no more requests are taken; where some are, the task learns of it.
    pub fn is_dismissed(&self, cx: &Context<'_>) -> bool {
        self.task.register(cx.waker());
        self.dismissed.load(Ordering::SeqCst)
    }

    /// Whether nothing of a request has come, and none is served.
    pub fn is_silent(&self) -> bool {
        self.request.is_set() && !self.in_head.load(Ordering::Relaxed)
    }

    /// From now on it speaks something else than HTTP. Nobody listens for one that
    /// sends nothing for hours: the kernel asks.
    pub fn keep_alive(&self) {
        let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE);
        let _without = SockRef::from(&self.socket).set_tcp_keepalive(&keep_alive);
    }

    /// Whether bytes came behind the request's head, a body's or the next one's.
    pub fn has_more(&self) -> bool {
        self.has_more.load(Ordering::Relaxed)
    }

    fn note_more(&self) {
        self.has_more.store(true, Ordering::Relaxed);
        self.more.notify_waiters();
    }

    /// Resolves when the client has left and hyper would not notice: it stops
    /// reading once bytes have come behind the head.
    pub async fn left_unread(&self) -> io::Result<()> {
        let more = self.more.notified();
        tokio::pin!(more);
        more.as_mut().enable();
        // In HTTP/2 nothing is noted, and this never resolves: hyper does notice.
        if !self.has_more() {
            more.await;
        }
        // Boxed: hardly anyone who waits comes this far.
        Box::pin(self.left()).await
    }

    /// Resolves when the client has closed its side, even behind a body that
    /// nobody has read.
    ///
    /// hyper only looks where it would read. The kernel reports the end of a
    /// stream whatever is still in the buffer before it, so a second descriptor
    /// of the socket is watched for that, on edges.
    pub async fn left(&self) -> io::Result<()> {
        use std::os::fd::AsFd as _;
        let socket = self.socket.as_fd().try_clone_to_owned()?;
        #[expect(
            deprecated,
            reason = "its heir is unsafe, for types whose descriptor may change; this one owns its own"
        )]
        let watched = AsyncFd::with_interest(socket, Interest::READABLE)?;
        loop {
            let mut ready = watched.readable().await?;
            if ready.ready().is_read_closed() {
                return Ok(());
            }
            ready.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::metrics::Metrics;

    const TIMEOUTS: Timeouts = Timeouts {
        header: Duration::from_millis(40),
        idle: Duration::from_millis(40),
        write: Duration::from_millis(40),
    };

    async fn connected() -> (TcpStream, Arc<Peer>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address"))
            .await
            .expect("a connection");
        let (socket, address) = listener.accept().await.expect("a client");
        let open = Connections::new(1, Metrics::new().connections()).open();
        let open = open.expect("room for one");
        (client, Peer::new(socket, address, false, TIMEOUTS, open))
    }

    #[tokio::test]
    async fn a_client_that_leaves_is_noticed_behind_unread_bytes() {
        for reset in [false, true] {
            let (mut client, peer) = connected().await;
            client
                .write_all(&vec![b'x'; 64 * 1024])
                .await
                .expect("room for 64 KiB");
            let still_there = tokio::time::timeout(Duration::from_millis(30), peer.left()).await;
            assert!(still_there.is_err(), "it has not left yet");
            if reset {
                SockRef::from(&client)
                    .set_linger(Some(Duration::ZERO))
                    .expect("a linger of zero");
            }
            drop(client);
            let begun = Instant::now();
            tokio::time::timeout(Duration::from_secs(5), peer.left())
                .await
                .expect("noticed")
                .expect("no error");
            assert!(
                begun.elapsed() < Duration::from_millis(50),
                "reset: {reset}, after {:?}",
                begun.elapsed()
            );
        }
    }

    #[tokio::test]
    async fn a_client_that_does_nothing_is_overdue_but_not_while_it_is_served() {
        let (_client, peer) = connected().await;
        assert!(!peer.is_overdue());
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(peer.is_overdue());
        peer.asked();
        assert!(!peer.is_overdue());
        peer.answered(Instant::now());
        assert!(!peer.is_overdue());
    }
}
