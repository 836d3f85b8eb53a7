//! Does a limit let this request go, must it wait, or is it refused?
//!
//! `flow` hands out the slots of those who wait, `steer` is what comes from outside:
//! another policy, a hold, a pause, a purge; `seen` is what there is to see. `windows`
//! answers for limits that count instead, `counting` asks the store for them.

mod counting;
mod flow;
mod seen;
mod steer;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::oneshot;

use super::ask::{Ask, Entry, Refusal, Usable};
use super::crowd::{Crowd, InCrowd};
use super::door::Doors;
use super::gate::GateId;
use super::pauses::Pauses;
use super::place::{Held, Offer, Place, Turn};
use super::standing::Standing;
use crate::key::KeyId;
use crate::limit::{Policy, Rule};
use crate::line::{Bucket, Crowded, Pace, Verdict};
use crate::metrics::{Fate, LimitMetrics, Reason};
use crate::store::{RedisStore, Room, Table, TableFull};
use crate::timer::Timer;
use crate::units::{Clock, Moment};
use crate::window::Tally;

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

/// How one is reached who has asked the store to pass a window.
#[derive(Debug)]
struct Asker {
    offer: oneshot::Sender<Offer>,
    timer: SlotTimer,
    _in_crowd: InCrowd,
}

/// Why a bucket that is kept here has not admitted a request.
enum Unadmitted {
    /// It refuses it.
    Crowded(Crowded),
    /// No more may wait in this instance.
    Full,
    /// The store keeps it after all: it was found again a moment ago.
    Shared,
}

/// One limit with all its buckets.
#[derive(Debug)]
pub struct Limiter {
    pub(super) policy: ArcSwap<Policy>,
    pub(super) table: Table<Bucket<Waiter>>,
    /// The same where it counts in windows: one of both is empty.
    windows: Table<Tally<Asker>>,
    /// Where its buckets are shared with other instances.
    pub(super) store: Option<Arc<RedisStore>>,
    doors: Doors,
    pub(super) pauses: Pauses,
    pub(super) crowd: Arc<Crowd>,
    pub(super) clock: Clock,
    pub(super) metrics: LimitMetrics,
}

impl Drop for Limiter {
    fn drop(&mut self) {
        // Nobody looks at a limit any more that the config no longer has.
        self.metrics.seen(0, 0, Duration::ZERO);
        self.metrics.room(1, 1);
    }
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
        metrics.configured(policy.rule.per_second(), policy.rule.burst());
        Arc::new(Self {
            policy: ArcSwap::from_pointee(policy),
            table: Table::new(Arc::clone(&room)),
            windows: Table::new(room),
            store,
            doors: Doors::default(),
            pauses: Pauses::default(),
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
        let rule = policy.rule_of(ask.key);
        if !rule.has_line()
            && let Some(left) = self.pauses.left_by(ask.key, self.clock)
        {
            return self.refuse_paused(&policy, left);
        }
        let pace = match rule {
            Rule::Pace(pace) => pace,
            Rule::Window(window) => return self.ask_window(&policy, window, &ask),
        };
        if !ask.knocked && self.doors.is_taken(ask.key) {
            // Whatever place becomes free is for the one before the door.
            let free = self.remaining(ask.key, ask.cost, None).free_in;
            return self.refuse(&policy, ask.key, Crowded::Full(free.max(pace.interval())));
        }
        let pace = match self.align(&policy, ask.key) {
            Standing::Alone(pace) => pace,
            Standing::Shared => return self.ask_store(&policy, ask, max_wait),
            Standing::Closed if policy.dry_run => {
                self.metrics.would_refuse(Reason::Store);
                return Ok(Entry::Passed);
            }
            Standing::Closed => return Err(Refusal::shared(&policy, Reason::Store)),
        };
        self.ask_here(&policy, &pace, ask, max_wait)
    }

    /// Admits a request or refuses it, where the bucket is kept here.
    pub(super) fn ask_here(
        self: &Arc<Self>,
        policy: &Policy,
        pace: &Pace,
        ask: Ask<'_>,
        max_wait: Option<Duration>,
    ) -> Result<Entry, Refusal> {
        let answer = self.with(ask.key, |bucket, now| {
            if bucket.is_attached() {
                return Err(Unadmitted::Shared);
            }
            if let Verdict::Refused(crowded) = bucket.verdict(pace, ask.cost, now, max_wait) {
                return Err(Unadmitted::Crowded(crowded));
            }
            let at_once = policy.dry_run || bucket.goes_at_once(pace, ask.cost, now);
            let waits = pace.has_line() && !policy.dry_run;
            match ask.usable {
                Usable::ForGood if at_once => {
                    bucket.take(pace, ask.cost, now);
                    return Ok((Entry::Passed, None));
                }
                Usable::OnLoan if at_once => return Ok((self.lend(bucket, pace, now, ask), None)),
                // Without a line there is no place to wait for the upstream in.
                Usable::NotYet if !waits => return Ok((self.lend(bucket, pace, now, ask), None)),
                Usable::ForGood | Usable::OnLoan | Usable::NotYet => (),
            }
            let in_crowd = self.crowd.join().ok_or(Unadmitted::Full)?;
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
                bucket.join_blocked(ask.cost, now, waiter)
            } else {
                bucket.join(ask.cost, now, waiter)
            };
            let place = Place::new(self, ask.key, ticket, offered);
            let entry = if blocked {
                Entry::Blocked(place)
            } else {
                Entry::Place(place)
            };
            Ok((entry, bucket.arm(pace)))
        });
        match answer {
            Ok(Ok((entry, alarm))) => {
                self.count(&entry, ask.cost);
                self.set(alarm, ask.key, ask.timer);
                Ok(entry)
            }
            Ok(Err(Unadmitted::Crowded(crowded))) => self.refuse(policy, ask.key, crowded),
            Ok(Err(Unadmitted::Shared)) => self.ask_store(policy, ask, max_wait),
            Ok(Err(Unadmitted::Full)) => Err(Refusal::shared(policy, Reason::Full)),
            Err(TableFull) if policy.dry_run => {
                self.metrics.would_refuse(Reason::Keys);
                Ok(Entry::Passed)
            }
            Err(TableFull) => Err(Refusal::shared(policy, Reason::Keys)),
        }
    }

