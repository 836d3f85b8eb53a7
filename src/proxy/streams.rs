//! Which answers over HTTP/2 does nobody take?
//!
//! Over HTTP/1.1 a client that takes nothing fills its socket, and the connection
//! has a deadline for that. In HTTP/2 it closes one stream's window instead: the
//! connection goes on, and hyper asks for no more of that one answer.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use metrics::Counter;
use parking_lot::Mutex;

use super::outgoing::Answer;
use crate::forward::BodyError;
use crate::peer::{Deadline, Peer};

/// The answers of one runtime that wait for their clients.
#[derive(Debug, Default)]
pub struct Streams(Mutex<Vec<Weak<Lent>>>);

/// An answer that can be taken back from a client which doesn't take it.
#[derive(Debug)]
pub(super) struct Lent {
    /// Held to look at the answer, by its one reader or by the sweep.
    answer: Mutex<Option<Answer>>,
    /// For the client to take what it was given.
    deadline: Deadline,
    peer: Arc<Peer>,
}

impl Streams {
    /// Lends an answer to a client, for as long as it may take nothing of it.
    pub(super) fn lend(&self, answer: Answer, peer: Arc<Peer>) -> Arc<Lent> {
        let lent = Arc::new(Lent {
            answer: Mutex::new(Some(answer)),
            deadline: Deadline::default(),
            peer,
        });
        self.0.lock().push(Arc::downgrade(&lent));
        lent
    }

    /// Takes back what was lent too long: its permit, its place in the connection's
    /// count and its upstream's connection are free again. A client that took nothing
    /// of any answer meanwhile would do the same with the next: it loses all.
    pub fn sweep(&self, untaken: &Counter) {
        self.0.lock().retain(|lent| {
            let Some(lent) = lent.upgrade() else {
                return false;
            };
            let is_over = lent.deadline.is_over();
            if is_over && lent.answer.lock().take().is_some() {
                untaken.increment(1);
                if !lent.peer.takes() {
                    lent.peer.cut();
                }
            }
            !is_over
        });
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // What is dropped in time was taken to its end, or given up by its client.
        if self.deadline.is_set() && !self.deadline.is_over() {
            self.peer.took();
        }
    }
}

impl Lent {
    pub(super) fn poll_frame(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        // Whoever asks for more has taken what came before.
        if self.deadline.is_set() {
            self.peer.took();
            self.deadline.clear();
        }
        let mut answer = self.answer.lock();
        let Some(lent) = &mut *answer else {
            return Poll::Ready(Some(Err(BodyError::Stalled(self.peer.write_timeout()))));
        };
        let frame = ready!(Pin::new(lent).poll_frame(cx));
        if frame.is_some() {
            self.deadline.set(self.peer.write_timeout());
        }
        Poll::Ready(frame)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let answer = self.answer.lock();
        answer.as_ref().is_some_and(Answer::is_end_stream)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let answer = self.answer.lock();
        answer
            .as_ref()
            .map_or_else(SizeHint::new, Answer::size_hint)
    }
}
