//! How does a client's body go on, and who notices when it stands still?

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::headers::clean_trailers;
use super::patience::Patience;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How much of a body is kept until it is sure that nobody needs it again.
const MOST_KEPT: usize = 64 * 1024;

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection that it came over broke.
    #[error("the body broke off")]
    Broken(#[source] BoxError),
    /// It made no progress for too long.
    #[error("the body made no progress for {0:?}")]
    Stalled(Duration),
    /// There is more of it than its route takes.
    #[error("the body is too large")]
    TooLarge,
}

/// How a client's upload stands, for the one who waits for the upstream.
#[derive(Debug, Default)]
pub struct Upload {
    moved: AtomicBool,
    ended: AtomicU8,
    /// Whether the upstream answers meanwhile: the client may wait for that.
    answered: AtomicBool,
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

    /// Says whether the upstream's answer is under way. While it is, a client may
    /// be silent: the answer's own patience ends what stands still on both sides.
    pub(super) fn set_answered(&self, answered: bool) {
        self.answered.store(answered, Ordering::Relaxed);
    }
}

/// A client's body on its way to the upstream; nothing where the request has none,
/// as most: it moves from hand to hand with its request.
#[derive(Debug)]
pub struct RequestBody<B>(Option<Box<Flow<B>>>);

/// A body that comes in.
#[derive(Debug)]
struct Flow<B> {
    body: B,
    upload: Arc<Upload>,
    patience: Patience,
    /// So many bytes may still come.
    left: u64,
    /// What comes before the rest of the body: it was read before.
    again: VecDeque<Bytes>,
    /// What was read so far, where that may be needed again.
    kept: Option<Vec<Bytes>>,
}

impl<B> RequestBody<B> {
    /// A body of no more than `bytes` that may stand still for `most`, and how it
    /// does where there is one.
    pub fn new(body: B, most: Duration, bytes: u64) -> (Self, Option<Arc<Upload>>)
    where
        B: Body,
    {
        if body.is_end_stream() {
            return (Self(None), None);
        }
        let upload = Arc::<Upload>::default();
        let flow = Flow {
            body,
            upload: Arc::clone(&upload),
            patience: Patience::new(most),
            left: bytes,
            again: VecDeque::new(),
            kept: None,
        };
        (Self(Some(Box::new(flow))), Some(upload))
    }

    /// Keeps what is read from now on, as long as that is little.
    pub(super) fn keep(&mut self) {
        if let Some(flow) = &mut self.0 {
            flow.kept = Some(Vec::new());
        }
    }

    /// The body from its beginning, where all that was read of it is still here.
    pub(super) fn rewound(mut self) -> Option<Self> {
        if let Some(flow) = &mut self.0 {
            for bytes in flow.kept.take()?.into_iter().rev() {
                flow.again.push_front(bytes);
            }
        }
        Some(self)
    }
}

impl<B> Flow<B> {
    /// The frame, unless it makes the body too large.
    fn counted(
        &mut self,
        frame: Result<Frame<Bytes>, BodyError>,
    ) -> Result<Frame<Bytes>, BodyError> {
        let frame = frame?;
        let length = frame.data_ref().map_or(0, Bytes::len);
        if let Some(left) = self.left.checked_sub(length as u64) {
            self.left = left;
            return Ok(frame);
        }
        self.upload.ended.store(TOO_LARGE, Ordering::Relaxed);
        self.kept = None;
        Err(BodyError::TooLarge)
    }

    /// Notes what goes out. Trailers, and what is too much, can't be read again.
    fn note(&mut self, frame: &Frame<Bytes>) {
        let Some(kept) = &mut self.kept else { return };
        let size: usize = kept.iter().map(Bytes::len).sum();
        match frame.data_ref() {
            Some(bytes) if size.saturating_add(bytes.len()) <= MOST_KEPT => {
                kept.push(bytes.clone());
            }
            _ => self.kept = None,
        }
    }
}

impl<B> Flow<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Err(broken))) => {
                    self.upload.ended.store(BROKEN, Ordering::Relaxed);
                    self.kept = None;
                    return Poll::Ready(Some(Err(BodyError::Broken(broken.into()))));
                }
                Poll::Ready(frame) => {
                    self.patience.moved();
                    return Poll::Ready(frame.map(|frame| self.counted(passed(frame))));
                }
                Poll::Pending => ready!(self.patience.poll(cx)),
            }
            if self.upload.answered.load(Ordering::Relaxed) {
                self.patience.moved();
                continue;
            }
            self.upload.ended.store(STALLED, Ordering::Relaxed);
            self.kept = None;
            return Poll::Ready(Some(Err(BodyError::Stalled(self.patience.most()))));
        }
    }
}

/// A frame as it goes on.
pub(super) fn passed<E: Into<BoxError>>(
    frame: Result<Frame<Bytes>, E>,
) -> Result<Frame<Bytes>, BodyError> {
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
        let Some(flow) = &mut self.get_mut().0 else {
            return Poll::Ready(None);
        };
        // Whoever asks for more has taken what came before.
        flow.upload.moved.store(true, Ordering::Relaxed);
        let frame = match flow.again.pop_front() {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None => ready!(flow.poll_rest(cx)),
        };
        if let Some(Ok(frame)) = &frame {
            flow.note(frame);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let is_over = |flow: &Flow<B>| flow.again.is_empty() && flow.body.is_end_stream();
        self.0.as_deref().is_none_or(is_over)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(flow) = &self.0 else {
            return SizeHint::with_exact(0);
        };
        let again = flow
            .again
            .iter()
            .map(|bytes| bytes.len() as u64)
            .sum::<u64>();
        let rest = flow.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(again));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(again));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn a_body_that_was_kept_is_read_again() {
        let text = Bytes::from_static(b"payment");
        let (mut body, _) = RequestBody::new(Full::new(text.clone()), MINUTE, u64::MAX);
        body.keep();
        for _ in 0..3 {
            let read = body.frame().await.expect("a frame").expect("no error");
            assert_eq!(read.into_data().expect("bytes"), text);
            assert!(body.frame().await.is_none() && body.is_end_stream());
            body = body.rewound().expect("all of it");
            assert_eq!(body.size_hint().exact(), Some(7));
            assert!(!body.is_end_stream());
            body.keep();
        }
    }

    #[tokio::test]
    async fn what_is_too_much_or_has_trailers_is_not_kept() {
        let long = Full::new(Bytes::from(vec![b'x'; MOST_KEPT + 1]));
        let (mut body, _) = RequestBody::new(long, MINUTE, u64::MAX);
        body.keep();
        body.frame().await.expect("a frame").expect("no error");
        assert!(body.rewound().is_none());
        let frames = [
            Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"x"))),
            Ok(Frame::trailers(http::HeaderMap::new())),
        ];
        let (mut body, _) = RequestBody::new(
            StreamBody::new(futures_util::stream::iter(frames)),
            MINUTE,
            u64::MAX,
        );
        body.keep();
        while body.frame().await.is_some() {}
        assert!(body.rewound().is_none());
    }
}
