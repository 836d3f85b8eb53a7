//! How is a bucket kept that several instances share?
//!
//! `lua/` has what Redis does, `answer` reads what it replies, `windows` does both for
//! limits that count. `link` is the
//! connection, `names` the keys, `mapping` the clock, `distance` how far away it all
//! is, `breaker` what is away at present, `pauses` what is paused by hand, and `keeper` the task that looks
//! after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::Script;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};

use crate::key::KeyId;
use crate::line::{Call, Reach};
use crate::metrics::StoreMetrics;
use crate::units::{Clock, Moment};

mod answer;
mod breaker;
mod calls;
mod config;
mod distance;
mod error;
mod keeper;
#[cfg(test)]
mod laws;
mod link;
mod mapping;
mod names;
mod pauses;
mod roll;
mod saying;
#[cfg(test)]
mod token_laws;
#[cfg(test)]
mod window_laws;
mod windows;

pub use config::{Addresses, RedisConfig, Topology, is_redis_url};
pub use error::StoreError;
pub use pauses::Paused;

use answer::OddReply;
use breaker::Breakers;
use distance::Distance;
use link::{Connection, Link};
use mapping::Mapping;
use names::{BucketNames, Names};
use pauses::Pauses;
use roll::Roll;

/// News that wait to be read.
const NEWS: usize = 4_096;

/// What a store has to tell by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreNews {
    /// It went away, or came back, or something may have been missed.
    Changed,
    /// So many left a line.
    Left {
        /// The limit's name.
        limit: String,
        /// The line's key.
        key: KeyId,
        /// How many.
        count: u32,
    },
    /// Something was paused, or is no more.
    Paused,
    /// Those who wait are to be sent away.
    Purge(Paused),
}

/// Which of a limit's buckets.
#[derive(Clone, Copy, Debug)]
pub struct BucketName<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// The key.
    pub key: KeyId,
}

/// Buckets in Redis.
#[derive(Debug)]
pub struct RedisStore {
    me: String,
    config: RedisConfig,
    names: Names,
    link: Link,
    way: watch::Sender<Way>,
    clock: Clock,
    scripts: Scripts,
    calls: AtomicU64,
    under_way: AtomicUsize,
    breakers: Breakers,
    /// One for each part of the hash slots: every server has its own clock.
    mappings: Vec<Mutex<Mapping>>,
    distance: Mutex<Distance>,
    roll: ArcSwap<Roll>,
    look: Notify,
    is_up: watch::Sender<bool>,
    /// What is paused, as far as is known here. Held for a look, never across an await.
    pauses: Mutex<Pauses>,
    /// Held by the one who shares them.
    sharing: tokio::sync::Mutex<()>,
    pauses_changed: AtomicBool,
    news: mpsc::Sender<StoreNews>,
    metrics: StoreMetrics,
    /// Where calls run that begin outside of any runtime.
    runtime: Handle,
}

/// How Redis is reached at present.
#[derive(Clone, Debug)]
enum Way {
    /// It may be in a moment.
    Connecting,
    /// By the `nth` connection.
    Up(u64, Connection),
    /// Not at all.
    Away,
}

#[derive(Debug)]
struct Scripts {
    leaky_bucket: Script,
    token_bucket: Script,
    fixed_window: Script,
    sliding_window_log: Script,
    sliding_window_counter: Script,
    heartbeat: Script,
    pauses: Script,
}

