//! How does a limit talk with the store in which its buckets are shared?

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

use super::ask::{Ask, Entry, Refusal};
use super::between::all_debt;
use super::limiter::{Limiter, Waiter, Wake};
use super::place::{Asked, Place};
use crate::key::KeyId;
use crate::limit::{Policy, Rule};
use crate::line::Call;
use crate::metrics::Reason;
use crate::store::{BucketName, StoreError, TableFull};
use crate::units::Moment;

/// How long a bucket goes by itself that the store does not answer, though it
/// answers others.
pub(super) const PENANCE: Duration = Duration::from_secs(1);

impl Limiter {
    /// Asks the store for a place, together with all who ask for the same bucket.
    pub(super) fn ask_store(
        self: &Arc<Self>,
        policy: &Policy,
        ask: Ask<'_>,
        max_wait: Option<Duration>,
    ) -> Result<Entry, Refusal> {
        if let Some(decided) = self.decide_between(policy, &ask) {
            return decided;
        }
        let rule = policy.rule_of(ask.key);
        if policy.dry_run {
            let counted = self.with(ask.key, |bucket, now| {
                bucket.attach(&rule.pace(), now);
                bucket.count(ask.cost, max_wait, now);
            });
            if counted == Err(TableFull) {
                self.metrics.would_refuse(Reason::Keys);
            }
            self.flow(ask.key);
            return Ok(Entry::Passed);
        }
        let in_crowd = self
            .crowd
            .join()
            .ok_or_else(|| Refusal::shared(policy, Reason::Full))?;
        let (offer, offered) = oneshot::channel();
        let (place, placed) = oneshot::channel();
        let waiter = Waiter {
            offer,
            placed: Some(place),
            timer: ask.timer.clone(),
            gate: ask.gate,
            _in_crowd: in_crowd,
        };
        let ticket = self.with(ask.key, |bucket, now| {
            bucket.attach(&rule.pace(), now);
            bucket.want(ask.cost, max_wait, now, waiter)
        });
        let ticket = ticket.map_err(|TableFull| Refusal::shared(policy, Reason::Keys))?;
        self.metrics.joined();
        let place = Place::new(self, ask.key, ticket, offered);
        self.flow(ask.key);
        Ok(Entry::Asked(Asked::place(place, placed)))
    }

    /// Hears how a bucket stands that this instance may know nothing of, so that a
    /// refusal elsewhere can tell when it has room.
    pub(super) async fn look(self: &Arc<Self>, key: KeyId) {
        let policy = self.policy.load_full();
        let Some(store) = self
            .store
            .as_ref()
            .filter(|_| !policy.rule_of(key).has_line())
        else {
            return;
        };
        let pace = match policy.rule_of(key) {
            Rule::Pace(pace) => pace,
            Rule::Window(window) => return self.look_at_window(&policy, window, key).await,
        };
        let name = BucketName {
            limit: &policy.name,
            key,
        };
        if !store.is_up(name) {
            return;
        }
        let nothing = Call::default();
        if let Ok(Some(answer)) = store.token_bucket(name, pace, &nothing).await {
            // A full table knows nothing of it, as before.
            let _full = self.with(key, |bucket, now| {
                bucket.attach(pace, now);
                bucket.seen(&answer);
            });
        }
    }

    /// Others left a line: those who wait here move up.
    pub fn hurry(self: &Arc<Self>, key: KeyId, intervals: u32) {
        if self
            .with_known(key, |bucket, _| bucket.hurry(intervals))
            .is_some()
        {
            self.flow(key);
        }
        self.doubt(key);
    }

    /// Says to the store what is so, and takes in what it answers.
    pub(super) fn say(self: &Arc<Self>, key: KeyId, number: u64, call: Call) {
        let exchange = Arc::clone(self).exchange(key, number, call);
        if let Some(store) = &self.store {
            store.spawn(exchange);
        }
    }

    /// A call is due, and nobody waits whose timer could ring for it.
    pub(super) fn call_later(self: &Arc<Self>, when: Moment, key: KeyId) {
        let limiter = Arc::clone(self);
        let due = self.clock.instant(when);
        if let Some(store) = &self.store {
            store.spawn(async move {
                tokio::time::sleep_until(due).await;
                Self::rang(when, Wake { limiter, key });
            });
        }
    }

    async fn exchange(self: Arc<Self>, key: KeyId, number: u64, call: Call) {
        let Some(store) = &self.store else { return };
        let policy = self.policy.load_full();
        let name = BucketName {
            limit: &policy.name,
            key,
        };
        let pace = policy.rule_of(key).pace();
        let has_line = pace.has_line() && !policy.dry_run;
        let call = Call {
            debt: policy
                .sync
                .map_or(Duration::ZERO, |_| all_debt(&pace, store)),
            ..call
        };
        let answer = if has_line || call.has_tickets {
            store.leaky_bucket(name, &pace, number, &call).await
        } else {
            store.token_bucket(name, &pace, &call).await
        };
        let error = match answer {
            Ok(Some(answer)) => {
                let heard = self.with_known(key, |bucket, now| {
                    Some((bucket.answered(&pace, number, &answer)?, now))
                });
                if let Some((heard, now)) = heard.flatten() {
                    self.tell(&policy, key, &pace, heard, now);
                }
                return;
            }
            Ok(None) => {
                self.with_known(key, |bucket, now| bucket.say_again(number, now));
                return self.flow(key);
            }
            Err(error) => error,
        };
        self.unanswered(&policy, key, number, &error);
    }

    /// The call of this `number` has no answer, and won't have one.
    pub(super) fn unanswered(
        self: &Arc<Self>,
        policy: &Policy,
        key: KeyId,
        number: u64,
        error: &StoreError,
    ) {
        let waited_for = self.with_known(key, |bucket, now| {
            let waited_for = bucket.is_calling(number);
            if waited_for && !error.is_outage() {
                bucket.retry(now.after(PENANCE));
            }
            waited_for
        });
        if waited_for != Some(true) {
            return;
        }
        if !error.is_outage() {
            warn!(limit = %policy.name, key = %key, error = %error, "a bucket goes without the store");
        }
        self.align(policy, key);
        // Where the store was found again before this was looked at, nobody has parted
        // with it: what nobody will answer any more must not be waited for.
        self.with_known(key, |bucket, now| bucket.say_again(number, now));
        self.flow(key);
    }
}
