//! What goes out to the client, and what ends with it?

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::account::Account;
use crate::forward::{AnswerBody, BodyError};

/// An answer's body. The request's account is closed when it is dropped.
#[derive(Debug)]
pub struct Outgoing {
    content: Content,
    #[expect(dead_code, reason = "it is closed by being dropped")]
    account: Box<Account>,
}

/// Where an answer's bytes come from.
#[derive(Debug)]
pub(super) enum Content {
    /// They are here.
    Whole(Bytes),
    /// From an upstream, as they come.
    Upstream(AnswerBody<Incoming>),
}

impl Outgoing {
    pub(super) fn new(content: Content, account: Box<Account>) -> Self {
        Self { content, account }
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
        match &mut self.get_mut().content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Upstream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Upstream(body) => body.size_hint(),
        }
    }
}