impl RedisStore {
    /// A store that isn't connected yet, and what it will have to tell.
    pub fn new(
        config: RedisConfig,
        clock: Clock,
        metrics: StoreMetrics,
    ) -> (Arc<Self>, mpsc::Receiver<StoreNews>) {
        let (news, heard) = mpsc::channel(NEWS);
        let parts = if config.topology == Topology::Cluster {
            names::PARTS
        } else {
            1
        };
        let store = Self {
            me: new_id(),
            names: Names::new(&config.prefix),
            link: Link::new(config.clone()),
            way: watch::Sender::new(Way::Connecting),
            clock,
            scripts: Scripts {
                leaky_bucket: Script::new(include_str!("../../lua/leaky_bucket.lua")),
                token_bucket: Script::new(include_str!("../../lua/token_bucket.lua")),
                fixed_window: Script::new(include_str!("../../lua/fixed_window.lua")),
                sliding_window_log: Script::new(include_str!("../../lua/sliding_window_log.lua")),
                sliding_window_counter: Script::new(include_str!(
                    "../../lua/sliding_window_counter.lua"
                )),
                heartbeat: Script::new(include_str!("../../lua/heartbeat.lua")),
                pauses: Script::new(include_str!("../../lua/pauses.lua")),
            },
            calls: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            breakers: Breakers::new(parts),
            mappings: std::iter::repeat_with(Mutex::default).take(parts).collect(),
            distance: Mutex::default(),
            roll: ArcSwap::from_pointee(Roll::default().next(1, 0, Vec::new())),
            look: Notify::new(),
            is_up: watch::Sender::new(false),
            pauses: Mutex::default(),
            sharing: tokio::sync::Mutex::default(),
            pauses_changed: AtomicBool::new(false),
            news,
            metrics,
            runtime: Handle::current(),
            config,
        };
        store.metrics.up(false);
        (Arc::new(store), heard)
    }

    /// What it was made of.
    pub fn config(&self) -> &RedisConfig {
        &self.config
    }

    /// Whether the server of this bucket answers, as far as is known.
    pub fn is_up(&self, name: BucketName<'_>) -> bool {
        !self.breakers.is_open(self.part(name))
    }

    /// Whether all of it answers, as far as is known.
    pub fn is_well(&self) -> bool {
        *self.is_up.borrow() && !self.breakers.any_open()
    }

    /// How many instances share it, as last seen.
    pub fn instances(&self) -> u32 {
        self.roll.load().live
    }

    /// How many of them come before this one, in an order that all agree on.
    pub fn rank(&self) -> u32 {
        self.roll.load().rank
    }

    /// How far away it is.
    pub fn reach(&self) -> Reach {
        self.distance.lock().reach()
    }

    /// The number of the next call; all are different and go up.
    pub fn number(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Lets a call go on by itself, whoever began it.
    pub fn spawn(&self, call: impl Future<Output = ()> + Send + 'static) {
        if let Ok(here) = Handle::try_current() {
            here.spawn(call);
        } else {
            self.runtime.spawn(call);
        }
    }

    /// The server of this part of the keys does not answer as it should.
    fn lost(&self, part: usize, probe: &str, error: &StoreError) {
        if part == 0 && self.config.topology != Topology::Cluster {
            self.is_up.send_replace(false);
        }
        if self.breakers.open(part, probe) {
            tracing::warn!(error = %error, part, "store lost: limits go on without it");
            self.changed();
        }
        self.look.notify_one();
    }

    /// It answers again.
    fn found(&self, part: usize) {
        self.is_up.send_replace(true);
        if self.breakers.close(part) {
            tracing::info!(part, "store back: limits are shared again");
            self.changed();
        }
    }

    fn changed(&self) {
        self.metrics.up(*self.is_up.borrow());
        self.metrics
            .degraded(self.breakers.any_open() || !*self.is_up.borrow());
        // Room is kept for it, and it tells no more the second time.
        let _full = self.news.try_send(StoreNews::Changed);
    }

    /// The next free slot that this instance came to by itself, on Redis's clock.
    fn owed(&self, call: &Call, part: usize) -> u64 {
        call.owed
            .and_then(|owed| self.mapping(part).lock().there(owed))
            .unwrap_or(0)
    }

    /// What its clock says at `here`, as far as is known.
    pub fn time(&self, name: BucketName<'_>, here: Moment) -> Option<Moment> {
        let there = self.mapping(self.part(name)).lock().there(here);
        there.map(Moment::from_micros)
    }

    fn part(&self, name: BucketName<'_>) -> usize {
        if self.mappings.len() == 1 {
            0
        } else {
            self.part_of(&self.names.bucket(name.limit, name.key))
        }
    }

    fn part_of(&self, names: &BucketNames) -> usize {
        if self.mappings.len() == 1 {
            0
        } else {
            names.part
        }
    }

    fn mapping(&self, part: usize) -> &Mutex<Mapping> {
        self.mappings
            .get(part)
            .expect("every part of the keys has a clock")
    }
}
/// A name that no other process has, nor this one after a restart.
fn new_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    format!("{:012x}", random >> 16)
}
