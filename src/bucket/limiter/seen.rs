//! How does a limit stand, and what is of no use any more?

use std::time::Duration;

use super::{Limiter, Waiter, tightest};
use crate::bucket::ask::Census;
use crate::key::KeyId;
use crate::limit::{Policy, Rule};
use crate::line::{Bucket, Pace};
use crate::units::{Moment, Remaining};

impl Limiter {
    /// What would be admitted now under a key, and when a request of this `cost` would.
    pub fn remaining(&self, key: KeyId, cost: u32, max_wait: Option<Duration>) -> Remaining {
        self.remaining_by(&self.policy.load(), key, cost, max_wait)
    }

    /// The same by a policy that was looked up before.
    pub fn remaining_by(
        &self,
        policy: &Policy,
        key: KeyId,
        cost: u32,
        max_wait: Option<Duration>,
    ) -> Remaining {
        let max_wait = tightest(policy.max_wait, max_wait);
        if !policy.rule_of(key).has_line()
            && let Some(left) = self.pauses.left_by(key, self.clock)
        {
            return Remaining {
                admits: 0,
                free_in: left,
                idle_in: left,
            };
        }
        if let Rule::Window(window) = policy.rule_of(key) {
            return self.remaining_in(policy, window, key, cost);
        }
        let pace = self.pace(policy, key);
        let known = self.with_known(key, |bucket, now| {
            bucket.remaining(&pace, cost, now, max_wait)
        });
        known.unwrap_or_else(|| {
            let now = self.clock.now();
            let mut bucket = Bucket::<Waiter>::new(&pace, now);
            bucket.pause(self.pauses.until(key, now), now);
            bucket.remaining(&pace, cost, now, max_wait)
        })
    }

    /// Forgets idle keys in the `part`th of `parts` parts.
    pub fn sweep(&self, part: usize, parts: usize) {
        let policy = self.policy.load();
        match &policy.rule {
            Rule::Pace(_) => {
                let now = self.clock.now();
                self.table.sweep(part, parts, |key, bucket| {
                    bucket.is_idle(&policy.rule_of(key).pace(), now)
                });
            }
            Rule::Window(window) => self.sweep_windows(&policy, window, part, parts),
        }
    }

    /// Looks at all keys, and tells the metrics.
    pub fn observe(&self) -> Census {
        let now = self.clock.now();
        let policy = self.policy.load();
        let (census, Fullest { left, of }) = match &policy.rule {
            Rule::Pace(_) => self.observe_buckets(&policy, now),
            Rule::Window(window) => self.observe_windows(&policy, window),
        };
        self.metrics.room(left, of);
        self.metrics
            .seen(census.buckets, census.longest, census.oldest);
        self.metrics.paused(self.pauses.left_for_all(now).is_some());
        census
    }

    /// What the buckets look like, and how full the fullest of them is.
    fn observe_buckets(&self, policy: &Policy, now: Moment) -> (Census, Fullest) {
        let idle = |pace: &Pace| {
            let bucket = Bucket::<Waiter>::new(pace, now);
            bucket.remaining(pace, 1, now, policy.max_wait).admits
        };
        let most = idle(&policy.rule.pace());
        let mut fullest = Fullest::default();
        let mut census = Census::default();
        self.table.each(|key, bucket| {
            let rule = policy.rule_of(key);
            let pace = rule.pace();
            let of = if *rule == policy.rule {
                most
            } else {
                idle(&pace)
            };
            let oldest = bucket
                .oldest()
                .map_or(Duration::ZERO, |joined| now.since(joined));
            census.buckets += 1;
            census.waiting += bucket.waiting();
            census.longest = census.longest.max(bucket.length());
            census.oldest = census.oldest.max(oldest);
            fullest.see(bucket.remaining(&pace, 1, now, policy.max_wait).admits, of);
        });
        (census, fullest)
    }
}

/// How much is left in the fullest bucket, and of how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fullest {
    left: u64,
    of: u64,
}

impl Fullest {
    /// One more bucket, in which so much is left of what an idle one has.
    pub(super) fn see(&mut self, left: u64, of: u64) {
        let [this, before] = [(left, self.of), (self.left, of)]
            .map(|(left, of)| u128::from(left).saturating_mul(of.into()));
        if this < before {
            *self = Self { left, of };
        }
    }
}

impl Default for Fullest {
    fn default() -> Self {
        Self { left: 1, of: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_is_the_one_with_the_least_part_left() {
        let mut fullest = Fullest::default();
        for (left, of) in [(100, 100), (3, 4), (50, 100), (2, 3), (0, 0)] {
            fullest.see(left, of);
        }
        assert_eq!((fullest.left, fullest.of), (50, 100));
        fullest.see(0, 7);
        assert_eq!((fullest.left, fullest.of), (0, 7));
    }
}
