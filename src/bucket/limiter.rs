//! Does a limit let this request go, must it wait, or is it refused?

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::ask::{Ask, Census, Entry, Refusal, Usable};
use super::crowd::{Crowd, InCrowd};
use super::door::Doors;
use super::gate::{GateId, Permit};
use super::place::{Evicted, Offer, Place, Turn};
use super::standing::Standing;
use crate::key::KeyId;
use crate::limit::Policy;
use crate::line::{Bucket, Call, Crowded, Pace, Promise, Remaining, Verdict};
use crate::metrics::{Fate, LimitMetrics, Reason};
use crate::store::{RedisStore, Room, Table, TableFull};
use crate::timer::Timer;
use crate::units::{Clock, Moment};

/// The timer of a runtime, for the slots of the buckets whose waiters it serves.
pub type SlotTimer = Timer<Wake>;

/// A bucket whose next slot a timer waits for.
#[derive(Debug)]
pub struct Wake {
    pub(super) limiter: Arc<Limiter>,
    pub(super) key: KeyId,
}

/// How the one who waits is reached.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) offer: oneshot::Sender<Offer>,
    /// Where it is the store that says so: that it has its place.
    pub(super) placed: Option<oneshot::Sender<()>>,
    pub(super) timer: SlotTimer,
    /// The gate that it must pass with its slot, if it comes to one then.
    pub(super) gate: Option<GateId>,
    pub(super) _in_crowd: InCrowd,
}

/// One limit with all its buckets.
#[derive(Debug)]
pub struct Limiter {
    pub(super) policy: ArcSwap<Policy>,
    pub(super) table: Table<Bucket<Waiter>>,
    /// Where its buckets are shared with other instances.
    pub(super) store: Option<Arc<RedisStore>>,
    doors: Doors,
    pub(super) crowd: Arc<Crowd>,
    pub(super) clock: Clock,
    pub(super) metrics: LimitMetrics,
}

impl Limiter {
    /// A limit without any bucket yet.
    pub fn new(
        policy: Policy,
        room: Arc<Room>,
        crowd: Arc<Crowd>,
        clock: Clock,
        metrics: LimitMetrics,
        store: Option<Arc<RedisStore>>,
    ) -> Arc<Self> {
        metrics.configured(policy.pace.rate().per_second(), policy.pace.burst());
        Arc::new(Self {
            policy: ArcSwap::from_pointee(policy),
            table: Table::new(room),
            store,
            doors: Doors::default(),
            crowd,
            clock,
            metrics,
        })
    }

    /// What the config says of it.
    pub fn policy(&self) -> arc_swap::Guard<Arc<Policy>> {
        self.policy.load()
    }

    /// Where it counts.
    pub fn metrics(&self) -> &LimitMetrics {
        &self.metrics
    }

    /// Admits a request or refuses it.
    pub fn ask(self: &Arc<Self>, ask: Ask<'_>) -> Result<Entry, Refusal> {
        let policy = self.policy.load();
        let max_wait = tightest(policy.max_wait, ask.max_wait);
        if !ask.knocked && self.doors.is_taken(ask.key) {
            // Whatever place becomes free is for the one before the door.
            let free = self.remaining(ask.key, None).free_in;
            return self.refuse(&policy, Crowded::Full(free.max(policy.pace.interval())));
        }
        let pace = &match self.align(&policy, ask.key) {
            Standing::Alone(pace) => pace,
            Standing::Shared => return self.ask_store(&policy, ask, max_wait),
            Standing::Closed if policy.dry_run => {
                self.metrics.would_refuse(Reason::Store);
                return Ok(Entry::Passed);
            }
            Standing::Closed => return Err(Refusal::shared(&policy, Reason::Store)),
        };
        let answer = self.with(ask.key, |bucket, now| {
            if let Verdict::Refused(crowded) = bucket.verdict(pace, now, max_wait) {
                return Err(Some(crowded));
            }
            let at_once = policy.dry_run || bucket.goes_at_once(pace, now);
            let waits = pace.has_line() && !policy.dry_run;
            match ask.usable {
                Usable::ForGood if at_once => {
                    bucket.take(pace, now);
                    return Ok((Entry::Passed, None));
                }
                Usable::OnLoan if at_once => return Ok((self.lend(bucket, pace, now, ask), None)),
                // Without a line there is no place to wait for the upstream in.
                Usable::NotYet if !waits => return Ok((self.lend(bucket, pace, now, ask), None)),
                Usable::ForGood | Usable::OnLoan | Usable::NotYet => (),
            }
            let in_crowd = self.crowd.join().ok_or(None)?;
            let (offer, offered) = oneshot::channel();
            let waiter = Waiter {
                offer,
                placed: None,
                timer: ask.timer.clone(),
                gate: ask.gate,
                _in_crowd: in_crowd,
            };
            // Until its slot comes its upstream may have room again.
            let blocked = at_once && ask.usable == Usable::NotYet;
            let ticket = if blocked {
                bucket.join_blocked(now, waiter)
            } else {
                bucket.join(now, waiter)
            };
            let place = Place::new(self, ask.key, ticket, offered);
            let entry = if blocked {
                Entry::Blocked(place)
            } else {
                Entry::Place(place)
            };
            Ok((entry, bucket.arm()))
        });
        match answer {
            Ok(Ok((entry, alarm))) => {
                self.count(&entry);
                self.set(alarm, ask.key, ask.timer);
                Ok(entry)
            }
            Ok(Err(Some(crowded))) => self.refuse(&policy, crowded),
            Ok(Err(None)) => Err(Refusal::shared(&policy, Reason::Full)),
            Err(TableFull) if policy.dry_run => {
                self.metrics.would_refuse(Reason::Keys);
                Ok(Entry::Passed)
            }
            Err(TableFull) => Err(Refusal::shared(&policy, Reason::Keys)),
        }
    }

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