    /// Whether requests may wait under a key.
    pub fn has_line(&self, key: KeyId) -> bool {
        let policy = self.policy.load();
        policy.rule_of(key).has_line() && !policy.dry_run
    }

    /// Whether other instances share its buckets.
    pub fn is_shared(&self) -> bool {
        self.store.is_some()
    }

    /// Whether it only counts what it would refuse.
    pub fn is_dry_run(&self) -> bool {
        self.policy.load().dry_run
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
        let pace = |key| self.policy.load().rule_of(key).pace();
        let time = || self.clock.now();
        let fresh = || Bucket::new(&pace(key), time());
        let is_idle = |key, bucket: &Bucket<Waiter>, now| bucket.is_idle(&pace(key), now);
        // Inside the lock the time is read anew: arrivals are stamped in their order.
        self.table.with(key, time, fresh, is_idle, |bucket| {
            let now = self.touch(key, bucket);
            act(bucket, now)
        })
    }

    /// Does something with a bucket, where there is one.
    pub(super) fn with_known<R>(
        &self,
        key: KeyId,
        act: impl FnOnce(&mut Bucket<Waiter>, Moment) -> R,
    ) -> Option<R> {
        self.table.with_known(key, |bucket| {
            let now = self.touch(key, bucket);
            act(bucket, now)
        })
    }

    /// Whoever looks at a bucket finds it paused as it is by then.
    fn touch(&self, key: KeyId, bucket: &mut Bucket<Waiter>) -> Moment {
        let now = self.clock.now();
        bucket.pause(self.pauses.until(key, now), now);
        now
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
        let held = Held::Slot(bucket.lend(pace, ask.cost, now));
        Entry::Turn(Turn::at_once(self, ask.key, held, ask.cost, ask.timer))
    }

    fn count(&self, entry: &Entry, cost: u32) {
        match entry {
            Entry::Passed => {
                self.metrics.waited(Duration::ZERO);
                self.metrics.slots(Fate::Used, cost.into());
            }
            // What has a turn is counted when it goes, or else has a place in the end.
            Entry::Turn(_) => {}
            Entry::Place(_) | Entry::Blocked(_) | Entry::Asked(_) => self.metrics.joined(),
        }
    }

    fn refuse_paused(&self, policy: &Policy, left: Duration) -> Result<Entry, Refusal> {
        if policy.dry_run {
            self.metrics.would_refuse(Reason::Paused);
            return Ok(Entry::Passed);
        }
        Err(Refusal {
            retry_after: left,
            ..Refusal::shared(policy, Reason::Paused)
        })
    }

    fn refuse(&self, policy: &Policy, key: KeyId, crowded: Crowded) -> Result<Entry, Refusal> {
        let refusal = Refusal::crowded(policy, key, crowded);
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
