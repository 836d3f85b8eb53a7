//! How are a client and an upstream joined that no longer speak HTTP?

use std::io;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, copy, split};
use tokio::time::timeout;

use crate::bucket::Permit;

/// How long one side may go on after the other has ended.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Both ends of an open WebSocket, with the upstream's permit.
#[derive(Debug)]
pub struct Tunnel {
    client: OnUpgrade,
    upstream: OnUpgrade,
    permit: Permit,
}

impl Tunnel {
    pub(super) const fn new(client: OnUpgrade, upstream: OnUpgrade, permit: Permit) -> Self {
        Self {
            client,
            upstream,
            permit,
        }
    }

    /// Carries bytes both ways until both sides have ended, or one breaks.
    pub async fn run(self) {
        let _held = self.permit;
        // A side that is gone before it begins ends it, as one does that breaks later.
        let Ok((client, upstream)) = tokio::try_join!(self.client, self.upstream) else {
            return;
        };
        let _ended = join(TokioIo::new(client), TokioIo::new(upstream)).await;
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
