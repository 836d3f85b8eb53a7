//! Who says whether one may pass a window that instances share?
//!
//! The store counts. While it is away each instance counts by itself, with its part of
//! the limit, and tells the store afterwards.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

use super::{Asker, Limiter};
use crate::bucket::ask::{Ask, Entry, Refusal};
use crate::bucket::exchange::PENANCE;
use crate::bucket::place::{Asked, Held, Offer, Turn};
use crate::bucket::standing::without_store;
use crate::key::KeyId;
use crate::limit::{OnFailure, Policy, Rule};
use crate::line::Crowded;
use crate::metrics::Reason;
use crate::store::{BucketName, RedisStore, StoreError, TableFull};
use crate::window::{Call, Heard, Tally, Want, Window};

/// Who says whether one may pass at present.
enum Counting {
    Store,
    /// This instance, with its part.
    Here(Window),
    /// Nobody: all pass.
    Open,
    /// Nobody: none passes.
    Closed,
}

impl Limiter {
    /// Lets a request pass, refuses it, or asks the store, together with all who ask for
    /// the same key.
    pub(super) fn ask_shared_window(
        self: &Arc<Self>,
        store: &Arc<RedisStore>,
        policy: &Policy,
        window: &Window,
        ask: &Ask<'_>,
    ) -> Result<Entry, Refusal> {
        let key = ask.key;
        match self.counting(store, policy, window, key) {
            Counting::Store => (),
            Counting::Here(part) => {
                self.part_with(store, policy, window, key, &part);
                let now = self.time(policy, window, key);
                let alone = self.with_tally(window, key, now, |tally| {
                    tally.ask_alone(&part, now, ask.cost)
                });
                return self.pass_or_refuse(policy, ask, alone);
            }
            Counting::Closed if policy.dry_run => {
                self.metrics.would_refuse(Reason::Store);
                return Ok(Entry::Passed);
            }
            Counting::Closed => return Err(Refusal::shared(policy, Reason::Store)),
            Counting::Open => {
                self.count(&Entry::Passed, ask.cost);
                return Ok(Entry::Passed);
            }
        }
        let now = self.time(policy, window, key);
        let refusal = |tally: &mut Tally<Asker>| tally.refusal(window, now, ask.cost);
        if let Some(free) = self.windows.with_known(key, refusal).flatten() {
            return self.refuse(policy, ask.key, Crowded::Full(free));
        }
        if let Some(sync) = policy.sync
            && let Some(Some((verdict, owes))) = self
                .windows
                .with_known(key, |tally| tally.ask_between(window, now, ask.cost, sync))
        {
            if owes {
                // Early enough that nobody has to ask meanwhile.
                self.tell_store_in(sync.mul_f64(0.75), key);
            }
            return self.pass_or_refuse(policy, ask, Ok(verdict));
        }
        if policy.dry_run {
            let asked = self.with_tally(window, key, now, |tally| {
                tally.attach();
                tally.want(ask.cost, None);
            });
            if asked == Err(TableFull) {
                self.metrics.would_refuse(Reason::Keys);
            }
            self.tell_store(key);
            return Ok(Entry::Passed);
        }
        let in_crowd = self
            .crowd
            .join()
            .ok_or_else(|| Refusal::shared(policy, Reason::Full))?;
        let (offer, offered) = oneshot::channel();
        let asker = Asker {
            offer,
            timer: ask.timer.clone(),
            _in_crowd: in_crowd,
        };
        self.with_tally(window, key, now, |tally| {
            tally.attach();
            tally.want(ask.cost, Some(asker));
        })
        .map_err(|TableFull| Refusal::shared(policy, Reason::Keys))?;
        self.tell_store(key);
        Ok(Entry::Asked(Asked::window(offered)))
    }

    /// Says to the store whatever there is to say of a key, where no call is under way
    /// that will be followed by another.
    pub(super) fn tell_store(self: &Arc<Self>, key: KeyId) {
        let Some(store) = &self.store else { return };
        if let Some((number, call)) = self.next_call(store, key) {
            let exchange = Arc::clone(self).exchange_window(key, number, call);
            store.spawn(exchange);
        }
    }

