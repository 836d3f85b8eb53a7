//! How do a connection's bytes pass, under the eyes of its deadlines?

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::head::HeadScan;
use super::{Peer, own};

/// The bytes of a [`Peer`]'s connection.
#[derive(Debug)]
pub struct Stream {
    peer: Arc<Peer>,
    scan: HeadScan,
}

impl Stream {
    /// The one stream of a connection.
    pub fn new(peer: Arc<Peer>) -> Self {
        Self {
            peer,
            scan: HeadScan::default(),
        }
    }

    /// Looks at the bytes of a head: it must be whole in time, and say one thing.
    /// Where more comes than hyper will read for now, it is noted.
    fn received(&mut self, bytes: &[u8]) {
        if !self.peer.request.is_set() {
            self.peer.note_more();
            return;
        }
        if self.peer.begins() {
            self.scan = HeadScan::default();
        }
        let (odd, behind) = self.scan.read(bytes);
        self.peer.is_odd.store(odd, Ordering::Relaxed);
        if behind > 0 {
            self.peer.note_more();
        }
    }

    /// A read that left room has emptied the socket: the next one waits for the
    /// kernel's word, instead of asking it in vain.
    fn drained(&self) {
        let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        // The answer is the one that was just given.
        let _empty = self.peer.socket.try_io(Interest::READABLE, empty);
    }

    /// Writes as `write` does, but for a refusal of hyper's own: that gets a body.
    fn write(&self, head: &[u8], write: impl Fn() -> io::Result<usize>) -> io::Result<usize> {
        // While a request is served its answer is weir's.
        let own = if self.peer.request.is_set() {
            own::refusal(head)
        } else {
            None
        };
        match own {
            // It is the connection's last word and fits into an empty buffer.
            Some(refusal) => self
                .peer
                .socket
                .try_write(&refusal)
                .map(|_written| head.len()),
            None => write(),
        }
    }

    fn wrote(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        self.peer.write.clear();
        Poll::Ready(written)
    }

    /// Writes as soon as the socket takes anything, by its deadline.
    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(writable) = self.peer.socket.poll_write_ready(cx) else {
                self.peer.write.set_if_none(self.peer.timeouts.write);
                return Poll::Pending;
            };
            writable?;
            match write() {
                Err(would_block) if would_block.kind() == io::ErrorKind::WouldBlock => (),
                written => return self.wrote(written),
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            ready!(this.peer.socket.poll_read_ready(cx))?;
            let (before, room) = (buf.filled().len(), buf.remaining());
            match this.peer.socket.try_read_buf(buf) {
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(read) => {
                    this.received(buf.filled().get(before..).unwrap_or_default());
                    if read < room {
                        this.drained();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(would_block) if would_block.kind() == io::ErrorKind::WouldBlock => (),
                Err(failed) => return Poll::Ready(Err(failed)),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, || self.write(buf, || self.peer.socket.try_write(buf)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let head = bufs.first().map_or(&[][..], |head| head);
        self.poll_with(cx, || {
            self.write(head, || self.peer.socket.try_write_vectored(bufs))
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.peer.socket).shutdown(std::net::Shutdown::Write))
    }
}
