//! Which HTTP does a client begin with?

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt as _;
use tokio::io::{Interest, ReadBuf, Ready};

use super::Peer;
use super::socket::drained;

/// Which HTTP a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 or HTTP/1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// How HTTP/2 begins where it was not agreed on before. No request of HTTP/1.1
/// has that method.
const PREFACE: &[u8] = b"PRI ";

impl Peer {
    /// Waits for the client's first bytes and leaves them where they are. `None`
    /// where none come: it has closed, or is dismissed before it has said anything.
    pub async fn first_words(&self) -> io::Result<Option<Protocol>> {
        let mut before = 0;
        poll_fn(|cx| {
            let looked = self.poll_words(cx, &mut before);
            if looked.is_pending() && before == 0 && self.is_dismissed(cx) {
                return Poll::Ready(Ok(None));
            }
            looked
        })
        .await
    }

    /// Whether the kernel has reported that nothing more comes.
    fn has_closed(&self) -> bool {
        let ready = self.socket.ready(Interest::READABLE).now_or_never();
        ready.is_some_and(|ready| ready.is_ok_and(Ready::is_read_closed))
    }

    fn poll_words(
        &self,
        cx: &mut Context<'_>,
        before: &mut usize,
    ) -> Poll<io::Result<Option<Protocol>>> {
        loop {
            let mut words = [0; PREFACE.len()];
            let mut buf = ReadBuf::new(&mut words);
            let seen = ready!(self.socket.poll_peek(cx, &mut buf))?;
            let words = buf.filled();
            return Poll::Ready(Ok(match PREFACE.strip_prefix(words) {
                _ if seen == 0 => None,
                Some([]) => Some(Protocol::Http2),
                Some(_) if !self.has_closed() => {
                    *before = seen;
                    self.begins(false);
                    drained(&self.socket);
                    continue;
                }
                Some(_) | None => Some(Protocol::Http1),
            }));
        }
    }
}
