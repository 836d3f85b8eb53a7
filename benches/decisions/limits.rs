//! Which limits are measured, and how is one asked?

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use weir::bucket::{Claim, Crowd, Gate, Limiter, Places, SlotTimer};
use weir::key::{KeyHasher, KeyId};
use weir::limit::{Policy, Rule};
use weir::line::Pace;
use weir::metrics::Metrics;
use weir::store::{RedisStore, Room};
use weir::units::Clock;
use weir::window::{Kind, Window};

/// So fast that no decision is a refusal: what is measured is a decision to pass.
const RATE: &str = "100000r/s";
const BURST: u32 = 1_000_000;
/// What passes of a log is kept, each by itself.
const LOGGED: u32 = 100_000;

/// No gate here is ever full, so that nobody waits for one.
const NEVER: Duration = Duration::from_secs(1);

/// All limits, by the names of their algorithms.
pub(crate) fn rules() -> Result<Vec<(&'static str, Rule)>> {
    let pace = |delay| Pace::new(RATE.parse()?, BURST, delay).map_err(anyhow::Error::from);
    let window = |kind, limit| {
        let span = Duration::from_secs(if kind == Kind::Log { 1 } else { 3_600 });
        Rule::Window(Window::new(kind, limit, span, Duration::ZERO))
    };
    Ok(vec![
        ("leaky_bucket", Rule::Pace(pace(BURST - 1)?)),
        ("token_bucket", Rule::Pace(pace(BURST)?)),
        ("fixed_window", window(Kind::Fixed, 10_000_000)),
        ("sliding_window_log", window(Kind::Log, LOGGED)),
        ("sliding_window_counter", window(Kind::Counter, 10_000_000)),
    ])
}

pub(crate) fn keys(count: usize) -> Vec<KeyId> {
    let hasher = KeyHasher::new("decisions");
    (0..count)
        .map(|nth| hasher.hash(&nth.to_string()))
        .collect()
}

/// A limit, as the proxy's requests come to it.
pub(crate) struct Limit {
    pub(crate) limiter: Arc<Limiter>,
    gate: Gate,
    crowd: Arc<Crowd>,
    clock: Clock,
}

impl Limit {
    pub(crate) fn new(
        name: &str,
        rule: Rule,
        clock: Clock,
        metrics: &Arc<Metrics>,
        store: Option<Arc<RedisStore>>,
        sync: Option<Duration>,
    ) -> Result<Self> {
        let policy = Policy {
            sync,
            ..Policy::new(name, "all".parse()?, rule)
        };
        let crowd = Crowd::new(100_000);
        let counted = metrics.limit(name);
        let room = Room::new(1_000_000);
        Ok(Self {
            limiter: Limiter::new(policy, room, Arc::clone(&crowd), clock, counted, store),
            gate: Gate::new(None, Arc::new(metrics.upstream("none"))),
            crowd,
            clock,
        })
    }

    pub(crate) fn timer(&self) -> Result<SlotTimer> {
        Ok(SlotTimer::fine(self.clock)?)
    }

    fn claim(&self, key: KeyId) -> [Claim; 1] {
        [Claim {
            limiter: Arc::clone(&self.limiter),
            key,
            cost: 1,
        }]
    }

    /// Whether one passes whom nobody else is asked about.
    pub(crate) fn passes(&self, key: KeyId, timer: &SlotTimer) -> bool {
        let claims = self.claim(key);
        let places = Places::enter(&claims, &self.gate, None, timer);
        places.is_ok_and(|mut places| places.free().is_some())
    }

    /// Whether one passes, whoever must be asked.
    pub(crate) async fn passes_in_time(&self, key: KeyId, timer: &SlotTimer) -> bool {
        let claims = self.claim(key);
        let Ok(mut places) = Places::enter(&claims, &self.gate, None, timer) else {
            return false;
        };
        places.free().is_some() || places.wait(&self.crowd, NEVER).await.is_ok()
    }
}
