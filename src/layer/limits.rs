//! What do all requests before a service share?

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::error;

use super::LayerError;
use super::reading::Reading;
use crate::bucket::{Claims, Crowd, Gate, Limiter, Pass, Places, SlotTimer};
use crate::key::KeyHasher;
use crate::limit::Policy;
use crate::metrics::Metrics;
use crate::proxy::claim;
use crate::respond::{Malformed, Rejection};
use crate::store::Room;
use crate::units::Clock;

/// The proxy's defaults of `max_waiting` and `max_keys`.
const MOST_WAITING: usize = 50_000;
const MOST_KEYS: usize = 1_000_000;

/// Idle keys are forgotten in so many parts, one at a time.
const SWEEP_PARTS: usize = 16;
const SWEEP: Duration = Duration::from_secs(1);

/// No gate here is ever full, so that nobody waits for one.
const NEVER: Duration = Duration::from_secs(1);

/// A limit with its buckets, its timer and the tasks that keep both.
#[derive(Debug)]
pub(super) struct Limits {
    limiter: Arc<Limiter>,
    gate: Gate,
    crowd: Arc<Crowd>,
    timer: SlotTimer,
    hasher: KeyHasher,
    metrics: Arc<Metrics>,
    tasks: [AbortHandle; 2],
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Limits {
    /// A limit to which nobody has come, in the runtime that it is now.
    pub(super) fn begin(policy: Policy) -> Result<Self, LayerError> {
        let runtime = Handle::try_current().map_err(|_outside| LayerError::NoRuntime)?;
        let clock = Clock::start();
        let timer = SlotTimer::fine(clock).map_err(LayerError::Timer)?;
        let metrics = Metrics::new();
        let crowd = Crowd::new(MOST_WAITING);
        let hasher = KeyHasher::new("");
        let policy = policy.resolved(&hasher);
        let counted = metrics.limit(&policy.name);
        let gate = Gate::new(None, Arc::new(metrics.upstream("service")));
        let room = Room::new(MOST_KEYS);
        let limiter = Limiter::new(policy, room, Arc::clone(&crowd), clock, counted, None);
        let ringing = runtime.spawn(ring(timer.clone()));
        let sweeping = runtime.spawn(sweep(Arc::clone(&limiter), Arc::clone(&metrics)));
        Ok(Self {
            limiter,
            gate,
            crowd,
            timer,
            hasher,
            metrics,
            tasks: [ringing.abort_handle(), sweeping.abort_handle()],
        })
    }

    /// The key that a request claims a slot for; none where the limit doesn't count it.
    pub(super) fn claims(&self, parts: &Parts, reading: &Reading) -> Result<Claims, Rejection> {
        let sight = reading.look(parts).map_err(Malformed::from)?;
        let key = |policy: &Policy| reading.key(policy, &sight, &self.hasher);
        Ok(claim(&self.limiter, &sight.facts(), &self.hasher, key)?
            .into_iter()
            .collect())
    }

    /// Waits for the request's turn; how long that took, where it had to wait. Dropped
    /// before, its place is free.
    pub(super) async fn wait(
        &self,
        claims: &Claims,
        max_wait: Option<Duration>,
    ) -> Result<Option<Duration>, Rejection> {
        let mut places =
            Places::enter(claims, &self.gate, max_wait, &self.timer).map_err(Rejection::Refused)?;
        let Pass { waited, .. } = match places.free() {
            Some(pass) => pass,
            None => places.wait(&self.crowd, NEVER).await?,
        };
        Ok(waited)
    }

    pub(super) fn render(&self) -> String {
        self.metrics.render()
    }
}

/// Hands out turns when they are due.
async fn ring(timer: SlotTimer) {
    if let Err(failed) = timer.run(Limiter::rang).await {
        error!(error = %failed, "no timer: those who wait get no turn");
    }
}

/// Forgets idle keys, and what histograms no longer need.
async fn sweep(limiter: Arc<Limiter>, metrics: Arc<Metrics>) {
    let mut rounds = tokio::time::interval(SWEEP);
    for part in (0..SWEEP_PARTS).cycle() {
        rounds.tick().await;
        limiter.sweep(part, SWEEP_PARTS);
        metrics.tidy();
    }
}
