//! Who says whose turn it is: the store, or this instance by itself?

use std::sync::Arc;
use std::time::Duration;

use super::ask::Refusal;
use super::limiter::{Limiter, Waiter};
use super::place::Offer;
use crate::key::KeyId;
use crate::limit::{OnFailure, Policy};
use crate::line::{Bucket, Crowded, Heard, Pace, Unplaced, Verdict};
use crate::metrics::Reason;
use crate::store::{BucketName, RedisStore};
use crate::units::Moment;

/// How a bucket is kept at present.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    /// In the store.
    Shared,
    /// Here, at this pace: there is no store, or it is away.
    Alone(Pace),
    /// Not at all: the store is away, and nobody may go without it.
    Closed,
}

impl Limiter {
    /// How a bucket is kept from now on; those who wait in it move over in order.
    pub(super) fn align(self: &Arc<Self>, policy: &Policy, key: KeyId) -> Standing {
        self.keep(policy, key, self.standing(policy, key))
    }

    /// Keeps a bucket as it stood a moment ago.
    pub(super) fn keep(
        self: &Arc<Self>,
        policy: &Policy,
        key: KeyId,
        standing: Standing,
    ) -> Standing {
        if self.store.is_none() {
            return standing;
        }
        match &standing {
            Standing::Shared => {
                self.with_known(key, |bucket, now| {
                    if bucket.is_engaged() {
                        bucket.attach(&policy.rule_of(key).pace(), now);
                    }
                });
            }
            Standing::Alone(pace) => self.part_with_store(policy, key, pace),
            Standing::Closed => {
                let told = self.with_known(key, Bucket::purge);
                self.part_with_store(policy, key, &policy.rule_of(key).pace());
                self.evict(told.unwrap_or_default(), Reason::Store);
            }
        }
        // Where the store was found again meanwhile, whoever brought all buckets back may
        // have been here before this one parted.
        let is_back = !matches!(standing, Standing::Shared)
            && matches!(self.standing(policy, key), Standing::Shared);
        if is_back {
            return self.keep(policy, key, Standing::Shared);
        }
        standing
    }

    /// The pace at which a bucket is drained at present.
    pub(super) fn pace(&self, policy: &Policy, key: KeyId) -> Pace {
        match self.standing(policy, key) {
            Standing::Alone(pace) => pace,
            Standing::Shared | Standing::Closed => policy.rule_of(key).pace(),
        }
    }

    /// The store went away or came back, or news may have been missed.
    pub fn realign(self: &Arc<Self>) {
        if self.store.is_none() {
            return;
        }
        self.recount();
        let policy = self.policy.load_full();
        let mut engaged = Vec::new();
        self.table
            .each(|key, bucket| engaged.extend(bucket.is_engaged().then_some(key)));
        for key in engaged {
            self.align(&policy, key);
            self.with_known(key, |bucket, _| bucket.ask_anew());
            self.flow(key);
        }
    }

    fn standing(&self, policy: &Policy, key: KeyId) -> Standing {
        let Some(store) = &self.store else {
            return Standing::Alone(policy.rule_of(key).pace());
        };
        let is_odd = || self.with_known(key, |bucket, now| !bucket.retries(now)) == Some(true);
        match without_store(store, policy, key, is_odd) {
            None => Standing::Shared,
            Some(OnFailure::Local) => {
                Standing::Alone(policy.rule_of(key).pace().share(store.instances()))
            }
            // A pause holds whatever the store does.
            Some(OnFailure::Open) if self.pauses.left(key, self.clock.now()).is_some() => {
                Standing::Alone(policy.rule_of(key).pace())
            }
            Some(OnFailure::Open) => Standing::Alone(Pace::open()),
            Some(OnFailure::Closed) => Standing::Closed,
        }
    }

    /// From now on a bucket is kept here.
    fn part_with_store(self: &Arc<Self>, policy: &Policy, key: KeyId, pace: &Pace) {
        let rank = self.store.as_ref().map_or(0, |store| store.rank());
        let behind = policy.rule_of(key).pace().interval().saturating_mul(rank);
        let parted = self.with_known(key, |bucket, now| {
            if bucket.is_attached() && pace.is_open() {
                bucket.forgive(pace, now);
            }
            Some((bucket.detach(pace, behind, now)?, now))
        });
        if let Some((heard, now)) = parted.flatten() {
            self.tell(policy, key, pace, heard, now);
        }
    }

    /// Tells those who asked what became of it, but for those whose turn it is.
    pub(super) fn tell(
        self: &Arc<Self>,
        policy: &Policy,
        key: KeyId,
        pace: &Pace,
        heard: Heard<Waiter>,
        now: Moment,
    ) {
        for unplaced in heard.refused {
            let Unplaced {
                waiter,
                cost,
                max_wait,
            } = unplaced;
            let verdict =
                self.with_known(key, |bucket, _| bucket.verdict(pace, cost, now, max_wait));
            let crowded = match verdict {
                Some(Verdict::Refused(crowded)) => crowded,
                Some(Verdict::Admitted(_)) | None => Crowded::Full(pace.interval()),
            };
            self.parted(key);
            let refusal = Refusal::crowded(policy, key, crowded);
            // One that has left by itself needs no telling.
            let _left = waiter.offer.send(Offer::Refused(refusal));
        }
        let is_short = |most: Duration| most < policy.rule_of(key).longest_wait();
        let crowded = if policy.max_wait.is_some_and(is_short) {
            Crowded::MaxWait(Duration::ZERO)
        } else {
            Crowded::Full(Duration::ZERO)
        };
        for _ in 0..heard.would_refuse {
            self.metrics
                .would_refuse(Refusal::crowded(policy, key, crowded).reason);
        }
        // Those whose turn it is hear of that first.
        self.flow(key);
        for ticket in heard.admitted {
            let placed = self.with_known(key, |bucket, _| bucket.waiter_mut(ticket)?.placed.take());
            // As above.
            let _left = placed.flatten().map(|placed| placed.send(()));
        }
    }
}

/// What holds instead of the store's word, where it is away or the key is odd.
pub(super) fn without_store(
    store: &RedisStore,
    policy: &Policy,
    key: KeyId,
    is_odd: impl FnOnce() -> bool,
) -> Option<OnFailure> {
    let name = BucketName {
        limit: &policy.name,
        key,
    };
    let away = !store.is_up(name) || is_odd();
    away.then(|| policy.on_failure.unwrap_or(store.config().on_failure))
}
