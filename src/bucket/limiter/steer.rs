//! What changes a limit from outside, while requests wait in it?

use std::sync::Arc;
use std::time::Duration;

use super::{Limiter, Waiter};
use crate::bucket::place::{Evicted, Offer};
use crate::key::KeyId;
use crate::limit::Policy;
use crate::metrics::Reason;

impl Limiter {
    /// Another policy holds from now on, whoever waits keeps its place.
    pub fn change(self: &Arc<Self>, policy: Policy) {
        self.metrics
            .configured(policy.pace.rate().per_second(), policy.pace.burst());
        let pace = policy.pace;
        // A dry run counts those ahead as if they waited; elsewhere they do wait.
        let places = if policy.dry_run {
            pace.burst().saturating_sub(pace.delay())
        } else {
            0
        };
        self.policy.store(Arc::new(policy));
        let mut waiting = Vec::new();
        self.table.each(|key, bucket| {
            bucket.repace(&pace, places.saturating_add(1), self.clock.now());
            waiting.extend(bucket.first().map(|_| key));
        });
        for key in waiting {
            self.flow(key);
        }
        self.doors.open_all();
    }

    /// Lets nobody of a key go for `span`: its upstream asked for that.
    pub fn hold(self: &Arc<Self>, key: KeyId, span: Duration) {
        let held = self.with(key, |bucket, now| bucket.hold(now.after(span)));
        // A full table forgets a hold, as it refuses the requests that it is for.
        if let Ok(()) = held
            && self.store.is_some()
        {
            self.flow(key);
        }
    }

    /// Tells all who wait that they won't be served, and why.
    pub fn purge(self: &Arc<Self>, reason: Reason) {
        let mut told = Vec::new();
        let mut keys = Vec::new();
        let now = self.clock.now();
        self.table.each(|key, bucket| {
            if bucket.waiting() > 0 {
                told.extend(bucket.purge(now));
                keys.push(key);
            }
        });
        self.evict(told, reason);
        if self.store.is_some() {
            for key in keys {
                self.flow(key);
            }
        }
    }

    /// Tells those who waited why they won't be served.
    pub(in crate::bucket) fn evict(&self, told: Vec<Waiter>, reason: Reason) {
        for waiter in told {
            self.metrics.parted();
            self.metrics.refused(reason);
            // One that has left by itself needs no telling.
            let _left = waiter.offer.send(Offer::Evicted(Evicted { reason }));
        }
    }
}
