//! Which connection does the next request to an upstream take?

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::patience::Patience;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// A runtime's connections to one upstream that carry no request now. The one
/// used last is taken first, so that those that are not needed grow old.
#[derive(Debug)]
pub(super) struct Pool<B>(Arc<Mutex<VecDeque<Idle<B>>>>);

#[derive(Debug)]
struct Idle<B> {
    sender: SendRequest<B>,
    patience: Patience,
    since: Instant,
}

/// A connection under a request. It goes back to its pool once its answer has
/// been read to the end; dropped before, it is closed.
#[derive(Debug)]
pub(super) struct Lease<B> {
    pub(super) sender: SendRequest<B>,
    /// How long one waits for the upstream.
    pub(super) patience: Patience,
    pool: Weak<Mutex<VecDeque<Idle<B>>>>,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<B: Send + 'static> Pool<B> {
    /// An idle connection, where one is open.
    pub(super) fn take(&self) -> Option<Lease<B>> {
        let mut idle = self.0.lock();
        while let Some(unused) = idle.pop_back() {
            if unused.sender.is_ready() && unused.since.elapsed() < IDLE {
                return Some(self.lease(unused.sender, unused.patience));
            }
        }
        None
    }

    /// A connection that was just made.
    pub(super) fn lease(&self, sender: SendRequest<B>, patience: Patience) -> Lease<B> {
        Lease {
            sender,
            patience,
            pool: Arc::downgrade(&self.0),
        }
    }

    /// Closes connections that nobody needed for long.
    pub(super) fn sweep(&self) {
        let mut idle = self.0.lock();
        while idle
            .pop_front_if(|idle| idle.since.elapsed() >= IDLE || idle.sender.is_closed())
            .is_some()
        {}
    }
}

impl<B: Send + 'static> Lease<B> {
    /// The same, but no other request takes it afterwards.
    pub(super) fn alone(mut self) -> Self {
        self.pool = Weak::new();
        self
    }

    /// The answer has been read: the connection may carry the next request.
    pub(super) fn release(self) {
        if self.sender.is_ready() {
            self.put();
        } else if !self.sender.is_closed() {
            tokio::spawn(self.release_when_ready());
        }
    }

    /// hyper has yet to see that the answer has ended.
    async fn release_when_ready(mut self) {
        if self.sender.ready().await.is_ok() {
            self.put();
        }
    }

    fn put(self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.lock().push_back(Idle {
                sender: self.sender,
                patience: self.patience,
                since: Instant::now(),
            });
        }
    }
}
