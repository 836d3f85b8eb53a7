//! How is a request sent on a connection of its own, and was it surely not seen?

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Method, StatusCode};

use super::head::{self, Head};
use super::nonsense::Nonsense;
use super::received::Received;
use super::sending::{Sending, Unsent};
use super::wire::Wire;
use crate::forward::answer::{Answer, Arriving};
use crate::forward::body::{BoxError, RequestBody, Upload};
use crate::forward::client::{Attempt, RequestBytes, answered, broken};
use crate::forward::fault::Fault;
use crate::forward::pool::Lease;

/// Sends a request and awaits the head of its answer.
pub(in crate::forward) async fn send<B: RequestBytes>(
    mut lease: Lease,
    fresh: bool,
    parts: Box<Parts>,
    mut body: RequestBody<B>,
    upload: Option<&Arc<Upload>>,
) -> Result<Attempt<B>, Fault> {
    if !fresh {
        body.keep();
    }
    let mut exchange = Exchange {
        is_asked_for_head: parts.method == Method::HEAD,
        sending: Sending::new(&parts, body),
        parts: Some(parts),
        refused: None,
    };
    let told = upload.map(Arc::as_ref);
    let answer = {
        let (wire, patience) = lease.wire_and_patience();
        let head = poll_fn(|cx| exchange.poll_head(wire, cx));
        answered(head, patience, told).await?
    };
    match answer {
        Ok(head) => Ok(Attempt::Answered(exchange.answered(lease, head, upload))),
        Err(failed) => exchange.failed(failed, fresh, told),
    }
}

/// A request under way, until its answer begins.
struct Exchange<B> {
    sending: Sending<B>,
    /// The request's head, as long as it may be sent again.
    parts: Option<Box<Parts>>,
    is_asked_for_head: bool,
    /// Why the upstream takes no more of the request.
    refused: Option<Unsent>,
}

impl<B: RequestBytes> Exchange<B> {
    fn poll_head(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<Result<Head, BoxError>> {
        if self.refused.is_none() && !self.sending.is_done() {
            match self.sending.poll(wire, cx) {
                // It may have said why before it stopped to listen.
                Poll::Ready(Err(refused @ Unsent::Refused(_))) => self.refused = Some(refused),
                Poll::Ready(Err(unsent)) => return Poll::Ready(Err(unsent.into())),
                Poll::Ready(Ok(())) | Poll::Pending => (),
            }
            if !self.sending.is_untouched() {
                self.parts = None;
            }
        }
        let head = ready!(self.poll_answer(wire, cx));
        Poll::Ready(head.map_err(|failed| match self.refused.take() {
            Some(refused) => refused.into(),
            None => failed.into(),
        }))
    }

    /// The answer's head, behind those that only say that it will come.
    fn poll_answer(&self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<Result<Head, Nonsense>> {
        loop {
            while let Some(head) = head::read(&mut wire.buffer, self.is_asked_for_head)? {
                let status = head.response.status();
                if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
                    return Poll::Ready(Ok(head));
                }
            }
            if ready!(wire.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(Nonsense::Ended));
            }
        }
    }

    /// What is left of the request goes out beside its answer.
    fn answered(self, mut lease: Lease, head: Head, upload: Option<&Arc<Upload>>) -> Answer<B> {
        let Head {
            response,
            length,
            stays_open,
        } = head;
        let is_sent = self.sending.is_done();
        if !stays_open || !is_sent {
            lease.keep();
        }
        let rest = (!is_sent && self.refused.is_none()).then_some(self.sending);
        Answer {
            response: response.map(|()| Arriving::Http1(Received::new(lease, length, rest))),
            upload: upload.cloned(),
        }
    }

    /// Not answered: the request may be sent again only if none of it was written
    /// to a connection that had gone stale.
    fn failed(
        self,
        failed: BoxError,
        fresh: bool,
        upload: Option<&Upload>,
    ) -> Result<Attempt<B>, Fault> {
        let may_have_seen = !self.sending.is_untouched();
        let again = self.parts.filter(|_| !fresh && !may_have_seen);
        match again.zip(self.sending.body.rewound()) {
            Some((parts, body)) => Ok(Attempt::Again(parts, body, None)),
            None => Err(broken(failed, may_have_seen, upload)),
        }
    }
}
