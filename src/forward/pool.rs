//! Which connection does the next request to an upstream take?

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::http1::Wire;
use super::patience::Patience;

/// How many sweeps, one a second, an unused connection outlives.
const IDLE: u64 = 30;

/// A runtime's connections to one upstream that carry no request now. The one
/// used last is taken first, so that those that are not needed grow old.
#[derive(Debug, Default)]
pub(super) struct Pool(Arc<Mutex<Unused>>);

#[derive(Debug, Default)]
struct Unused {
    connections: VecDeque<Lease>,
    sweeps: u64,
}

/// A connection under a request. It goes back to its pool once its answer has
/// been read to the end; dropped before, it is closed.
pub(super) type Lease = Box<Connection>;

/// A connection to an upstream that speaks HTTP/1.1.
#[derive(Debug)]
pub(super) struct Connection {
    wire: Wire,
    /// How long one waits for the upstream.
    patience: Patience,
    pool: Weak<Mutex<Unused>>,
    /// How many sweeps there had been when it was used last.
    used: u64,
}

impl Pool {
    /// An idle connection, where one is open on which nothing came unasked.
    pub(super) fn take(&self) -> Option<Lease> {
        let connections = &mut self.0.lock().connections;
        loop {
            let mut unused = connections.pop_back()?;
            if unused.wire.is_quiet() {
                return Some(unused);
            }
        }
    }

    /// A connection that was just made.
    pub(super) fn lease(&self, wire: Wire, patience: Patience) -> Lease {
        Box::new(Connection {
            wire,
            patience,
            pool: Arc::downgrade(&self.0),
            used: 0,
        })
    }

    /// Closes connections that nobody needed for long, and those that ended.
    pub(super) fn sweep(&self) {
        let unused = &mut *self.0.lock();
        unused.sweeps = unused.sweeps.saturating_add(1);
        let oldest = unused.sweeps.saturating_sub(IDLE);
        unused.connections.retain_mut(|one| {
            one.wire.shrink();
            one.used >= oldest && one.wire.is_quiet()
        });
    }
}

impl Connection {
    pub(super) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    pub(super) fn patience(&mut self) -> &mut Patience {
        &mut self.patience
    }

    pub(super) fn wire_and_patience(&mut self) -> (&mut Wire, &mut Patience) {
        (&mut self.wire, &mut self.patience)
    }

    /// What is left when HTTP has ended.
    pub(super) fn into_wire(self: Box<Self>) -> Wire {
        self.wire
    }

    /// No other request takes it after this one.
    pub(super) fn keep(&mut self) {
        self.pool = Weak::new();
    }

    /// The answer has been read: the connection may carry the next request.
    pub(super) fn release(mut self: Box<Self>) {
        if let Some(pool) = self.pool.upgrade() {
            let mut unused = pool.lock();
            self.used = unused.sweeps;
            unused.connections.push_back(self);
        }
    }
}