    /// The same a little later, for what is counted here.
    fn tell_store_in(self: &Arc<Self>, span: Duration, key: KeyId) {
        let Some(store) = &self.store else { return };
        let limiter = Arc::clone(self);
        store.spawn(async move {
            tokio::time::sleep(span).await;
            limiter.windows.with_known(key, Tally::settle);
            limiter.tell_store(key);
        });
    }

    /// The store's last answer may be outdated: somebody gave back what it counted.
    pub(in crate::bucket) fn doubt(&self, key: KeyId) {
        self.windows.with_known(key, Tally::doubt);
    }

    /// The store went away or came back, or news may have been missed.
    pub(in crate::bucket) fn recount(self: &Arc<Self>) {
        let Some(store) = &self.store else { return };
        let mut telling = Vec::new();
        self.windows.each(|key, tally| {
            tally.doubt();
            telling.extend(tally.is_telling().then_some(key));
        });
        if telling.is_empty() {
            return;
        }
        // One after the other: a store that has just come back is not to be flooded.
        let limiter = Arc::clone(self);
        store.spawn(async move {
            for key in telling {
                limiter.say_or_decide(key).await;
            }
        });
    }

    /// Hears how a key stands that this instance may know nothing of, so that a refusal
    /// elsewhere can tell when it has room.
    pub(in crate::bucket) async fn look_at_window(
        self: &Arc<Self>,
        policy: &Policy,
        window: &Window,
        key: KeyId,
    ) {
        let Some(store) = &self.store else { return };
        if !matches!(self.counting(store, policy, window, key), Counting::Store) {
            return;
        }
        let now = self.time(policy, window, key);
        // A full table knows nothing of it, as before.
        let _full = self.with_tally(window, key, now, |tally| {
            tally.attach();
            tally.look();
        });
        if let Some((number, call)) = self.next_call(store, key) {
            Arc::clone(self).exchange_window(key, number, call).await;
        }
    }

    /// The part of the limit that holds here at present.
    pub(super) fn present_part(&self, policy: &Policy, window: &Window, key: KeyId) -> Window {
        let counting = self
            .store
            .as_ref()
            .map(|store| self.counting(store, policy, window, key));
        match counting {
            Some(Counting::Here(part)) => part,
            None | Some(Counting::Store | Counting::Open | Counting::Closed) => *window,
        }
    }

    fn counting(
        &self,
        store: &RedisStore,
        policy: &Policy,
        window: &Window,
        key: KeyId,
    ) -> Counting {
        let now = self.clock.now();
        let is_odd = || self.windows.with_known(key, |tally| !tally.retries(now)) == Some(true);
        match without_store(store, policy, key, is_odd) {
            None => Counting::Store,
            Some(OnFailure::Local) => Counting::Here(window.share(store.instances(), store.rank())),
            Some(OnFailure::Open) => Counting::Open,
            Some(OnFailure::Closed) => Counting::Closed,
        }
    }

    /// From now on this instance counts by itself; those who have no answer yet are
    /// decided here.
    fn part_with(
        self: &Arc<Self>,
        store: &RedisStore,
        policy: &Policy,
        window: &Window,
        key: KeyId,
        part: &Window,
    ) {
        let now = self.time(policy, window, key);
        let heard = self.windows.with_known(key, |tally| {
            let undecided = tally.detach(window, store.instances(), store.rank());
            tally.decide(part, now, undecided)
        });
        self.answer(policy, key, heard.unwrap_or_default());
    }

    fn next_call(&self, store: &RedisStore, key: KeyId) -> Option<(u64, Call)> {
        self.windows
            .with_known(key, |tally| {
                tally.call(|| store.number(), |asker| asker.offer.is_closed())
            })
            .flatten()
    }

