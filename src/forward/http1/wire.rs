//! How do bytes go over a connection, and which wait on either side of it?

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split};

use crate::forward::connect::Stream;

/// How much is read at once, at first: a small answer with its head.
const LEAST_ROOM: usize = 4 * 1024;

/// How much is read at once of a body that comes fast.
const MOST_ROOM: usize = 64 * 1024;

/// A stream to an upstream, with what was read from it and nobody has taken yet.
#[derive(Debug)]
pub(in crate::forward) struct Wire<S = TokioIo<Stream>> {
    stream: Side<S>,
    pub(super) buffer: BytesMut,
    room: usize,
}

/// What a wire has of its stream.
#[derive(Debug)]
enum Side<S> {
    Both(S),
    /// Somebody else writes on.
    Read(ReadHalf<S>),
    Neither,
}

/// What is to be written: a head or a chunk's size, then data, then what ends it.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    pub(super) before: BytesMut,
    pub(super) data: Bytes,
    pub(super) behind: &'static [u8],
    /// How much was written of all so far.
    pub(super) written: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// A wire over a stream with nothing said on it yet.
    pub(in crate::forward) fn new(stream: S) -> Self {
        Self {
            stream: Side::Both(stream),
            buffer: BytesMut::new(),
            room: LEAST_ROOM,
        }
    }

    /// Whether nothing has come unasked, not even the end.
    pub(in crate::forward) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        let mut unasked = ReadBuf::new(&mut byte);
        self.buffer.is_empty()
            && Pin::new(&mut self.stream)
                .poll_read(&mut cx, &mut unasked)
                .is_pending()
    }

    /// Keeps no more memory than a connection that nobody uses must have.
    pub(in crate::forward) fn shrink(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        self.room = LEAST_ROOM;
    }

    /// Reads more behind what the buffer has; how much, 0 at the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(self.room);
        let filled = ready!(pin!(self.stream.read_buf(&mut self.buffer)).poll(cx))?;
        if filled >= self.room {
            self.room = self.room.saturating_mul(2).min(MOST_ROOM);
        }
        Poll::Ready(Ok(filled))
    }

    /// Gives the side away that writes. What was read before stays here, and what
    /// is read from now on.
    pub(super) fn split(&mut self) -> Option<WriteHalf<S>> {
        match std::mem::replace(&mut self.stream, Side::Neither) {
            Side::Both(stream) => {
                let (read, write) = split(stream);
                self.stream = Side::Read(read);
                Some(write)
            }
            half => {
                self.stream = half;
                None
            }
        }
    }
}

impl Outlet {
    /// Whether all has been written.
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.data.is_empty() && self.behind.is_empty()
    }

    /// Writes all of it.
    pub(super) fn poll_flush<W: AsyncWrite + Unpin>(
        &mut self,
        to: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let to = Pin::new(&mut *to);
            let taken = if self.data.is_empty() && self.behind.is_empty() {
                to.poll_write(cx, &self.before)
            } else {
                let slices = [&self.before[..], &self.data[..], self.behind].map(IoSlice::new);
                to.poll_write_vectored(cx, &slices)
            };
            let taken = ready!(taken)?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(taken);
        }
        Pin::new(to).poll_flush(cx)
    }

    fn advance(&mut self, taken: usize) {
        self.written = self.written.saturating_add(taken as u64);
        let before = taken.min(self.before.len());
        self.before.advance(before);
        let data = (taken - before).min(self.data.len());
        self.data.advance(data);
        self.behind
            .advance((taken - before - data).min(self.behind.len()));
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Side<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Both(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Read(half) => Pin::new(half).poll_read(cx, buf),
            Self::Neither => Poll::Ready(Ok(())),
        }
    }
}

/// Where HTTP has ended: what was read with it comes first.
impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.buffer.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let here = this.buffer.len().min(buf.remaining());
        buf.put_slice(&this.buffer.split_to(here));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    fn writer(&mut self) -> io::Result<Pin<&mut S>> {
        match &mut self.stream {
            Side::Both(stream) => Ok(Pin::new(stream)),
            Side::Read(_) | Side::Neither => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().writer()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().writer()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(&self.stream, Side::Both(stream) if stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer()?.poll_shutdown(cx)
    }
}
