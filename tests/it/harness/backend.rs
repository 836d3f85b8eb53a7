//! What reaches the server behind weir, and when?

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::answer::{Answer, Step};
use super::message::{Fields, Incoming, Length, length, named};
use super::serving::Serving;
use super::until;

/// A server that notes what comes, and answers as it is told. It runs on a
/// thread of its own, so that its stamps don't wait for the test.
#[derive(Debug)]
pub(crate) struct Backend {
    scheme: &'static str,
    address: SocketAddr,
    notes: Arc<Notes>,
    _serving: Serving,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When its head was whole.
    pub(crate) at: Instant,
    /// On which connection, counted from 0.
    pub(crate) connection: usize,
    pub(crate) line: String,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
    pub(crate) chunked: bool,
    /// Whether the whole body has come.
    pub(crate) whole: bool,
}

#[derive(Debug)]
struct Notes {
    seen: Mutex<Vec<Seen>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    held: Semaphore,
}

enum End {
    Closed,
    Reset,
}

type Script = dyn Fn(&Seen) -> Answer + Send + Sync;

impl Seen {
    pub(crate) fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// What was asked for, byte for byte.
    pub(crate) fn target(&self) -> &str {
        let rest = self.line.split_once(' ').map_or("", |(_, rest)| rest);
        rest.rsplit_once(' ').map_or(rest, |(target, _)| target)
    }

    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        named(&self.fields, name)
    }

    /// The one value of a header; none where there is none.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let values = self.headers(name);
        assert!(values.len() < 2, "{name} came once: {values:?}");
        values.first().copied()
    }
}

impl Backend {
    /// A backend that says `200`.
    pub(crate) fn start() -> Self {
        Self::answering(|_| Answer::ok())
    }

    pub(crate) fn answering(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::begin(None, Arc::new(script))
    }

    /// The same behind TLS.
    pub(crate) fn over_tls(
        tls: ServerConfig,
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        Self::begin(Some(acceptor), Arc::new(script))
    }

