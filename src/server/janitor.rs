//! Which connections stand still, and how many are there?

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::metrics::ConnectionMetrics;
use crate::peer::Peer;

/// How often connections are looked over: a timeout may last so much longer.
const ROUND: Duration = Duration::from_millis(500);

/// The connections of an instance, up to a bound.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    open: AtomicUsize,
    metrics: ConnectionMetrics,
}

/// One connection; counted until dropped.
#[derive(Debug)]
pub(super) struct Open(Arc<Connections>);

impl Connections {
    pub(super) fn new(most: usize, metrics: ConnectionMetrics) -> Arc<Self> {
        Arc::new(Self {
            most,
            open: AtomicUsize::new(0),
            metrics,
        })
    }

    /// One more, where there is room.
    pub(super) fn open(self: &Arc<Self>) -> Option<Open> {
        if self.open.fetch_add(1, Ordering::SeqCst) >= self.most {
            self.open.fetch_sub(1, Ordering::SeqCst);
            self.metrics.refused();
            return None;
        }
        self.metrics.opened();
        Some(Open(Arc::clone(self)))
    }

    /// How many are open.
    pub(super) fn count(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.metrics.closed();
    }
}

/// Looks over the connections of one runtime: no timer for each of them.
#[derive(Debug, Default)]
pub(super) struct Janitor(Mutex<Vec<Weak<Peer>>>);

impl Janitor {
    /// Watches one more.
    pub(super) fn watch(&self, peer: &Arc<Peer>) {
        self.0.lock().push(Arc::downgrade(peer));
    }

    /// Tells all that no more is taken than what they have asked.
    pub(super) fn dismiss(&self) {
        for peer in self.0.lock().iter().filter_map(Weak::upgrade) {
            peer.dismiss();
        }
    }

    /// Cuts those who made no progress for too long, forever.
    pub(super) async fn run(&self, connections: &Connections) {
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            self.0.lock().retain(|peer| {
                let Some(peer) = peer.upgrade() else {
                    return false;
                };
                let overdue = peer.is_overdue();
                if overdue {
                    connections.metrics.timed_out();
                    peer.cut();
                }
                !overdue
            });
        }
    }
}
