//! How is it remembered what happens, while it happens on several threads?

use parking_lot::Mutex;
use std::time::{Duration, Instant};

use super::scene::{Scene, Step};

/// Notes the steps of one act after another. The lock is held for a moment, and
/// never across an await.
#[derive(Debug)]
pub(super) struct Tape(Mutex<(Instant, Scene)>);

impl Tape {
    /// An empty tape.
    pub(super) fn new() -> Self {
        Self(Mutex::new((Instant::now(), Scene::default())))
    }

    /// Forgets the act before; the next begins now.
    pub(super) fn rewind(&self) {
        *self.0.lock() = (Instant::now(), Scene::default());
    }

    /// Notes that `step` happens now.
    pub(super) fn note(&self, step: Step) {
        let now = Instant::now();
        let mut tape = self.0.lock();
        let since = now.saturating_duration_since(tape.0);
        tape.1.note(since, step);
    }

    /// How long the act has run, and what happened so far.
    pub(super) fn so_far(&self) -> (Duration, Scene) {
        let tape = self.0.lock();
        (tape.0.elapsed(), tape.1.clone())
    }
}
