//! Who keeps the connection, says that this instance lives, and tries what was lost?

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::link::{Connection, News};
use super::roll::Roll;
use super::{Paused, RedisStore, StoreError, StoreNews, Topology, Way};
use crate::key::KeyId;
use crate::metrics::StoreScript;

/// How often an instance says that it lives.
const BEAT: Duration = Duration::from_secs(1);

/// How often an instance asks what is paused, though nobody has said that it changed.
const SHARE: Duration = Duration::from_secs(5);

/// An instance that has said nothing for so long is dead.
const ALIVE: Duration = Duration::from_secs(3);

/// Dead instances are remembered for so long, and so many of them: their tickets
/// may stand in slow lines.
const REMEMBERED: Duration = Duration::from_hours(24 * 7);
const MOST_DEAD: usize = 100;

/// How often what was lost is tried.
const PROBE: Duration = Duration::from_millis(100);

impl RedisStore {
    /// Keeps the store connected, forever.
    pub async fn run(self: Arc<Self>) {
        for nth in 0.. {
            match self.connect(nth).await {
                Ok(()) => self.keep(nth).await,
                Err(error) => {
                    self.way.send_replace(Way::Away);
                    self.is_up.send_replace(false);
                    self.lost(0, &self.names.instances(), &error);
                    tokio::time::sleep(PROBE).await;
                }
            }
        }
    }

    /// Waits until the store has answered for the first time, but not for long.
    pub async fn ready(&self, patience: Duration) -> bool {
        let mut is_up = self.is_up.subscribe();
        let up = tokio::time::timeout(patience, is_up.wait_for(|up| *up)).await;
        matches!(up, Ok(Ok(_)))
    }

    /// Says that this instance won't be back.
    pub async fn farewell(&self) {
        let mut forget = redis::cmd("ZREM");
        forget.arg(self.names.instances()).arg(&self.me);
        let said = async {
            let (_, mut connection) = self.connection().await?;
            Ok::<i64, StoreError>(connection.query(&forget).await?)
        };
        // Unheard, it is taken for dead a moment later.
        let _unheard = tokio::time::timeout(self.config.timeout, said).await;
    }

    async fn connect(self: &Arc<Self>, nth: u64) -> Result<(), StoreError> {
        let store = Arc::downgrade(self);
        let hear = move |news| {
            if let Some(store) = store.upgrade() {
                store.hear(nth, news);
            }
        };
        let channel = self.names.channel();
        let connection = self.link.connect(&channel, hear).await;
        let connection = connection.map_err(StoreError::from).inspect_err(|error| {
            self.metrics.failed(StoreScript::Heartbeat, error.kind());
        })?;
        self.way.send_replace(Way::Up(nth, connection));
        self.beat().await.inspect_err(|_error| self.leave(nth))?;
        // Known before anyone is let go; what is not heard now is asked again soon.
        let _unheard = self.share_pauses().await;
        Ok(())
    }

    /// Looks after the `nth` connection until it is of no use.
    async fn keep(&self, nth: u64) {
        self.found(0);
        // Whatever was said while nobody listened is asked for anew.
        self.changed();
        let (mut beaten, mut shared) = (Instant::now(), Instant::now());
        loop {
            let pause = if self.breakers.any_open() {
                PROBE
            } else {
                BEAT
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => (),
                () = self.look.notified() => (),
            }
            let Way::Up(_, connection) = self.way.borrow().clone() else {
                return;
            };
            let tries = self.breakers.any_open();
            if tries || beaten.elapsed() >= BEAT {
                beaten = Instant::now();
                if let Err(error) = self.beat().await {
                    self.lost(0, &self.names.instances(), &error);
                    if !connection.heals() || error.ends_connection() {
                        return self.leave(nth);
                    }
                } else if !connection.heals() {
                    self.found(0);
                }
            }
            if shared.elapsed() >= SHARE || self.pauses_changed.load(Ordering::Relaxed) {
                // What is not heard now is asked again soon.
                let _unheard = self.share_pauses().await;
                shared = Instant::now();
            }
            if tries && connection.heals() {
                self.probe(&connection).await;
            }
            if tries {
                // Not at once again, whatever fails now.
                tokio::time::sleep(PROBE).await;
            }
        }
    }

