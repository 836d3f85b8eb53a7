//! How does an answer's body come in over HTTP/2?

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Response};
use http_body::{Frame, SizeHint};

/// An answer's body. Dropped before its end, the stream is reset.
#[derive(Debug)]
pub(in crate::forward) struct Received {
    stream: RecvStream,
    /// What the head says is still to come.
    left: Option<u64>,
    trailers: bool,
}

impl Received {
    pub(super) fn of(response: Response<RecvStream>, asked: &Method) -> Response<Self> {
        let left = length(response.headers()).filter(|_| asked != Method::HEAD);
        response.map(|stream| Self {
            stream,
            left,
            trailers: false,
        })
    }

    pub(in crate::forward) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.trailers {
            if let Some(bytes) = ready!(self.stream.poll_data(cx)) {
                let bytes = match bytes {
                    Ok(bytes) => bytes,
                    Err(broken) => return Poll::Ready(Some(Err(broken))),
                };
                // A stream that has ended has no window to be widened.
                let _ended = self.stream.flow_control().release_capacity(bytes.len());
                let left = self.left.unwrap_or_default();
                self.left = self.left.and(left.checked_sub(bytes.len() as u64));
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            self.trailers = true;
        }
        let trailers = ready!(self.stream.poll_trailers(cx));
        Poll::Ready(
            trailers
                .map(|trailers| trailers.map(Frame::trailers))
                .transpose(),
        )
    }

    pub(in crate::forward) fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    pub(in crate::forward) fn size_hint(&self) -> SizeHint {
        match self.left {
            _ if self.is_end_stream() => SizeHint::with_exact(0),
            Some(left) => SizeHint::with_exact(left),
            None => SizeHint::new(),
        }
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
