//! How are a client and an upstream joined that no longer speak HTTP?

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, copy, split};
use tokio::time::timeout;

use super::http1::Wire;
use super::patience::Patience;
use crate::bucket::Permit;

/// How long one side may go on after the other has ended.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Both ends of an open WebSocket, with the upstream's permit.
#[derive(Debug)]
pub struct Tunnel {
    client: OnUpgrade,
    upstream: Option<Wire>,
    /// How long the upstream may take nothing of what the client says.
    patience: Duration,
    permit: Permit,
}

impl Tunnel {
    pub(super) const fn new(
        client: OnUpgrade,
        upstream: Option<Wire>,
        patience: Duration,
        permit: Permit,
    ) -> Self {
        Self {
            client,
            upstream,
            patience,
            permit,
        }
    }

    /// Carries bytes both ways until both sides have ended, or one breaks. The
    /// client's connection has a deadline of its own for what it takes.
    pub async fn run(self) {
        let _held = self.permit;
        // A side that is gone before it begins ends it, as one does that breaks later.
        let (Ok(client), Some(upstream)) = (self.client.await, self.upstream) else {
            return;
        };
        let upstream = Hurried {
            inner: upstream,
            patience: Patience::new(self.patience),
        };
        let _ended = join(TokioIo::new(client), upstream).await;
    }
}

/// A side that must take what it is sent. While it doesn't, nothing more is read
/// from the other one, whose end would go unheard.
#[derive(Debug)]
struct Hurried<T> {
    inner: T,
    patience: Patience,
}

impl<T> Hurried<T> {
    fn by<R>(&mut self, cx: &mut Context<'_>, taken: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if taken.is_ready() {
            self.patience.moved();
            return taken;
        }
        self.patience
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Hurried<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Hurried<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.by(cx, taken)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.inner).poll_flush(cx);
        self.by(cx, taken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.by(cx, taken)
    }
}

async fn join<A, B>(client: A, upstream: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = split(client);
    let (from_upstream, to_upstream) = split(upstream);
    let up = carry(from_client, to_upstream);
    let down = carry(from_upstream, to_client);
    tokio::pin!(up, down);
    tokio::select! {
        ended = &mut up => {
            ended?;
            timeout(LAST_WORDS, down).await?
        }
        ended = &mut down => {
            ended?;
            timeout(LAST_WORDS, up).await?
        }
    }
}

/// Carries one side's bytes to the other, and its end.
async fn carry<A, B>(mut from: ReadHalf<A>, mut to: WriteHalf<B>) -> io::Result<()>
where
    A: AsyncRead,
    B: AsyncWrite,
{
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_one_side_reaches_the_other_which_may_finish() {
        let (mut client, client_side) = duplex(64);
        let (mut upstream, upstream_side) = duplex(64);
        let joined = tokio::spawn(join(client_side, upstream_side));
        client.write_all(b"bye").await.expect("room");
        client.shutdown().await.expect("an end");
        let mut heard = Vec::new();
        upstream.read_to_end(&mut heard).await.expect("bytes");
        assert_eq!(heard, b"bye");
        upstream.write_all(b"and you").await.expect("room");
        drop(upstream);
        heard.clear();
        client.read_to_end(&mut heard).await.expect("bytes");
        assert_eq!(heard, b"and you");
        joined.await.expect("an end").expect("a clean one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_takes_nothing_ends_both_and_one_that_is_slow_does_not() {
        let (mut client, client_side) = duplex(64);
        let (mut upstream, inner) = duplex(64);
        let upstream_side = Hurried {
            inner,
            patience: Patience::new(Duration::from_secs(30)),
        };
        let joined = tokio::spawn(join(client_side, upstream_side));
        let says = tokio::spawn(async move { client.write_all(&vec![b'x'; 100_000]).await });
        let mut some = [0; 64];
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(29)).await;
            upstream.read_exact(&mut some).await.expect("bytes");
        }
        let begun = Instant::now();
        let ended = joined.await.expect("an end").expect_err("too long");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
        says.await.expect("an end").expect_err("nobody reads");
    }

    #[tokio::test(start_paused = true)]
    async fn one_side_does_not_stay_on_for_ever() {
        let begun = Instant::now();
        let (client, client_side) = duplex(64);
        let (_silent, upstream_side) = duplex(64);
        drop(client);
        join(client_side, upstream_side)
            .await
            .expect_err("too long");
        assert_eq!(begun.elapsed(), LAST_WORDS);
    }
}
