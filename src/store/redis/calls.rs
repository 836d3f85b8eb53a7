//! How is the store asked, and what if it does not answer?

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::answer::{Grants, OddReply};
use super::link::Connection;
use super::mapping::Mapping;
use super::names::BucketNames;
use super::saying::{Caller, Saying};
use super::{BucketName, RedisStore, StoreError, Way, answer};
use crate::line::{Answer, Call, Pace};
use crate::metrics::StoreScript;

impl RedisStore {
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
        let answer = self.call_bucket(StoreScript::LeakyBucket, &names, call, &script);
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
        self.call_bucket(StoreScript::TokenBucket, &names, call, &script)
            .await
    }

    async fn call_bucket(
        &self,
        script: StoreScript,
        names: &BucketNames,
        call: &Call,
        invocation: &redis::ScriptInvocation<'_>,
    ) -> Result<Option<Answer>, StoreError> {
        let batch = call.wanted.iter().map(|run| run.count).sum();
        let grants_are = match script {
            StoreScript::TokenBucket => Grants::Requests,
            _ => Grants::Slots,
        };
        let read = |reply: &[i64], mapping: &dyn Fn(u64) -> Mapping| {
            answer::read(reply, grants_are, &call.wanted, mapping)
        };
        self.call(script, names, batch, invocation, read).await
    }

    /// Waits for the calls that are under way.
    pub async fn settled(&self) {
        while self.under_way.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Makes a call for `batch` requests; `read` makes an answer of the reply, and asks
    /// how Redis's clock relates to this one's by what it says.
    pub(super) async fn call<A>(
        &self,
        script: StoreScript,
        names: &BucketNames,
        batch: u32,
        invocation: &redis::ScriptInvocation<'_>,
        read: impl FnOnce(&[i64], &dyn Fn(u64) -> Mapping) -> Result<A, OddReply>,
    ) -> Result<A, StoreError> {
        let _under_way = UnderWay::new(&self.under_way);
        let part = self.part_of(names);
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
            read(&reply, &mapping).map_err(StoreError::from)
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
    pub(super) async fn invoke<T: redis::FromRedisValue>(
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
    pub(super) async fn connection(&self) -> Result<(u64, Connection), StoreError> {
        let mut way = self.way.subscribe();
        let known = way.wait_for(|way| !matches!(way, Way::Connecting)).await;
        match known.as_deref() {
            Ok(Way::Up(nth, connection)) => Ok((*nth, connection.clone())),
            Ok(Way::Connecting | Way::Away) | Err(_) => Err(StoreError::Away),
        }
    }

    /// The `nth` connection is of no use any more.
    pub(super) fn leave(&self, nth: u64) {
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
