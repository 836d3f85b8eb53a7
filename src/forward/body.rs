//! How do bodies stream through, and who notices when one stands still?

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::client::Answer;
use super::headers::clean_trailers;
use super::patience::Patience;
use super::pool::Lease;
use crate::bucket::Permit;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection that it came over broke.
    #[error("the body broke off")]
    Broken(#[source] BoxError),
    /// It made no progress for too long.
    #[error("the body made no progress for {0:?}")]
    Stalled(Duration),
    /// It grew beyond what a body may have.
    #[error("the body is too large")]
    TooLarge,
}

/// How a client's upload stands, for the one who waits for the upstream.
#[derive(Debug, Default)]
pub struct Upload {
    moved: AtomicBool,
    ended: AtomicU8,
}

const BROKEN: u8 = 1;
const STALLED: u8 = 2;
const TOO_LARGE: u8 = 3;

impl Upload {
    /// Whether anything moved since the last call, or the client is the one who
    /// is waited for.
    pub(super) fn moved(&self) -> bool {
        self.moved.swap(false, Ordering::Relaxed)
    }

    /// Whether the client's body broke off.
    pub(super) fn is_broken(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == BROKEN
    }

    /// Whether the client's body made no progress for too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == STALLED
    }

    /// Whether the client's body grew too large.
    pub(super) fn is_too_large(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == TOO_LARGE
    }
}

/// A client's body on its way to the upstream.
#[derive(Debug)]
pub struct RequestBody<B> {
    body: B,
    upload: Option<Arc<Upload>>,
    patience: Patience,
    /// So many bytes may still come.
    left: u64,
}

impl<B> RequestBody<B> {
    /// A body that may stand still for `most` and have `bytes`, and how it does
    /// where there is one.
    pub fn new(body: B, most: Duration, bytes: u64) -> (Self, Option<Arc<Upload>>)
    where
        B: Body,
    {
        let upload = (!body.is_end_stream()).then(Arc::default);
        let told = upload.clone();
        (
            Self {
                body,
                upload,
                patience: Patience::new(most),
                left: bytes,
            },
            told,
        )
    }
}

impl<B> RequestBody<B> {
    fn tell(&self, what: impl FnOnce(&Upload)) {
        if let Some(upload) = &self.upload {
            what(upload);
        }
    }
}

/// A frame as it goes on.
fn passed<E: Into<BoxError>>(frame: Result<Frame<Bytes>, E>) -> Result<Frame<Bytes>, BodyError> {
    let mut frame = frame.map_err(|broken| BodyError::Broken(broken.into()))?;
    if let Some(trailers) = frame.trailers_mut() {
        clean_trailers(trailers);
    }
    Ok(frame)
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        // Whoever asks for more has taken what came before.
        this.tell(|upload| upload.moved.store(true, Ordering::Relaxed));
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Err(broken))) => {
                this.tell(|upload| upload.ended.store(BROKEN, Ordering::Relaxed));
                Poll::Ready(Some(Err(BodyError::Broken(broken.into()))))
            }
            Poll::Ready(frame) => {
                this.patience.moved();
                let frame = frame.map(passed);
                let length = match &frame {
                    Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                    _ => 0,
                };
                let Some(left) = this.left.checked_sub(length as u64) else {
                    this.tell(|upload| upload.ended.store(TOO_LARGE, Ordering::Relaxed));
                    return Poll::Ready(Some(Err(BodyError::TooLarge)));
                };
                this.left = left;
                Poll::Ready(frame)
            }
            Poll::Pending => {
                ready!(this.patience.poll(cx));
                this.tell(|upload| upload.ended.store(STALLED, Ordering::Relaxed));
                Poll::Ready(Some(Err(BodyError::Stalled(this.patience.most()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An upstream's body on its way to the client. It holds the upstream's permit
/// and the connection until its last byte, or until it is dropped.
#[derive(Debug)]
pub struct AnswerBody<B> {
    body: Incoming,
    held: Option<(Permit, Lease<RequestBody<B>>)>,
}

impl<B: Send + 'static> AnswerBody<B> {
    pub(super) fn new(body: Incoming, permit: Permit, lease: Lease<RequestBody<B>>) -> Self {
        let mut answer = Self {
            body,
            held: Some((permit, lease)),
        };
        if answer.body.is_end_stream() {
            answer.ended();
        }
        answer
    }

    /// All of it is here: another request may take the permit and the connection.
    fn ended(&mut self) {
        if let Some((_permit, lease)) = self.held.take() {
            lease.release();
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
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if let Some((_permit, lease)) = &mut this.held {
            if polled.is_pending() {
                ready!(lease.patience.poll(cx));
                let most = lease.patience.most();
                this.held = None;
                return Poll::Ready(Some(Err(BodyError::Stalled(most))));
            }
            lease.patience.moved();
        }
        let frame = ready!(polled);
        match &frame {
            Some(Err(_broken)) => this.held = None,
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
        self.body.size_hint()
    }
}

impl<B: Send + 'static> Answer<B> {
    /// The answer as it goes to the client.
    pub fn with(self, permit: Permit) -> Response<AnswerBody<B>> {
        let lease = self.lease;
        self.response
            .map(|body| AnswerBody::new(body, permit, lease))
    }
}
