//! How does an upstream's answer stream through, and what does it hold meanwhile?

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};

use super::body::{BodyError, BoxError, Upload, passed};
use super::http1::Wire;
use super::http2::Pumped;
use super::patience::Patience;
use super::{http1, http2};
use crate::bucket::Permit;

/// The head of an answer, with what its body comes over.
#[derive(Debug)]
pub struct Answer<B> {
    pub(super) response: Response<Arriving<B>>,
    pub(super) upload: Option<Arc<Upload>>,
}

/// An answer's bytes as they come in, with what they come over: dropped before
/// its end, the answer is broken off.
#[derive(Debug)]
pub(super) enum Arriving<B> {
    /// Over a connection of its own.
    Http1(http1::Received),
    /// Over a share of one, until the end.
    Http2(http2::Received, Option<Box<(Pumped<B>, Patience)>>),
}

/// An upstream's body on its way to the client. It holds the upstream's permit
/// and the connection until its last byte, or until it is dropped.
#[derive(Debug)]
pub struct AnswerBody<B> {
    body: Arriving<B>,
    permit: Option<Permit>,
    upload: Option<Arc<Upload>>,
}

impl<B: Send + 'static> Answer<B> {
    /// Its status.
    pub fn status(&self) -> http::StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The answer as it goes to the client.
    pub fn with(self, permit: Permit) -> Response<AnswerBody<B>> {
        let (head, body) = self.response.into_parts();
        if let Some(upload) = &self.upload {
            upload.set_answered(true);
        }
        let mut answer = AnswerBody {
            body,
            permit: Some(permit),
            upload: self.upload,
        };
        if answer.body.is_end_stream() {
            answer.ended();
        }
        Response::from_parts(head, answer)
    }
}

impl<B: Send + 'static> AnswerBody<B> {
    /// All of it is here: another request may take the permit and the connection.
    fn ended(&mut self) {
        self.body.finish();
        self.settle();
    }

    /// It breaks off.
    fn broken(&mut self) {
        self.body = Arriving::Http1(http1::Received::nothing());
        self.settle();
    }

    /// The permit is another's, and whoever still sends is no longer waiting for an
    /// answer.
    fn settle(&mut self) {
        self.permit = None;
        if let Some(upload) = self.upload.take() {
            upload.set_answered(false);
        }
    }
}

impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            upload.set_answered(false);
        }
    }
}

impl<B: Send + Unpin + 'static> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = this.body.poll_frame(cx);
        if let Some(patience) = this.body.patience() {
            if polled.is_pending() {
                loop {
                    ready!(patience.poll(cx));
                    // Where the client's own part goes on, the answer may wait for it.
                    if !this.upload.as_ref().is_some_and(|upload| upload.moved()) {
                        break;
                    }
                    patience.moved();
                }
                let most = patience.most();
                this.broken();
                return Poll::Ready(Some(Err(BodyError::Stalled(most))));
            }
            patience.moved();
        }
        let frame = ready!(polled);
        match &frame {
            Some(Err(_broken)) => this.broken(),
            None => this.ended(),
            Some(Ok(_)) if this.body.is_end_stream() => this.ended(),
            Some(Ok(_)) => (),
        }
        Poll::Ready(frame.map(passed))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Arriving::Http1(body) => body.size_hint(),
            Arriving::Http2(body, _) => body.size_hint(),
        }
    }
}

impl<B> Arriving<B> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Http1(body) => body.poll_frame(cx),
            Self::Http2(body, _) => {
                let frame = ready!(body.poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    /// How long one waits for more of it, until its end.
    pub(super) fn patience(&mut self) -> Option<&mut Patience> {
        match self {
            Self::Http1(body) => body.patience(),
            Self::Http2(_, over) => over.as_deref_mut().map(|(_, patience)| patience),
        }
    }

    /// The connection, where HTTP has ended on it.
    pub(super) fn into_wire(self) -> Option<Wire> {
        match self {
            Self::Http1(body) => body.into_wire(),
            Self::Http2(..) => None,
        }
    }

    /// All of it is here.
    fn finish(&mut self) {
        match self {
            Self::Http1(body) => body.finish(),
            Self::Http2(_, over) => {
                if let Some(over) = over.take() {
                    over.0.finish();
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body, _) => body.is_end_stream(),
        }
    }
}
