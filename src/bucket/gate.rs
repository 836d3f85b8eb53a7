//! May one more request go to this upstream now?

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::metrics::UpstreamMetrics;

/// Keeps an upstream's `max_in_flight`, first come, first served, and lets
/// nobody through while its health probe fails.
#[derive(Debug)]
pub struct Gate {
    permits: Option<Arc<Semaphore>>,
    /// Those who wait pass one by one, in the order in which they came.
    turnstile: Arc<Semaphore>,
    well: watch::Sender<bool>,
    /// The same, to be read by every request: a look at the channel locks it.
    is_well: AtomicBool,
    /// Every permit shares it, which is how they are counted.
    under_way: Arc<UnderWay>,
}

/// A request's right to be under way, up to the end of its answer.
#[derive(Debug)]
pub struct Permit {
    _one_of_many: Option<OwnedSemaphorePermit>,
    _under_way: Arc<UnderWay>,
}

/// Those who are under way through a gate: none any more when it is dropped.
#[derive(Debug)]
struct UnderWay(Arc<UpstreamMetrics>);

/// Held by the one who passes; none where the gate is being torn down.
pub(super) type Turnstile = Option<OwnedSemaphorePermit>;

type TurnstileFuture = dyn Future<Output = Turnstile> + Send;

/// Which gate a request must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateId(usize);

/// A place before a gate.
pub(super) struct Queue(Pin<Box<TurnstileFuture>>);

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl Gate {
    /// A gate that lets `max_in_flight` through at once.
    pub fn new(max_in_flight: Option<u32>, metrics: Arc<UpstreamMetrics>) -> Self {
        metrics.up(true);
        metrics.bounded(max_in_flight);
        Self {
            permits: max_in_flight.map(|most| Arc::new(Semaphore::new(most as usize))),
            turnstile: Arc::new(Semaphore::new(1)),
            well: watch::Sender::new(true),
            is_well: AtomicBool::new(true),
            under_way: Arc::new(UnderWay(metrics)),
        }
    }

    /// A permit, where one is free and nobody waits for it.
    pub fn try_enter(&self) -> Option<Permit> {
        if !self.is_well() {
            return None;
        }
        match &self.permits {
            None => Some(self.permit(None)),
            Some(permits) => {
                let permit = Arc::clone(permits).try_acquire_owned().ok()?;
                Some(self.permit(Some(permit)))
            }
        }
    }

    /// Which gate this is, among all.
    pub(super) fn id(&self) -> GateId {
        GateId(std::ptr::from_ref(self).addr())
    }

    /// A place before the gate, behind all who came before this call.
    pub(super) fn queue(&self) -> Queue {
        let turnstile = Arc::clone(&self.turnstile).acquire_owned();
        let mut turnstile: Pin<Box<TurnstileFuture>> = Box::pin(turnstile.map(Result::ok));
        // A semaphore counts its waiters from their first poll.
        match turnstile.as_mut().now_or_never() {
            Some(passing) => Queue(Box::pin(std::future::ready(passing))),
            None => Queue(turnstile),
        }
    }

    /// A permit, as soon as it is the turn of `queue`. The next one passes when
    /// the turnstile is let go, which gives this one time to take its place.
    pub(super) async fn enter(&self, queue: &mut Queue) -> (Permit, Turnstile) {
        let turnstile = queue.0.as_mut().await;
        let permit = match &self.permits {
            None => None,
            Some(permits) => Arc::clone(permits).acquire_owned().await.ok(),
        };
        // The sender lives as long as the gate.
        drop(self.well.subscribe().wait_for(|well| *well).await);
        (self.permit(permit), turnstile)
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> usize {
        Arc::strong_count(&self.under_way).saturating_sub(1)
    }

    /// Tells the metrics how many requests are under way.
    pub fn observe(&self) {
        self.under_way.0.in_flight(self.in_flight());
    }

    /// Whether the upstream's health probe succeeds.
    pub fn is_well(&self) -> bool {
        self.is_well.load(Ordering::SeqCst)
    }

    /// Says whether the upstream's health probe succeeds.
    pub fn set_well(&self, well: bool) {
        self.is_well.store(well, Ordering::SeqCst);
        self.well.send_replace(well);
        self.under_way.0.up(well);
    }

    fn permit(&self, permit: Option<OwnedSemaphorePermit>) -> Permit {
        Permit {
            _one_of_many: permit,
            _under_way: Arc::clone(&self.under_way),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.in_flight(0);
    }
}