    /// Tries each server of a cluster that failed, by writing to it.
    async fn probe(&self, connection: &Connection) {
        for (part, probe) in self.breakers.to_probe() {
            let mut connection = connection.clone();
            let mut set = redis::cmd("SET");
            set.arg(probe).arg(1).arg("PX").arg(1_000);
            let tried = connection.query::<String>(&set);
            if let Ok(Ok(_)) = tokio::time::timeout(self.config.timeout, tried).await {
                self.found(part);
            }
        }
    }

    /// Says that this instance lives, and learns who else does.
    async fn beat(&self) -> Result<(), StoreError> {
        let mut script = self.scripts.heartbeat.prepare_invoke();
        script
            .key(self.names.instances())
            .arg(&self.me)
            .arg(millis(ALIVE))
            .arg(millis(REMEMBERED))
            .arg(MOST_DEAD);
        let began = self.clock.now();
        let told: Result<(u32, u32, Vec<String>), StoreError> = self
            .invoke::<Vec<redis::Value>>(&script)
            .await
            .and_then(|reply| read(&reply));
        match told {
            Ok((live, rank, dead)) => {
                let trip = self.clock.now().since(began);
                self.metrics.called(StoreScript::Heartbeat, trip);
                self.distance.lock().observe(trip);
                let roll: Roll = self.roll.load().next(live, rank, dead);
                self.metrics.instances(roll.live);
                let edition = roll.edition;
                if self.roll.swap(Arc::new(roll)).edition != edition {
                    // Those who wait behind the tickets of the dead move up.
                    let _full = self.news.try_send(StoreNews::Changed);
                }
                Ok(())
            }
            Err(error) => {
                self.metrics.failed(StoreScript::Heartbeat, error.kind());
                Err(error)
            }
        }
    }

    fn hear(&self, nth: u64, news: News) {
        match news {
            // A cluster's connection heals, but may have missed something.
            News::Gone if self.config.topology == Topology::Cluster => self.changed(),
            News::Gone => self.leave(nth),
            News::Message(text) if text == "!pauses" => {
                self.pauses_changed.store(true, Ordering::Relaxed);
                self.look.notify_one();
            }
            News::Message(text) => {
                if let Some(purge) = text.strip_prefix("!purge ") {
                    self.hear_purge(purge);
                    return;
                }
                let told = text.split_once(' ').and_then(|(line, count)| {
                    let (limit, key) = line.rsplit_once(':')?;
                    Some(StoreNews::Left {
                        limit: limit.to_owned(),
                        key: KeyId::parse(key)?,
                        count: count.parse().ok()?,
                    })
                });
                // These are many. Lost ones cost no more than the wait already foreseen,
                // which the other news would not.
                if self.news.capacity() > self.news.max_capacity() / 2 {
                    let _full = told.map(|told| self.news.try_send(told));
                }
            }
        }
    }
}

impl RedisStore {
    fn hear_purge(&self, text: &str) {
        let told = text.split_once(' ').filter(|(who, _)| *who != self.me);
        if let Some(paused) = told.and_then(|(_, which)| Paused::parse(which)) {
            let _full = self.news.try_send(StoreNews::Purge(paused));
        }
    }
}

fn read(reply: &[redis::Value]) -> Result<(u32, u32, Vec<String>), StoreError> {
    let ([live, rank], dead) = reply.split_first_chunk().ok_or(super::OddReply)?;
    let count = |value| redis::from_redis_value_ref::<u32>(value).map_err(|_odd| super::OddReply);
    let (live, rank) = (count(live)?, count(rank)?);
    let dead = dead
        .iter()
        .map(|id| redis::from_redis_value_ref(id).map_err(|_odd| super::OddReply))
        .collect::<Result<_, _>>()?;
    Ok((live, rank, dead))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
