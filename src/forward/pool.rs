//! Which connection does the next request to an upstream take?

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;

use super::patience::Patience;

/// How many sweeps, one a second, an unused connection outlives.
const IDLE: u64 = 30;

/// A runtime's connections to one upstream that carry no request now. The one
/// used last is taken first, so that those that are not needed grow old.
#[derive(Debug)]
pub(super) struct Pool<B>(Arc<Mutex<Unused<B>>>);

#[derive(Debug)]
struct Unused<B> {
    connections: VecDeque<Lease<B>>,
    sweeps: u64,
}

/// A connection under a request. It goes back to its pool once its answer has
/// been read to the end; dropped before, it is closed.
pub(super) type Lease<B> = Box<Connection<B>>;

/// A connection to an upstream.
#[derive(Debug)]
pub(super) struct Connection<B> {
    pub(super) sender: SendRequest<B>,
    /// How long one waits for the upstream.
    pub(super) patience: Patience,
    pool: Weak<Mutex<Unused<B>>>,
    /// How many sweeps there had been when it was used last.
    used: u64,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Unused {
            connections: VecDeque::new(),
            sweeps: 0,
        })))
    }
}

impl<B: Send + 'static> Pool<B> {
    /// An idle connection, where one is open.
    pub(super) fn take(&self) -> Option<Lease<B>> {
        let connections = &mut self.0.lock().connections;
        loop {
            let unused = connections.pop_back()?;
            if unused.sender.is_ready() {
                return Some(unused);
            }
        }
    }

    /// A connection that was just made.
    pub(super) fn connection(&self, sender: SendRequest<B>, patience: Patience) -> Connection<B> {
        Connection {
            sender,
            patience,
            pool: Arc::downgrade(&self.0),
            used: 0,
        }
    }

    /// Closes connections that nobody needed for long.
    pub(super) fn sweep(&self) {
        let mut unused = self.0.lock();
        unused.sweeps = unused.sweeps.saturating_add(1);
        let oldest = unused.sweeps.saturating_sub(IDLE);
        while unused
            .connections
            .pop_front_if(|one| one.used < oldest || one.sender.is_closed())
            .is_some()
        {}
    }
}

impl<B: Send + 'static> Connection<B> {
    /// No other request takes it after this one.
    pub(super) fn keep(&mut self) {
        self.pool = Weak::new();
    }

    /// The answer has been read: the connection may carry the next request.
    pub(super) fn release(self: Box<Self>) {
        if self.sender.is_ready() {
            self.put();
        } else if !self.sender.is_closed() {
            tokio::spawn(self.release_when_ready());
        }
    }

    /// hyper has yet to see that the answer has ended.
    async fn release_when_ready(mut self: Box<Self>) {
        if self.sender.ready().await.is_ok() {
            self.put();
        }
    }

    fn put(mut self: Box<Self>) {
        if let Some(pool) = self.pool.upgrade() {
            let mut unused = pool.lock();
            self.used = unused.sweeps;
            unused.connections.push_back(self);
        }
    }
}
