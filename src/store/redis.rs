//! How is a bucket kept that several instances share?
//!
//! `lua/` has what Redis does, `answer` reads what it replies. `link` is the
//! connection, `names` the keys, `mapping` the clock, `distance` how far away it all
//! is, `breaker` what is away at present, and `keeper` the task that looks after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, Script, ServerErrorKind};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};

use crate::key::KeyId;
use crate::line::{Answer, Call, Pace, Reach};
use crate::metrics::{StoreErrorKind, StoreMetrics, StoreScript};
use crate::units::Clock;

mod answer;
mod breaker;
mod config;
mod distance;
mod keeper;
#[cfg(test)]
mod laws;
mod link;
mod mapping;
mod names;
mod roll;
mod saying;
#[cfg(test)]
mod token_laws;

pub use config::{Addresses, RedisConfig, Topology, is_redis_url};

use answer::OddReply;
use breaker::Breakers;
use distance::Distance;
use link::{Connection, Link};
use mapping::Mapping;
use names::{BucketNames, Names};
use roll::Roll;
use saying::{Caller, Saying};

/// News that wait to be read; what is lost beyond it costs no more than the wait foreseen.
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
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no connection.
    #[error("Redis can't be reached")]
    Away,
    /// It took too long; it may have been heard all the same.
    #[error("Redis did not answer in time")]
    Timeout,
    /// Redis answered with an error, or the connection broke.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// What came is no answer.
    #[error("the reply has another shape than the script gives it")]
    Reply,
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
    heartbeat: Script,
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
                heartbeat: Script::new(include_str!("../../lua/heartbeat.lua")),
            },
            calls: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            breakers: Breakers::new(parts),
            mappings: std::iter::repeat_with(Mutex::default).take(parts).collect(),
            distance: Mutex::default(),
            roll: ArcSwap::from_pointee(Roll::default().next(1, 0, Vec::new())),
            look: Notify::new(),
            is_up: watch::Sender::new(false),
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

    /// Says what is so of a bucket with a line; `None` where a later call was faster.
    pub async fn leaky_bucket(
        &self,
        name: BucketName<'_>,
        pace: &Pace,
        number: u64,
        call: &Call,
    ) -> Result<Option<Answer>, StoreError> {
        let names = self.names.bucket(name.limit, name.key);
        let part = self.part_of(&names);
        let roll = self.roll.load();
        let dead = if call.buried == roll.edition {
            String::new()
        } else {
            roll.dead.join(",")
        };
        let saying = Saying {
            now: 0,
            pace,
            owed: self.owed(call, part),
            call,
        };
        let caller = Caller {
            me: &self.me,
            number,
            reach: self.reach(),
            dead: &dead,
            channel: &self.names.channel(),
        };
        let script = saying.leaky_bucket(&self.scripts.leaky_bucket, &names, &caller);
        let answer = self.call(StoreScript::LeakyBucket, &names, part, call, &script);
        Ok(answer.await?.map(|answer| Answer {
            buried: roll.edition,
            ..answer
        }))
    }

    /// Asks for leave to pass at once.
    pub async fn token_bucket(
        &self,
        name: BucketName<'_>,
        pace: &Pace,
        call: &Call,
    ) -> Result<Option<Answer>, StoreError> {
        let names = self.names.bucket(name.limit, name.key);
        let part = self.part_of(&names);
        let saying = Saying {
            now: 0,
            pace,
            owed: self.owed(call, part),
            call,
        };
        let script = saying.token_bucket(&self.scripts.token_bucket, &names);
        self.call(StoreScript::TokenBucket, &names, part, call, &script)
            .await
    }

    /// Lets a call go on by itself, whoever began it.
    pub fn spawn(&self, call: impl Future<Output = ()> + Send + 'static) {
        if let Ok(here) = Handle::try_current() {
            here.spawn(call);
        } else {
            self.runtime.spawn(call);
        }
    }

    /// Waits for the calls that are under way.
    pub async fn settled(&self) {
        while self.under_way.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn call(
        &self,
        script: StoreScript,
        names: &BucketNames,
        part: usize,
        call: &Call,
        invocation: &redis::ScriptInvocation<'_>,
    ) -> Result<Option<Answer>, StoreError> {
        let _under_way = UnderWay::new(&self.under_way);
        let batch: u32 = call.wanted.iter().map(|run| run.count).sum();
        self.metrics.batch(script, batch);
        let sent = self.clock.now();
        let reply: Result<Vec<i64>, StoreError> = self.invoke(invocation).await;
        let got = self.clock.now();
        let answer = reply.and_then(|reply| {
            let mapping = |now| {
                let mut mapping = self.mapping(part).lock();
                mapping.observe(now, sent, got);
                *mapping
            };
            answer::read(&reply, call.wanted.len(), mapping).map_err(StoreError::from)
        });
        match &answer {
            Ok(_) => {
                let trip = got.since(sent);
                self.metrics.called(script, trip);
                self.distance.lock().observe(trip);
            }
            Err(error) => {
                self.metrics.failed(script, error.kind());
                if error.is_outage() {
                    self.lost(part, &names.probe, error);
                }
            }
        }
        answer
    }

    /// Runs a script in the time that a call may take; once more where the connection
    /// broke meanwhile: no call does harm that comes twice.
    async fn invoke<T: redis::FromRedisValue>(
        &self,
        script: &redis::ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let invoked = async {
            let (nth, mut connection) = self.connection().await?;
            let broken = match connection.invoke(script).await.map_err(StoreError::from) {
                Err(error) if error.is_broken() && !connection.heals() => error,
                other => return other,
            };
            self.leave(nth);
            let (_, mut connection) = self.connection().await.map_err(|_away| broken)?;
            Ok(connection.invoke(script).await?)
        };
        tokio::time::timeout(self.config.timeout, invoked)
            .await
            .map_err(|_elapsed| StoreError::Timeout)?
    }

    /// The connection, as soon as there is one.
    async fn connection(&self) -> Result<(u64, Connection), StoreError> {
        let mut way = self.way.subscribe();
        let known = way.wait_for(|way| !matches!(way, Way::Connecting)).await;
        match known.as_deref() {
            Ok(Way::Up(nth, connection)) => Ok((*nth, connection.clone())),
            Ok(Way::Connecting | Way::Away) | Err(_) => Err(StoreError::Away),
        }
    }

    /// The `nth` connection is of no use any more.
    fn leave(&self, nth: u64) {
        let left = self.way.send_if_modified(|way| {
            let is_it = matches!(way, Way::Up(present, _) if *present == nth);
            if is_it {
                *way = Way::Connecting;
            }
            is_it
        });
        if left {
            self.look.notify_one();
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
        // Where so much waits to be read, this is heard of by what is read.
        let _full = self.news.try_send(StoreNews::Changed);
    }

    /// The next free slot that this instance came to by itself, on Redis's clock.
    fn owed(&self, call: &Call, part: usize) -> u64 {
        call.owed
            .and_then(|owed| self.mapping(part).lock().there(owed))
            .unwrap_or(0)
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

impl From<OddReply> for StoreError {
    fn from(OddReply: OddReply) -> Self {
        Self::Reply
    }
}

impl StoreError {
    /// Whether others will fare no better: a server is away, not one bucket odd.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Away | Self::Timeout => true,
            Self::Reply => false,
            Self::Redis(error) => !matches!(
                (error.kind(), error.code()),
                (
                    ErrorKind::Server(ServerErrorKind::ResponseError)
                        | ErrorKind::UnexpectedReturnType,
                    _
                ) | (_, Some("WRONGTYPE"))
            ),
        }
    }

    /// Whether the connection broke.
    fn is_broken(&self) -> bool {
        match self {
            Self::Away | Self::Timeout | Self::Reply => false,
            Self::Redis(error) => error.is_io_error() || error.is_connection_dropped(),
        }
    }

    /// Whether the connection leads to the wrong place, or nowhere.
    fn ends_connection(&self) -> bool {
        match self {
            Self::Timeout => true,
            Self::Away | Self::Reply => false,
            Self::Redis(error) => {
                error.is_unrecoverable_error()
                    || error.is_io_error()
                    || error.is_connection_dropped()
                    || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
            }
        }
    }

    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Away => StoreErrorKind::Connection,
            Self::Timeout => StoreErrorKind::Timeout,
            Self::Reply => StoreErrorKind::Reply,
            Self::Redis(error) => match error.kind() {
                ErrorKind::Server(_) | ErrorKind::Extension => StoreErrorKind::Server,
                ErrorKind::Parse | ErrorKind::UnexpectedReturnType => StoreErrorKind::Reply,
                _ => StoreErrorKind::Connection,
            },
        }
    }
}

/// Counts a call while it is under way.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A name that no other process has, nor this one after a restart.
fn new_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    format!("{:012x}", random >> 16)
}
