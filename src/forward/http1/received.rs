//! How does an answer's body come in over HTTP/1.1?

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::length::Length;
use super::sending::{Sending, Unsent};
use super::wire::Wire;
use crate::forward::body::BoxError;
use crate::forward::client::RequestBytes;
use crate::forward::patience::Patience;
use crate::forward::pool::Lease;

/// An answer's body. Dropped before its end, the connection is closed.
#[derive(Debug)]
pub(in crate::forward) struct Received {
    /// The connection, until the end.
    lease: Option<Lease>,
    length: Length,
    /// What still writes the request, where the answer has come before its end.
    rest: Option<JoinHandle<Result<(), Unsent>>>,
    /// Whether a part came that its taker may not have passed on yet.
    is_taken: bool,
    /// What went wrong, until all that came before has been passed on.
    broken: Option<BoxError>,
}

impl Received {
    /// A body of this length on a connection, beside the rest of its request.
    pub(super) fn new<B: RequestBytes>(
        mut lease: Lease,
        length: Length,
        rest: Option<Sending<B>>,
    ) -> Self {
        let rest = rest.and_then(|mut sending| {
            let mut to = lease.wire().split()?;
            Some(tokio::spawn(async move {
                poll_fn(|cx| sending.poll(&mut to, cx)).await
            }))
        });
        Self {
            lease: Some(lease),
            length,
            rest,
            is_taken: false,
            broken: None,
        }
    }

    /// Nothing more, as where an answer broke off.
    pub(in crate::forward) const fn nothing() -> Self {
        Self {
            lease: None,
            length: Length::NONE,
            rest: None,
            is_taken: false,
            broken: None,
        }
    }

    pub(in crate::forward) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(lease) = &mut self.lease else {
            return Poll::Ready(None);
        };
        if let Some(broken) = self.broken.take() {
            return Poll::Ready(Some(Err(broken)));
        }
        let polled = poll_next(lease.wire(), &mut self.length, cx);
        if let (Poll::Pending, Some(rest)) = (&polled, &mut self.rest)
            && let Poll::Ready(ended) = Pin::new(rest).poll(cx)
        {
            self.rest = None;
            // Where the upstream takes no more, it may go on to answer.
            if let Ok(Err(unsent @ (Unsent::Body(_) | Unsent::Length))) = ended {
                return Poll::Ready(Some(Err(unsent.into())));
            }
        }
        let was_taken = std::mem::replace(&mut self.is_taken, polled.is_ready());
        match polled {
            // hyper writes out what it was given only when there is nothing more.
            Poll::Ready(Some(Err(broken))) if was_taken => {
                self.broken = Some(broken);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            polled => polled,
        }
    }

    /// How long one waits for more.
    pub(in crate::forward) fn patience(&mut self) -> Option<&mut Patience> {
        self.lease.as_mut().map(|lease| lease.patience())
    }

    /// All of it is here. The connection may carry the next request, unless more
    /// came than was asked for. What the client still sends goes out all the same,
    /// as long as the upstream takes it.
    pub(in crate::forward) fn finish(&mut self) {
        self.rest = None;
        if let Some(lease) = self.lease.take() {
            lease.release();
        }
    }

    /// The connection, where HTTP has ended on it.
    pub(in crate::forward) fn into_wire(mut self) -> Option<Wire> {
        Some(self.lease.take()?.into_wire())
    }

    pub(in crate::forward) const fn is_end_stream(&self) -> bool {
        self.length.is_over()
    }

    pub(in crate::forward) fn size_hint(&self) -> SizeHint {
        self.length.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Some(rest) = &self.rest {
            rest.abort();
        }
    }
}

/// The next part of a body of this length.
pub(super) fn poll_next<S: AsyncRead + AsyncWrite + Unpin>(
    wire: &mut Wire<S>,
    length: &mut Length,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
    loop {
        match length.take(&mut wire.buffer) {
            Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
            Ok(None) if length.is_over() => return Poll::Ready(None),
            Ok(None) => (),
            Err(nonsense) => return Poll::Ready(Some(Err(nonsense.into()))),
        }
        match ready!(wire.poll_fill(cx)) {
            Ok(0) => return Poll::Ready(length.end().err().map(|ended| Err(ended.into()))),
            Ok(_) => (),
            Err(broken) => return Poll::Ready(Some(Err(broken.into()))),
        }
    }
}
