//! May one pass by what the store said a moment ago?

use std::sync::Arc;
use std::time::Duration;

use super::ask::{Ask, Entry, Refusal, Usable};
use super::limiter::Limiter;
use super::place::{Held, Turn};
use crate::key::KeyId;
use crate::limit::Policy;
use crate::line::Pace;
use crate::store::RedisStore;

/// What passed is told so early, in parts of the span, that nobody has to ask meanwhile.
const EARLY: f64 = 0.75;

impl Limiter {
    /// Lets a request pass or refuses it by the store's last answer, where the limit
    /// allows that; `None` where the store must be asked.
    pub(super) fn decide_between(
        self: &Arc<Self>,
        policy: &Policy,
        ask: &Ask<'_>,
    ) -> Option<Result<Entry, Refusal>> {
        let rule = policy.rule_of(ask.key);
        let sync = policy
            .sync
            .filter(|_| !rule.has_line() && !policy.dry_run)?;
        let decided = self.with_known(ask.key, |bucket, now| {
            bucket.pass_between(&rule.pace(), ask.cost, now, sync)
        });
        let (loan, must_settle) = match decided.flatten()? {
            Ok(passed) => passed,
            Err(crowded) => return Some(Err(Refusal::crowded(policy, ask.key, crowded))),
        };
        if must_settle {
            self.settle_in(sync.mul_f64(EARLY), ask.key);
        }
        let turn = Turn::at_once(self, ask.key, Held::Slot(loan), ask.cost, ask.timer);
        if ask.usable != Usable::ForGood {
            return Some(Ok(Entry::Turn(turn)));
        }
        turn.settle();
        Some(Ok(Entry::Passed))
    }

    /// Tells the store after a while what has passed here.
    fn settle_in(self: &Arc<Self>, span: Duration, key: KeyId) {
        let limiter = Arc::clone(self);
        if let Some(store) = &self.store {
            store.spawn(async move {
                tokio::time::sleep(span).await;
                limiter.with_known(key, |bucket, _| bucket.settle_up());
                limiter.flow(key);
            });
        }
    }
}

/// How long a bucket takes to fill up again that each instance has emptied by itself.
pub(super) fn all_debt(pace: &Pace, store: &RedisStore) -> Duration {
    let slots = pace.delay().saturating_add(1);
    let emptied = pace.interval().saturating_mul(slots);
    emptied.saturating_mul(store.instances())
}
