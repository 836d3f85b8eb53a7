//! How do a connection's bytes pass, by their deadline?

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::Peer;

/// What is no longer than this in all is written in one piece.
const SHORT: usize = 1024;

/// The bytes of a [`Peer`]'s connection as they are on the wire.
#[derive(Debug)]
pub struct Socket(Arc<Peer>);

impl Socket {
    /// The one that its connection has.
    pub fn new(peer: Arc<Peer>) -> Self {
        Self(peer)
    }

    /// Writes as soon as the socket takes anything, by its deadline.
    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let peer = &self.0;
        loop {
            let Poll::Ready(writable) = peer.socket.poll_write_ready(cx) else {
                peer.write.set_if_none(peer.timeouts.write);
                return Poll::Pending;
            };
            writable?;
            match write() {
                Err(would_block) if would_block.kind() == io::ErrorKind::WouldBlock => (),
                written => {
                    peer.write.clear();
                    return Poll::Ready(written);
                }
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &self.0.socket;
        loop {
            ready!(socket.poll_read_ready(cx))?;
            let room = buf.remaining();
            match socket.try_read_buf(buf) {
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(read) => {
                    if read < room {
                        drained(socket);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(would_block) if would_block.kind() == io::ErrorKind::WouldBlock => (),
                Err(failed) => return Poll::Ready(Err(failed)),
            }
        }
    }
}

/// A read that left room has emptied the socket: the next one waits for the
/// kernel's word, instead of asking it in vain.
pub(super) fn drained(socket: &tokio::net::TcpStream) {
    let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
    // The answer is the one that was just given.
    let _empty = socket.try_io(Interest::READABLE, empty);
}

/// All pieces in one, where there is room for them.
fn join<'a>(pieces: &[IoSlice<'_>], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    for piece in pieces {
        let end = length.checked_add(piece.len())?;
        room.get_mut(length..end)?.copy_from_slice(piece);
        length = end;
    }
    room.get(..length)
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, || self.0.socket.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A list of pieces costs the kernel more than to join what is short.
        let mut joined = [0; SHORT];
        match join(bufs, &mut joined) {
            Some(whole) => self.poll_with(cx, || self.0.socket.try_write(whole)),
            None => self.poll_with(cx, || self.0.socket.try_write_vectored(bufs)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.0.socket).shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pieces_are_joined_and_long_ones_are_not() {
        let pieces = |lengths: &[usize]| {
            let all = [b'x'; 8];
            let pieces: Vec<IoSlice<'_>> = lengths
                .iter()
                .map(|length| IoSlice::new(&all[..*length]))
                .collect();
            join(&pieces, &mut [0; 8]).map(<[u8]>::len)
        };
        assert_eq!(pieces(&[]), Some(0));
        assert_eq!(pieces(&[5, 0, 3]), Some(8));
        assert_eq!(pieces(&[5, 4]), None);
        let (a, b) = (IoSlice::new(b"head"), IoSlice::new(b"body"));
        assert_eq!(join(&[a, b], &mut [0; 16]), Some(&b"headbody"[..]));
    }
}
