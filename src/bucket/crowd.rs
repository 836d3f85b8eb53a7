//! How many wait in this instance, all limits and upstreams together?

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts those who wait, up to a bound.
#[derive(Debug)]
pub struct Crowd {
    most: usize,
    waiting: AtomicUsize,
}

/// One who waits; counted until dropped.
#[derive(Debug)]
pub(super) struct InCrowd(Arc<Crowd>);

impl Crowd {
    /// Room for `most`.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            waiting: AtomicUsize::new(0),
        })
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// One more, where there is room.
    pub(super) fn join(self: &Arc<Self>) -> Option<InCrowd> {
        let more = |waiting| (waiting < self.most).then_some(waiting + 1);
        let joined = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        joined.is_ok().then(|| InCrowd(Arc::clone(self)))
    }

    /// One more, who was among them a moment ago.
    pub(super) fn rejoin(self: &Arc<Self>) -> InCrowd {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        InCrowd(Arc::clone(self))
    }
}

impl Drop for InCrowd {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
