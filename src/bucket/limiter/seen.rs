//! How does a limit stand, and what is of no use any more?

use std::time::Duration;

use super::{Limiter, Waiter, tightest};
use crate::bucket::ask::Census;
use crate::key::KeyId;
use crate::limit::Rule;
use crate::line::{Bucket, Pace};
use crate::units::{Moment, Remaining};

impl Limiter {
    /// What would be admitted now under a key, and when a request of this `cost` would.
    pub fn remaining(&self, key: KeyId, cost: u32, max_wait: Option<Duration>) -> Remaining {
        let policy = self.policy.load();
        let max_wait = tightest(policy.max_wait, max_wait);
        let now = self.clock.now();
        let paused = self.pauses.left(key, now);
        if let (false, Some(left)) = (policy.rule.has_line(), paused) {
            return Remaining {
                admits: 0,
                free_in: left,
                idle_in: left,
            };
        }
        if let Rule::Window(window) = &policy.rule {
            return self.remaining_in(&policy, window, key, cost);
        }
        let pace = self.pace(&policy, key);
        let known = self.with_known(key, |bucket, now| {
            bucket.remaining(&pace, cost, now, max_wait)
        });
        known.unwrap_or_else(|| {
            let mut bucket = Bucket::<Waiter>::new(&pace, now);
            bucket.pause(self.pauses.until(key, now), now);
            bucket.remaining(&pace, cost, now, max_wait)
        })
    }

    /// Forgets idle keys in the `part`th of `parts` parts.
    pub fn sweep(&self, part: usize, parts: usize) {
        let policy = self.policy.load();
        match &policy.rule {
            Rule::Pace(pace) => {
                let now = self.clock.now();
                self.table
                    .sweep(part, parts, |bucket| bucket.is_idle(pace, now));
            }
            Rule::Window(window) => self.sweep_windows(window, part, parts),
        }
    }

    /// Looks at all keys, and tells the metrics.
    pub fn observe(&self) -> Census {
        let now = self.clock.now();
        let policy = self.policy.load();
        let (census, fewest, most) = match &policy.rule {
            Rule::Pace(pace) => self.observe_buckets(pace, policy.max_wait, now),
            Rule::Window(window) => self.observe_windows(window),
        };
        self.metrics.room(fewest, most);
        self.metrics
            .seen(census.buckets, census.longest, census.oldest);
        self.metrics.paused(self.pauses.left_for_all(now).is_some());
        census
    }

    /// What the buckets look like; how many the fullest admits, and an idle one.
    fn observe_buckets(
        &self,
        pace: &Pace,
        max_wait: Option<Duration>,
        now: Moment,
    ) -> (Census, u64, u64) {
        let most = Bucket::<Waiter>::new(pace, now).remaining(pace, 1, now, max_wait);
        let mut fewest = most.admits;
        let mut census = Census::default();
        self.table.each(|_, bucket| {
            let oldest = bucket
                .oldest()
                .map_or(Duration::ZERO, |joined| now.since(joined));
            census.buckets += 1;
            census.waiting += bucket.waiting();
            census.longest = census.longest.max(bucket.length());
            census.oldest = census.oldest.max(oldest);
            fewest = fewest.min(bucket.remaining(pace, 1, now, max_wait).admits);
        });
        (census, fewest, most.admits)
    }
}
