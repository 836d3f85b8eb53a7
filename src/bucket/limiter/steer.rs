//! What changes a limit from outside, while requests wait in it?

use std::sync::Arc;
use std::time::Duration;

use super::{Limiter, Waiter};
use crate::bucket::pauses::TooManyPaused;
use crate::bucket::place::{Evicted, Offer};
use crate::key::KeyId;
use crate::limit::Policy;
use crate::line::Bucket;
use crate::metrics::Reason;
use crate::units::Moment;

impl Limiter {
    /// Another policy holds from now on, whoever waits keeps its place.
    pub fn change(self: &Arc<Self>, policy: Policy) {
        self.metrics
            .configured(policy.rule.per_second(), policy.rule.burst());
        let mut waiting = Vec::new();
        let policy = Arc::new(policy);
        self.policy.store(Arc::clone(&policy));
        self.table.each(|key, bucket| {
            let pace = policy.rule_of(key).pace();
            // A dry run counts those ahead as if they waited; elsewhere they do wait.
            let places = if policy.dry_run {
                pace.burst().saturating_sub(pace.delay())
            } else {
                0
            };
            bucket.repace(&pace, places.saturating_add(1), self.clock.now());
            waiting.extend(bucket.first().map(|_| key));
        });
        for key in waiting {
            self.flow(key);
        }
        self.doors.open_all();
        // What the store said was said of another limit.
        self.windows.each(|_, tally| tally.doubt());
    }

    /// The same pauses hold here as in the limit that had the name before.
    pub fn succeed(&self, before: &Self) {
        self.pauses.take_over(&before.pauses);
        let paused = self.pauses.left_for_all(self.clock.now());
        self.metrics.paused(paused.is_some());
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

    /// Lets nobody of a key go before `end`, or nobody at all; at once where that is
    /// past. Those who wait keep their places.
    pub fn pause(self: &Arc<Self>, key: Option<KeyId>, end: Moment) -> Result<(), TooManyPaused> {
        if !self.pauses.set(key, end, self.clock.now())? {
            return Ok(());
        }
        let mut waiting = Vec::new();
        match key {
            Some(key) => waiting.push(key),
            None => self
                .table
                .each(|key, bucket| waiting.extend(bucket.is_engaged().then_some(key))),
        }
        for key in waiting {
            // The store hears of it with the next call, which is now.
            if self
                .with_known(key, |bucket, _| bucket.ask_anew())
                .is_some()
            {
                self.flow(key);
            }
        }
        let paused = self.pauses.left_for_all(self.clock.now());
        self.metrics.paused(paused.is_some());
        Ok(())
    }

    /// The same for a span from now; ends a pause where that is zero.
    pub fn pause_for(
        self: &Arc<Self>,
        key: Option<KeyId>,
        span: Duration,
    ) -> Result<(), TooManyPaused> {
        self.pause(key, self.clock.now().after(span))
    }

    /// For how long yet a key may not go, or nobody at all.
    pub fn paused_for(&self, key: Option<KeyId>) -> Option<Duration> {
        let now = self.clock.now();
        key.map_or_else(
            || self.pauses.left_for_all(now),
            |key| self.pauses.left(key, now),
        )
    }

    /// The keys that are paused by themselves, and for how long yet.
    pub fn paused_keys(&self) -> Vec<(KeyId, Duration)> {
        self.pauses.keys(self.clock.now())
    }

    /// Tells all who wait, or those of a key, that they won't be served, and why;
    /// says how many they were.
    pub fn purge(self: &Arc<Self>, key: Option<KeyId>, reason: Reason) -> usize {
        let mut told = Vec::new();
        let mut keys = Vec::new();
        let now = self.clock.now();
        let mut empty = |key, bucket: &mut Bucket<Waiter>| {
            if bucket.waiting() > 0 {
                told.extend(bucket.purge(now));
                keys.push(key);
            }
        };
        match key {
            Some(key) => {
                self.table.with_known(key, |bucket| empty(key, bucket));
            }
            None => self.table.each(empty),
        }
        let count = told.len();
        self.evict(told, reason);
        for key in keys {
            self.doors().open(key);
            if self.store.is_some() {
                self.flow(key);
            }
        }
        count
    }

    /// Tells those who waited why they won't be served.
    pub(in crate::bucket) fn evict(&self, told: Vec<Waiter>, reason: Reason) {
        for waiter in told {
            self.metrics.parted();
            self.metrics.refused(reason);
            // One that has left by itself needs no telling.
            let _left = waiter.offer.send(Offer::Evicted(Evicted::soon(reason)));
        }
    }
}
