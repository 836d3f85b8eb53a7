//! Which connections stand still?

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::metrics::ConnectionMetrics;
use crate::peer::Peer;

/// How often connections are looked over: a timeout may last so much longer.
const ROUND: Duration = Duration::from_millis(500);

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
    pub(super) async fn run(&self, metrics: &ConnectionMetrics) {
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
                    metrics.timed_out();
                    peer.cut();
                }
                !overdue
            });
        }
    }
}
