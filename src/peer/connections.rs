//! How many connections are open?

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::metrics::ConnectionMetrics;

/// The connections of a listener, up to a bound.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    open: AtomicUsize,
    metrics: ConnectionMetrics,
}

/// One connection; counted until dropped.
#[derive(Debug)]
pub struct Open(Arc<Connections>);

impl Connections {
    /// None yet, and never more than `most`.
    pub fn new(most: usize, metrics: ConnectionMetrics) -> Arc<Self> {
        Arc::new(Self {
            most,
            open: AtomicUsize::new(0),
            metrics,
        })
    }

    /// One more, where there is room.
    pub fn open(self: &Arc<Self>) -> Option<Open> {
        if self.open.fetch_add(1, Ordering::SeqCst) >= self.most {
            self.open.fetch_sub(1, Ordering::SeqCst);
            self.metrics.refused();
            return None;
        }
        self.metrics.opened();
        Some(Open(Arc::clone(self)))
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// What is counted.
    pub fn metrics(&self) -> &ConnectionMetrics {
        &self.metrics
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.metrics.closed();
    }
}
