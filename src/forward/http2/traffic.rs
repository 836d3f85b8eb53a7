//! Which bytes went over a connection, and was the first frame one of HTTP/2?

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// Length (3 bytes), type, flags and stream (4 bytes) of a frame.
const HEAD: usize = 9;

/// The type of a SETTINGS frame, with which a server of HTTP/2 begins.
const SETTINGS: u8 = 4;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How many bytes have come and gone.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
    /// When the last came, in milliseconds since the process began.
    last: AtomicU64,
}

impl Traffic {
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// How long ago the last bytes came.
    pub(super) fn quiet_for(&self) -> Duration {
        Duration::from_millis(now().saturating_sub(self.last.load(Ordering::Relaxed)))
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// A connection's bytes, counted.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    traffic: Arc<Traffic>,
    begin: Option<Begin>,
}

/// The first frame as it comes in.
#[derive(Debug)]
struct Begin {
    head: Vec<u8>,
    seen: usize,
    told: oneshot::Sender<bool>,
}

fn now() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl<S> Watched<S> {
    /// The second part resolves once the first frame is whole: true where it is
    /// one that a server of HTTP/2 begins with.
    pub(super) fn new(stream: S, traffic: Arc<Traffic>) -> (Self, oneshot::Receiver<bool>) {
        let (told, begun) = oneshot::channel();
        let begin = Some(Begin {
            head: Vec::with_capacity(HEAD),
            seen: 0,
            told,
        });
        let watched = Self {
            stream,
            traffic,
            begin,
        };
        (watched, begun)
    }

    fn received(&mut self, bytes: &[u8]) {
        self.traffic.last.store(now(), Ordering::Relaxed);
        self.traffic
            .read
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let Some(begin) = &mut self.begin else { return };
        begin.seen = begin.seen.saturating_add(bytes.len());
        let missing = HEAD.saturating_sub(begin.head.len());
        begin
            .head
            .extend_from_slice(bytes.get(..missing.min(bytes.len())).unwrap_or_default());
        let [high, middle, low, kind, _flags, stream @ ..] = &*begin.head else {
            return;
        };
        let length = u32::from_be_bytes([0, *high, *middle, *low]);
        let is_settings = *kind == SETTINGS && stream.iter().all(|byte| *byte == 0);
        let whole = begin.head.len() == HEAD && begin.seen >= HEAD.saturating_add(length as usize);
        if (*kind != SETTINGS || whole)
            && let Some(begin) = self.begin.take()
        {
            // Whoever opened the connection may have given up.
            let _unheard = begin.told.send(is_settings);
        }
    }

    fn sent(&self, written: &io::Result<usize>) {
        if let Ok(written) = written {
            self.traffic
                .written
                .fetch_add(*written as u64, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        this.received(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, buf));
        this.sent(&written);
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, bufs));
        this.sent(&written);
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(parts: &[&[u8]]) -> Option<bool> {
        let (mut watched, mut begun) = Watched::new((), Arc::default());
        for part in parts {
            watched.received(part);
        }
        begun.try_recv().ok()
    }

    #[test]
    fn a_server_of_http_2_is_known_by_its_first_frame() {
        let settings = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
        for cut in 0..=settings.len() {
            let (one, two) = settings.split_at(cut);
            let whole = (cut == settings.len()).then_some(true);
            assert_eq!(first(&[one]), whole, "{cut} bytes");
            assert_eq!(first(&[one, two]), Some(true), "cut at {cut}");
        }
        assert_eq!(first(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]), Some(false));
        assert_eq!(
            first(&[b"\0\0\0\x04\0\0\0\0\x01"]),
            Some(false),
            "a stream's"
        );
        assert_eq!(first(&[b"SSH-2.0-x"]), Some(false));
        assert_eq!(first(&[]), None);
    }
}
