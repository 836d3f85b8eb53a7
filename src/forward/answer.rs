//! How does an upstream's answer stream through, and what does it hold meanwhile?

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::body::{BodyError, BoxError, RequestBody, Upload, passed};
use super::http2::{Pumped, Received};
use super::patience::Patience;
use super::pool::Lease;
use crate::bucket::Permit;

/// The head of an answer, with what its body comes over.
#[derive(Debug)]
pub struct Answer<B> {
    pub(super) response: Response<Arriving>,
    pub(super) carrier: Carrier<B>,
    pub(super) upload: Option<Arc<Upload>>,
}

/// An answer's bytes as they come in.
#[derive(Debug)]
pub(super) enum Arriving {
    Http1(Incoming),
    Http2(Received),
}

/// What an answer comes over: dropped before its end, it is broken off.
#[derive(Debug)]
pub(super) enum Carrier<B> {
    /// A connection of its own.
    Http1(Lease<RequestBody<B>>),
    /// A share of one.
    Http2(Pumped<B>, Box<Patience>),
}

/// An upstream's body on its way to the client. It holds the upstream's permit
/// and the connection until its last byte, or until it is dropped.
#[derive(Debug)]
pub struct AnswerBody<B> {
    body: Arriving,
    held: Option<(Permit, Carrier<B>)>,
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
            held: Some((permit, self.carrier)),
            upload: self.upload,
        };
        if answer.body.is_end_stream() {
            answer.ended();
        }
        Response::from_parts(head, answer)
    }
}

impl<B> Carrier<B> {
    pub(super) fn patience(&mut self) -> &mut Patience {
        match self {
            Self::Http1(lease) => &mut lease.patience,
            Self::Http2(_, patience) => patience,
        }
    }
}

impl<B: Send + 'static> AnswerBody<B> {
    /// All of it is here: another request may take the permit and the connection.
    fn ended(&mut self) {
        match self.held.take() {
            Some((_permit, Carrier::Http1(lease))) => lease.release(),
            Some((_permit, Carrier::Http2(pumped, _))) => pumped.finish(),
            None => (),
        }
        self.settle();
    }

    /// It breaks off.
    fn broken(&mut self) {
        self.held = None;
        self.settle();
    }

    /// Whoever still sends is no longer waiting for an answer.
    fn settle(&mut self) {
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
        if let Some((_permit, carrier)) = &mut this.held {
            let patience = carrier.patience();
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
            Arriving::Http2(body) => body.size_hint(),
        }
    }
}

impl Arriving {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Http1(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Http2(body) => {
                let frame = ready!(body.poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }
}
