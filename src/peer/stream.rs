//! What is looked for in the bytes of HTTP/1.1 before hyper reads them?

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::scan::Scan;
use super::{Peer, own};

/// The bytes of HTTP/1.1 on a [`Peer`]'s connection, with TLS taken off.
#[derive(Debug)]
pub struct Stream<I> {
    inner: I,
    peer: Arc<Peer>,
    scan: Scan,
    /// Whether a chunk came that is none: nothing behind it is read.
    is_broken: bool,
}

impl<I> Stream<I> {
    /// The one stream of a connection.
    pub fn new(inner: I, peer: Arc<Peer>) -> Self {
        Self {
            inner,
            peer,
            scan: Scan::default(),
            is_broken: false,
        }
    }

    /// Looks at bytes as they come: a head must be whole in time, and say one
    /// thing. Where more comes than hyper will read for now, it is noted. So many
    /// of the bytes may go on.
    fn received(&mut self, bytes: &[u8]) -> usize {
        let awaited = self.peer.request.is_set();
        if awaited {
            self.scan.all_answered();
        }
        let passed = self.scan.read(bytes);
        if awaited {
            self.peer.begins(passed.has_head);
        }
        if let Some((number, oddity)) = self.scan.odd() {
            self.peer.note_odd(number, oddity);
        }
        if !awaited || passed.behind > 0 {
            self.peer.note_more();
        }
        passed.sound
    }

    /// What is written instead of `head`, where that is a refusal of hyper's own:
    /// one with a body.
    fn refusal(&self, head: &[u8]) -> Option<bytes::Bytes> {
        // While a request is served its answer is weir's.
        self.peer
            .request
            .is_set()
            .then(|| own::refusal(head))
            .flatten()
    }
}

impl<I: AsyncWrite + Unpin> Stream<I> {
    /// It is the connection's last word and fits into an empty buffer.
    fn poll_refuse(
        &mut self,
        cx: &mut Context<'_>,
        refusal: &[u8],
        head: usize,
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, refusal));
        Poll::Ready(written.map(|_written| head))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Stream<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.is_broken {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
            let read = buf.filled().len().saturating_sub(before);
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            let sound = this.received(buf.filled().get(before..).unwrap_or_default());
            if sound < read {
                this.is_broken = true;
                buf.set_filled(before.saturating_add(sound));
                // No bytes at all would be the connection's end.
                if sound == 0 {
                    continue;
                }
            }
            return Poll::Ready(Ok(()));
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Stream<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match this.refusal(buf) {
            Some(refusal) => this.poll_refuse(cx, &refusal, buf.len()),
            None => Pin::new(&mut this.inner).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let head = bufs.first().map_or(&[][..], |head| head);
        match this.refusal(head) {
            Some(refusal) => this.poll_refuse(cx, &refusal, head.len()),
            None => Pin::new(&mut this.inner).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
