//! What goes out to the client, and what ends with it?

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::account::Account;
use super::streams::{Lent, Streams};
use crate::forward::{AnswerBody, BodyError, Tunnel};
use crate::peer::Peer;

/// What a client gets of an answer, behind its head.
#[derive(Debug)]
pub struct Outgoing(Way);

#[derive(Debug)]
enum Way {
    /// The connection is the answer's alone.
    Own(Answer),
    /// Others share the connection.
    Lent(Arc<Lent>),
}

/// An answer's body. The request's account is closed when it is dropped.
#[derive(Debug)]
pub(super) struct Answer {
    content: Content,
    /// Closed by being dropped; a tunnel has its own.
    _account: Option<Box<Account>>,
}

/// Where an answer's bytes come from.
#[derive(Debug)]
pub(super) enum Content {
    /// They are here.
    Whole(Bytes),
    /// From an upstream, as they come.
    Upstream(AnswerBody<Incoming>),
    /// From an upstream that no longer speaks HTTP, when the head has gone out.
    Tunnel(Box<Tunnel>),
}

impl Outgoing {
    pub(super) fn new(content: Content, account: Box<Account>) -> Self {
        let (content, account) = match content {
            Content::Tunnel(tunnel) => {
                // The connection's task ends with HTTP; what follows has its own.
                account.peer().keep_alive();
                tokio::spawn(async move {
                    tunnel.run().await;
                    drop(account);
                });
                (Content::Whole(Bytes::new()), None)
            }
            content => (content, Some(account)),
        };
        Self(Way::Own(Answer {
            content,
            _account: account,
        }))
    }

    /// The same where others share its connection: it is taken back when its
    /// client takes nothing for too long.
    pub(super) fn lent(self, streams: &Streams, peer: Arc<Peer>) -> Self {
        match self.0 {
            Way::Own(answer) if !answer.is_end_stream() => {
                Self(Way::Lent(streams.lend(answer, peer)))
            }
            way => Self(way),
        }
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().0 {
            Way::Own(answer) => Pin::new(answer).poll_frame(cx),
            Way::Lent(lent) => lent.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Way::Own(answer) => answer.is_end_stream(),
            Way::Lent(lent) => lent.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Way::Own(answer) => answer.size_hint(),
            Way::Lent(lent) => lent.size_hint(),
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Upstream(body) => Pin::new(body).poll_frame(cx),
            Content::Tunnel(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Upstream(body) => body.is_end_stream(),
            Content::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Upstream(body) => body.size_hint(),
            Content::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}
