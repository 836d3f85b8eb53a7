//! Which connections stand still?

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::metrics::ConnectionMetrics;
use crate::peer::Peer;

/// How often connections are looked over: a timeout may last so much longer.
const ROUND: Duration = Duration::from_millis(500);

/// Looks over the connections of one runtime: no timer for each of them.
#[derive(Debug, Default)]
pub(super) struct Janitor {
    peers: Mutex<Vec<Weak<Peer>>>,
    /// Told of each that comes: with nobody to watch it sleeps.
    came: Notify,
}

impl Janitor {
    /// Watches one more.
    pub(super) fn watch(&self, peer: &Arc<Peer>) {
        self.peers.lock().push(Arc::downgrade(peer));
        self.came.notify_one();
    }

    /// Tells all that no more is taken than what they have asked.
    pub(super) fn dismiss(&self) {
        for peer in self.peers.lock().iter().filter_map(Weak::upgrade) {
            peer.dismiss();
        }
    }

    /// Cuts those who made no progress for too long, forever.
    pub(super) async fn run(&self, metrics: &ConnectionMetrics) {
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if self.peers.lock().is_empty() {
                self.came.notified().await;
                rounds.reset();
            }
            rounds.tick().await;
            self.peers.lock().retain(|peer| {
                let Some(peer) = peer.upgrade() else {
                    return false;
                };
                let overdue = peer.is_overdue();
                if overdue {
                    metrics.timed_out();
                    peer.cut();
                }
                !overdue
            });
        }
    }
}
