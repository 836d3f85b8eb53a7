//! How does a request's body go out over HTTP/1.1?

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes};
use http::HeaderMap;
use http::request::Parts;
use http_body::{Body as _, Frame};
use tokio::io::AsyncWrite;

use super::head::{self, Framing};
use super::wire::Outlet;
use crate::forward::body::{BodyError, RequestBody};
use crate::forward::client::RequestBytes;

/// A request as far as it is not written yet.
#[derive(Debug)]
pub(super) struct Sending<B> {
    pub(super) body: RequestBody<B>,
    outlet: Outlet,
    framing: Framing,
    /// Whether all of it has gone into the outlet.
    is_over: bool,
    /// Whether all of it has gone out, through whatever keeps bytes back, as TLS does.
    is_done: bool,
}

/// Why a request was not written to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsent {
    /// The upstream takes no more of it. It may have answered all the same.
    #[error("the upstream takes no more of the request")]
    Refused(#[from] io::Error),
    /// Its body broke off.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Its body has not the length that its head says.
    #[error("the request's body has another length than its head says")]
    Length,
}

impl<B: RequestBytes> Sending<B> {
    /// A request of which nothing is written yet.
    pub(super) fn new(parts: &Parts, body: RequestBody<B>) -> Self {
        let framing = match body.size_hint().exact() {
            _ if body.is_end_stream() => Framing::Nothing,
            Some(length) => Framing::Exactly(length),
            None => Framing::Chunked,
        };
        let mut outlet = Outlet::default();
        head::write(parts, framing, &mut outlet.before);
        Self {
            body,
            outlet,
            framing,
            is_over: framing == Framing::Nothing,
            is_done: false,
        }
    }

    /// Whether no byte of it was written.
    pub(super) const fn is_untouched(&self) -> bool {
        self.outlet.written == 0
    }

    /// Whether all of it was written.
    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Writes on, as the body comes in and the upstream takes it.
    pub(super) fn poll<W: AsyncWrite + Unpin>(
        &mut self,
        to: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        loop {
            // With the head goes what is here of the body.
            if !self.is_over && self.outlet.data.is_empty() && self.outlet.behind.is_empty() {
                match Pin::new(&mut self.body).poll_frame(cx) {
                    Poll::Ready(Some(frame)) => self.frame(frame?)?,
                    Poll::Ready(None) => self.end(&HeaderMap::new())?,
                    Poll::Pending => {
                        ready!(self.outlet.poll_flush(to, cx))?;
                        return Poll::Pending;
                    }
                }
            }
            ready!(self.outlet.poll_flush(to, cx))?;
            if self.is_over {
                self.is_done = true;
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn frame(&mut self, frame: Frame<Bytes>) -> Result<(), Unsent> {
        match frame.into_data() {
            Ok(data) => self.data(data),
            Err(frame) => self.end(&frame.into_trailers().unwrap_or_default()),
        }
    }

    fn data(&mut self, data: Bytes) -> Result<(), Unsent> {
        let length = data.len() as u64;
        match &mut self.framing {
            Framing::Nothing => return Err(Unsent::Length),
            Framing::Exactly(left) => {
                *left = left.checked_sub(length).ok_or(Unsent::Length)?;
                self.is_over = *left == 0;
            }
            // An empty chunk would be the last.
            Framing::Chunked if data.is_empty() => return Ok(()),
            Framing::Chunked => {
                let size = format!("{length:x}\r\n");
                self.outlet.before.put_slice(size.as_bytes());
                self.outlet.behind = b"\r\n";
            }
        }
        self.outlet.data = data;
        if self.framing == Framing::Chunked && self.body.is_end_stream() {
            self.outlet.behind = b"\r\n0\r\n\r\n";
            self.is_over = true;
        }
        Ok(())
    }

    /// The body has ended.
    fn end(&mut self, trailers: &HeaderMap) -> Result<(), Unsent> {
        self.is_over = true;
        match self.framing {
            Framing::Nothing | Framing::Exactly(0) => Ok(()),
            Framing::Exactly(_) => Err(Unsent::Length),
            Framing::Chunked => {
                let out = &mut self.outlet.before;
                out.put_slice(b"0\r\n");
                for (name, value) in trailers {
                    head::put_line(out, name, value);
                }
                out.put_slice(b"\r\n");
                Ok(())
            }
        }
    }
}