    fn begin(tls: Option<TlsAcceptor>, script: Arc<Script>) -> Self {
        let notes = Arc::new(Notes {
            seen: Mutex::default(),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            held: Semaphore::new(0),
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let noted = Arc::clone(&notes);
        let (address, serving) =
            Serving::begin(move |listener| accept(listener, tls, script, noted));
        Self {
            scheme,
            address,
            notes,
            _serving: serving,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far, in the order in which they came.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.notes.seen.lock().clone()
    }

    /// Forgets what has come so far.
    pub(crate) fn forget(&self) {
        self.notes.seen.lock().clear();
    }

    /// What was asked for so far.
    pub(crate) fn targets(&self) -> Vec<String> {
        let seen = self.notes.seen.lock();
        seen.iter().map(|seen| seen.target().to_owned()).collect()
    }

    /// The one request so far.
    pub(crate) fn only(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "one request came: {seen:?}");
        seen.pop().expect("one request")
    }

    /// Connections that were ever made to it.
    pub(crate) fn accepted(&self) -> usize {
        self.notes.accepted.load(Ordering::SeqCst)
    }

    /// Lets so many of those go that are held.
    pub(crate) fn let_go(&self, count: usize) {
        self.notes.held.add_permits(count);
    }

    /// Waits until at least so many requests have come.
    pub(crate) async fn has_seen(&self, count: usize) {
        until("requests at the backend", async || {
            let seen = self.notes.seen.lock().len();
            (seen >= count)
                .then_some(())
                .ok_or_else(|| format!("{seen} of {count} came"))
        })
        .await;
    }

    /// Waits until so many connections are open.
    pub(crate) async fn has_open(&self, count: usize) {
        until("connections to the backend", async || {
            let open = self.notes.open.load(Ordering::SeqCst);
            (open == count)
                .then_some(())
                .ok_or_else(|| format!("{open} are open, not {count}"))
        })
        .await;
    }

    /// How long after `begun` each request came.
    pub(crate) fn arrivals(&self, begun: Instant) -> Vec<Duration> {
        let seen = self.notes.seen.lock();
        seen.iter()
            .map(|seen| seen.at.saturating_duration_since(begun))
            .collect()
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    script: Arc<Script>,
    notes: Arc<Notes>,
) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let number = notes.accepted.fetch_add(1, Ordering::SeqCst);
        notes.open.fetch_add(1, Ordering::SeqCst);
        let (tls, script, notes) = (tls.clone(), Arc::clone(&script), Arc::clone(&notes));
        tokio::spawn(async move {
            // A connection that breaks off is what many tests are about.
            let _broken = converse(stream, tls, number, &*script, &notes).await;
            notes.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn converse(
    mut stream: TcpStream,
    tls: Option<TlsAcceptor>,
    number: usize,
    script: &Script,
    notes: &Notes,
) -> io::Result<()> {
    if let Some(tls) = tls {
        let mut stream = tls.accept(stream).await?;
        serve(&mut stream, number, script, notes).await?;
        return stream.shutdown().await;
    }
    if let End::Reset = serve(&mut stream, number, script, notes).await? {
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    }
    Ok(())
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    number: usize,
    script: &Script,
    notes: &Notes,
) -> io::Result<End> {
    let mut incoming = Incoming::new(stream);
    loop {
        let line = incoming.line().await?;
        let fields = incoming.fields().await?;
        let length = length(&fields).unwrap_or(Length::Bytes(0));
        let seen = Seen {
            at: Instant::now(),
            connection: number,
            line,
            fields,
            body: Vec::new(),
            trailers: Vec::new(),
            chunked: length == Length::Chunks,
            whole: length == Length::Bytes(0),
        };
        let answer = script(&seen);
        let index = {
            let mut all = notes.seen.lock();
            all.push(seen);
            all.len() - 1
        };
        for step in answer.steps {
            match step {
                Step::Read => read(&mut incoming, length, notes, index).await?,
                Step::Send(bytes) => {
                    incoming.stream.write_all(&bytes).await?;
                    incoming.stream.flush().await?;
                }
                Step::Wait(span) => tokio::time::sleep(span).await,
                Step::Held => tokio::select! {
                    permit = notes.held.acquire() => permit.expect("a gate that stays").forget(),
                    gone = gone(&mut incoming) => return gone,
                },
                Step::Never => return gone(&mut incoming).await,
                Step::Echo => loop {
                    if incoming.buffer.is_empty() && incoming.fill().await? == 0 {
                        return Ok(End::Closed);
                    }
                    let heard = std::mem::take(&mut incoming.buffer);
                    incoming.stream.write_all(&heard).await?;
                    incoming.stream.flush().await?;
                },
                Step::Close => return Ok(End::Closed),
                Step::Reset => return Ok(End::Reset),
            }
        }
    }
}

/// Reads a body, and notes each part as it comes.
async fn read<S: AsyncRead + Unpin>(
    incoming: &mut Incoming<S>,
    length: Length,
    notes: &Notes,
    index: usize,
) -> io::Result<()> {
    let note = |change: &dyn Fn(&mut Seen)| {
        if let Some(seen) = notes.seen.lock().get_mut(index) {
            change(seen);
        }
    };
    match length {
        Length::Chunks => loop {
            let size = incoming.chunk_size().await?;
            if size == 0 {
                let trailers = incoming.fields().await?;
                note(&|seen| seen.trailers.clone_from(&trailers));
                break;
            }
            let chunk = incoming.exactly(size).await?;
            note(&|seen| seen.body.extend(&chunk));
            incoming.line().await?;
        },
        Length::Bytes(mut left) => {
            while left > 0 {
                if incoming.buffer.is_empty() && incoming.fill().await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let some = incoming.exactly(left.min(incoming.buffer.len())).await?;
                left -= some.len();
                note(&|seen| seen.body.extend(&some));
            }
        }
        Length::Close => (),
    }
    note(&|seen| seen.whole = true);
    Ok(())
}

/// Waits until the other side has gone.
async fn gone<S: AsyncRead + Unpin>(incoming: &mut Incoming<S>) -> io::Result<End> {
    while incoming.fill().await? > 0 {}
    Ok(End::Closed)
}