    /// Makes one call after the other for a key, as long as there is something to say.
    async fn exchange_window(self: Arc<Self>, key: KeyId, mut number: u64, mut call: Call) {
        let Some(store) = &self.store else { return };
        loop {
            let policy = self.policy.load_full();
            let Rule::Window(window) = policy.rule_of(key) else {
                return;
            };
            let name = BucketName {
                limit: &policy.name,
                key,
            };
            match store.window(name, window, &call).await {
                Ok(answer) => {
                    let now = self.time(&policy, window, key);
                    let heard = self
                        .windows
                        .with_known(key, |tally| tally.answered(number, window, &answer, now));
                    self.answer(&policy, key, heard.flatten().unwrap_or_default());
                }
                Err(error) => {
                    self.not_counted(&policy, key, number, &error);
                    if !self.decide(store, &policy, window, key) {
                        return;
                    }
                }
            }
            match self.next_call(store, key) {
                Some(next) => (number, call) = next,
                None => return,
            }
        }
    }

    /// Says to the store what is so of a key, or goes on without it.
    async fn say_or_decide(self: &Arc<Self>, key: KeyId) {
        let policy = self.policy.load_full();
        let (Some(store), Rule::Window(window)) = (&self.store, policy.rule_of(key)) else {
            return;
        };
        if self.decide(store, &policy, window, key)
            && let Some((number, call)) = self.next_call(store, key)
        {
            Arc::clone(self).exchange_window(key, number, call).await;
        }
    }

    /// Whether the store is to be asked. Where not, those who have no answer are decided
    /// here.
    fn decide(
        self: &Arc<Self>,
        store: &RedisStore,
        policy: &Policy,
        window: &Window,
        key: KeyId,
    ) -> bool {
        let detach = || {
            self.windows.with_known(key, |tally| {
                tally.detach(window, store.instances(), store.rank())
            })
        };
        match self.counting(store, policy, window, key) {
            Counting::Store => {
                self.windows.with_known(key, Tally::attach);
                return true;
            }
            Counting::Here(part) => self.part_with(store, policy, window, key, &part),
            Counting::Open => {
                for asker in askers(detach()) {
                    let turn = Turn::at_once(self, key, Held::Nothing, 1, &asker.timer);
                    // One that has left by itself needs no telling.
                    let _left = asker.offer.send(Offer::Turn(turn));
                }
            }
            Counting::Closed => {
                for asker in askers(detach()) {
                    let refusal = Refusal::shared(policy, Reason::Store);
                    let _left = asker.offer.send(Offer::Refused(refusal));
                }
            }
        }
        false
    }

    /// The call of this `number` has no answer, and won't have one.
    fn not_counted(&self, policy: &Policy, key: KeyId, number: u64, error: &StoreError) {
        let odd = !error.is_outage();
        let retry = odd.then(|| self.clock.now().after(PENANCE));
        let waited_for = self
            .windows
            .with_known(key, |tally| tally.unanswered(number, retry));
        if odd && waited_for == Some(true) {
            warn!(limit = %policy.name, key = %key, error = %error, "a key goes without the store");
        }
    }

    /// Tells those who asked what became of it.
    fn answer(self: &Arc<Self>, policy: &Policy, key: KeyId, heard: Heard<Asker>) {
        for (asker, loan) in heard.passed {
            let turn = Turn::at_once(self, key, Held::Share(loan), loan.cost(), &asker.timer);
            // Where it has left by itself the turn comes back, and what it took.
            let _left = asker.offer.send(Offer::Turn(turn));
        }
        for (asker, free) in heard.refused {
            let refusal = Refusal::crowded(policy, key, Crowded::Full(free));
            let _left = asker.offer.send(Offer::Refused(refusal));
        }
        for _ in 0..heard.would_refuse {
            self.metrics.would_refuse(Reason::Quota);
        }
    }
}

fn askers(undecided: Option<Vec<Want<Asker>>>) -> impl Iterator<Item = Asker> {
    let undecided = undecided.unwrap_or_default().into_iter();
    undecided.filter_map(|want| want.waiter)
}