    /// Whether requests may wait in it.
    pub fn has_line(&self) -> bool {
        let policy = self.policy.load();
        policy.pace.has_line() && !policy.dry_run
    }

    /// Whether other instances share its buckets.
    pub fn is_shared(&self) -> bool {
        self.store.is_some()
    }

    /// Whether it only counts what it would refuse.
    pub fn is_dry_run(&self) -> bool {
        self.policy.load().dry_run
    }

    /// What a key's bucket would admit now.
    pub fn remaining(&self, key: KeyId, max_wait: Option<Duration>) -> Remaining {
        let policy = self.policy.load();
        let max_wait = tightest(policy.max_wait, max_wait);
        let now = self.clock.now();
        let pace = self.pace(&policy, key);
        let known = self
            .table
            .with_known(key, |bucket| bucket.remaining(&pace, now, max_wait));
        known.unwrap_or_else(|| Bucket::<Waiter>::new(&pace, now).remaining(&pace, now, max_wait))
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
    pub(super) fn evict(&self, told: Vec<Waiter>, reason: Reason) {
        for waiter in told {
            self.metrics.parted();
            self.metrics.refused(reason);
            // One that has left by itself needs no telling.
            let _left = waiter.offer.send(Offer::Evicted(Evicted { reason }));
        }
    }

    /// Forgets idle keys in the `part`th of `parts` parts.
    pub fn sweep(&self, part: usize, parts: usize) {
        let policy = self.policy.load();
        let now = self.clock.now();
        self.table
            .sweep(part, parts, |bucket| bucket.is_idle(&policy.pace, now));
    }

    /// Looks at all buckets, and tells the metrics.
    pub fn observe(&self) -> Census {
        let now = self.clock.now();
        let mut census = Census::default();
        self.table.each(|_, bucket| {
            let oldest = bucket
                .oldest()
                .map_or(Duration::ZERO, |joined| now.since(joined));
            census.buckets += 1;
            census.waiting += bucket.waiting();
            census.longest = census.longest.max(bucket.length());
            census.oldest = census.oldest.max(oldest);
        });
        self.metrics
            .seen(census.buckets, census.longest, census.oldest);
        census
    }

    /// The timer rang for a bucket.
    pub fn rang(when: Moment, wake: Wake) {
        let Wake { limiter, key } = wake;
        if limiter.table.with_known(key, |bucket| bucket.rang(when)) == Some(true) {
            limiter.flow(key);
        }
    }

    /// Hands out whatever slots are due, to the first ones who can go.
    pub(super) fn flow(self: &Arc<Self>, key: KeyId) {
        self.flow_with(key, None);
    }

    /// A permit came to one of a bucket's line: it is for the first who waits for
    /// that gate, whoever stood before it for them.
    pub(super) fn admit(self: &Arc<Self>, key: KeyId, gate: GateId, permit: Permit) {
        self.with_known(key, |bucket, _| {
            bucket.ready_first(|waiter| waiter.gate == Some(gate))
        });
        self.flow_with(key, Some((gate, permit)));
    }

    fn flow_with(self: &Arc<Self>, key: KeyId, mut permit: Option<(GateId, Permit)>) {
        loop {
            let policy = self.policy.load();
            let pace = self.pace(&policy, key);
            let mut call: Option<(u64, Call)> = None;
            let mut missed = 0;
            let mut retries = false;
            let mut promises: SmallVec<[Promise<Waiter>; 2]> = SmallVec::new();
            let mut alarm = None;
            let mut handed_out = Moment::default();
            self.with_known(key, |bucket, now| {
                handed_out = now;
                while let Some(promise) = bucket.promise(&pace, now) {
                    promises.push(promise);
                }
                let timer = bucket.first().map(|waiter| waiter.timer.clone());
                if let Some(store) = &self.store {
                    let reach = store.reach();
                    retries = bucket.takes_retry(now);
                    missed = bucket.missed();
                    let number = store.number();
                    call = bucket
                        .call(&pace, &reach, now, || number)
                        .map(|call| (number, call));
                    alarm = bucket.arm_shared(&pace, &reach).map(|when| (when, timer));
                } else {
                    alarm = bucket.arm().map(|when| (when, timer));
                }
            });
            self.metrics.slots(Fate::Missed, missed);
            if retries {
                self.align(&policy, key);
            }
            if let Some((number, call)) = call {
                self.say(key, number, call);
            }
            match alarm {
                Some((when, Some(timer))) => self.set(Some(when), key, &timer),
                Some((when, None)) => self.call_later(when, key),
                None => (),
            }
            // Outside the lock: a turn that can't be delivered goes back through it.
            let undelivered = promises
                .into_iter()
                .filter_map(|promise| self.deliver(key, promise, handed_out, &mut permit));
            if undelivered.map(Turn::give_back).count() == 0 && !retries {
                return;
            }
        }
    }

    /// A place became free: the first one before the door may join.
    pub(super) fn parted(&self, key: KeyId) {
        self.metrics.parted();
        self.doors.open(key);
    }

    /// Those who stand before its lines.
    pub(super) fn doors(&self) -> &Doors {
        &self.doors
    }

    /// Does something with a bucket, made where there is none.
    pub(super) fn with<R>(
        &self,
        key: KeyId,
        act: impl FnOnce(&mut Bucket<Waiter>, Moment) -> R,
    ) -> Result<R, TableFull> {
        let policy = self.policy.load();
        let now = self.clock.now();
        let fresh = || Bucket::new(&policy.pace, now);
        let is_idle = |bucket: &Bucket<Waiter>| bucket.is_idle(&policy.pace, now);
        // Inside the lock the time is read anew: arrivals are stamped in their order.
        self.table.with(key, now, fresh, is_idle, |bucket| {
            act(bucket, self.clock.now())
        })
    }

    /// Does something with a bucket, where there is one.
    pub(super) fn with_known<R>(
        &self,
        key: KeyId,
        act: impl FnOnce(&mut Bucket<Waiter>, Moment) -> R,
    ) -> Option<R> {
        self.table
            .with_known(key, |bucket| act(bucket, self.clock.now()))
    }

    /// A waiter for one who steps back into its place, however many wait.
    pub(super) fn waiter(
        &self,
        timer: &SlotTimer,
        gate: Option<GateId>,
    ) -> (Waiter, oneshot::Receiver<Offer>) {
        let (offer, offered) = oneshot::channel();
        self.metrics.joined();
        (
            Waiter {
                offer,
                placed: None,
                timer: timer.clone(),
                gate,
                _in_crowd: self.crowd.rejoin(),
            },
            offered,
        )
    }

    fn lend(
        self: &Arc<Self>,
        bucket: &mut Bucket<Waiter>,
        pace: &Pace,
        now: Moment,
        ask: Ask<'_>,
    ) -> Entry {
        Entry::Turn(Turn::at_once(self, ask, bucket.lend(pace, now)))
    }

    /// Hands a slot to the one whose turn it is; the slot, where it has gone.
    fn deliver(
        self: &Arc<Self>,
        key: KeyId,
        promise: Promise<Waiter>,
        now: Moment,
        permit: &mut Option<(GateId, Permit)>,
    ) -> Option<Turn> {
        self.parted(key);
        self.metrics.slots(Fate::Missed, promise.missed);
        self.metrics
            .late(now.since(promise.due.max(promise.ticket.joined())));
        self.metrics.waited(now.since(promise.ticket.joined()));
        let meant = permit.take_if(|(gate, _)| promise.waiter.gate == Some(*gate));
        let turn = Turn::in_turn(self, key, &promise, meant.map(|(_, permit)| permit));
        match promise.waiter.offer.send(Offer::Turn(turn)) {
            Err(Offer::Turn(turn)) => Some(turn),
            Ok(()) | Err(_) => None,
        }
    }

    fn set(self: &Arc<Self>, alarm: Option<Moment>, key: KeyId, timer: &SlotTimer) {
        if let Some(when) = alarm {
            timer.set(
                when,
                Wake {
                    limiter: Arc::clone(self),
                    key,
                },
            );
        }
    }

    fn count(&self, entry: &Entry) {
        match entry {
            Entry::Passed => {
                self.metrics.waited(Duration::ZERO);
                self.metrics.slots(Fate::Used, 1);
            }
            Entry::Turn(_) => self.metrics.waited(Duration::ZERO),
            Entry::Place(_) | Entry::Blocked(_) | Entry::Asked(_) => self.metrics.joined(),
        }
    }

    fn refuse(&self, policy: &Policy, crowded: Crowded) -> Result<Entry, Refusal> {
        let refusal = Refusal::crowded(policy, crowded);
        if policy.dry_run {
            self.metrics.would_refuse(refusal.reason);
            return Ok(Entry::Passed);
        }
        Err(refusal)
    }
}

pub(super) fn tightest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
