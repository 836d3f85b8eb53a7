//! Do those who wait get their turns, and do those who leave give theirs back?

mod changes;
mod composed;
mod lines;
mod pauses;
mod shared;
mod upstreams;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::key::{KeyHasher, KeyId};
use crate::limit::{Policy, Rule};
use crate::line::Pace;
use crate::metrics::{Metrics, Reason};
use crate::store::{RedisStore, Room};
use crate::units::Clock;

/// An instance without sockets, on tokio's clock.
struct Stage {
    metrics: Arc<Metrics>,
    room: Arc<Room>,
    crowd: Arc<Crowd>,
    clock: Clock,
    timer: SlotTimer,
    gate: Gate,
}

impl Stage {
    fn new(max_in_flight: Option<u32>, max_waiting: usize) -> Arc<Self> {
        let metrics = Metrics::new();
        let clock = Clock::start();
        let timer = SlotTimer::coarse(clock);
        let ringing = timer.clone();
        tokio::spawn(async move { ringing.run(Limiter::rang).await });
        let gate = Gate::new(max_in_flight, Arc::new(metrics.upstream("up")));
        Arc::new(Self {
            metrics,
            room: Room::new(1_000),
            crowd: Crowd::new(max_waiting),
            clock,
            timer,
            gate,
        })
    }

    fn limit(
        &self,
        name: &str,
        rate: &str,
        burst: u32,
        delay: u32,
        max_wait: Option<Duration>,
    ) -> Arc<Limiter> {
        self.limit_in(None, name, rate, burst, delay, max_wait)
    }

    fn limit_in(
        &self,
        store: Option<Arc<RedisStore>>,
        name: &str,
        rate: &str,
        burst: u32,
        delay: u32,
        max_wait: Option<Duration>,
    ) -> Arc<Limiter> {
        let pace = Pace::new(rate.parse().expect("a rate"), burst, delay).expect("a pace");
        self.limit_of(store, name, Rule::Pace(pace), max_wait)
    }

    fn limit_of(
        &self,
        store: Option<Arc<RedisStore>>,
        name: &str,
        rule: Rule,
        max_wait: Option<Duration>,
    ) -> Arc<Limiter> {
        let policy = Policy {
            max_wait,
            ..Policy::new(name, "{ip}".parse().expect("a key"), rule)
        };
        Limiter::new(
            policy,
            Arc::clone(&self.room),
            Arc::clone(&self.crowd),
            self.clock,
            self.metrics.limit(name),
            store,
        )
    }

    /// Enters and waits; the answer, with the permit that comes of it.
    async fn pass(&self, claims: &[Claim], prefer: Option<Duration>) -> Result<Pass, String> {
        let mut places = Places::enter(claims, &self.gate, prefer, &self.timer)
            .map_err(|refused| refused.refusal.reason.as_str().to_owned())?;
        let passed = places.wait(&self.crowd, Duration::from_secs(1)).await;
        passed.map_err(|unserved| match unserved {
            Unserved::Refused(refused) => refused.refusal.reason.as_str().to_owned(),
            Unserved::Evicted(evicted) => format!("evicted: {}", evicted.reason.as_str()),
        })
    }

    fn shows(&self, line: &str) -> bool {
        self.metrics.render().lines().any(|shown| shown == line)
    }
}

fn key(text: &str) -> KeyId {
    KeyHasher::new("test").hash(text)
}

fn claim(limiter: &Arc<Limiter>, text: &str) -> Claim {
    Claim {
        limiter: Arc::clone(limiter),
        key: key(text),
        cost: 1,
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Starts `count` requests that come at once; tells when each went, in the order
/// in which they came, and why the others did not.
async fn burst(stage: &Arc<Stage>, claims: &[Claim], count: usize) -> Vec<Result<u128, String>> {
    let begun = Instant::now();
    let mut requests = Vec::new();
    for _ in 0..count {
        let (stage, claims) = (Arc::clone(stage), claims.to_vec());
        requests.push(tokio::spawn(async move {
            stage
                .pass(&claims, None)
                .await
                .map(|_pass| begun.elapsed().as_millis())
        }));
        tokio::task::yield_now().await;
    }
    let mut ends = Vec::new();
    for request in requests {
        ends.push(request.await.expect("no panic"));
    }
    ends
}

/// When each of them went; all did.
async fn all_served(ends: JoinHandle<Vec<Result<u128, String>>>) -> Vec<u128> {
    let ends = ends.await.expect("no panic").into_iter();
    ends.map(|end| end.expect("served")).collect()
}

/// The same as a task of its own.
fn bursting(
    stage: &Arc<Stage>,
    claims: &[Claim],
    count: usize,
) -> JoinHandle<Vec<Result<u128, String>>> {
    let (stage, claims) = (Arc::clone(stage), claims.to_vec());
    tokio::spawn(async move { burst(&stage, &claims, count).await })
}

/// Departures in steps of `step`, each at most a few timer ticks late.
fn assert_steps(ends: &[Result<u128, String>], step: u128) {
    for (index, end) in ends.iter().enumerate() {
        let (due, at) = (index as u128 * step, *end.as_ref().expect("admitted"));
        assert!(
            at >= due && at <= due + 5,
            "number {index} was due at {due} and went at {at}"
        );
    }
}
