//! Which servers are away, so that nobody waits for them in vain?

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// One for each part of the keys.
#[derive(Debug)]
pub(super) struct Breakers {
    parts: Vec<Breaker>,
    open: AtomicUsize,
}

#[derive(Debug, Default)]
struct Breaker {
    is_open: AtomicBool,
    /// A key on the server that failed, to try it by.
    probe: Mutex<String>,
}

impl Breakers {
    /// All are closed.
    pub(super) fn new(parts: usize) -> Self {
        Self {
            parts: std::iter::repeat_with(Breaker::default)
                .take(parts)
                .collect(),
            open: AtomicUsize::new(0),
        }
    }

    pub(super) fn is_open(&self, part: usize) -> bool {
        self.parts
            .get(part)
            .is_some_and(|breaker| breaker.is_open.load(Ordering::Relaxed))
    }

    pub(super) fn any_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Opens one. False where it was open already.
    pub(super) fn open(&self, part: usize, probe: &str) -> bool {
        let Some(breaker) = self.parts.get(part) else {
            return false;
        };
        probe.clone_into(&mut breaker.probe.lock());
        let opened = !breaker.is_open.swap(true, Ordering::SeqCst);
        self.open.fetch_add(usize::from(opened), Ordering::SeqCst);
        opened
    }

    /// Closes one. False where it was closed already.
    pub(super) fn close(&self, part: usize) -> bool {
        let Some(breaker) = self.parts.get(part) else {
            return false;
        };
        let closed = breaker.is_open.swap(false, Ordering::SeqCst);
        self.open.fetch_sub(usize::from(closed), Ordering::SeqCst);
        closed
    }

    /// Those that are open, and keys to try them by.
    pub(super) fn to_probe(&self) -> Vec<(usize, String)> {
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(_, breaker)| breaker.is_open.load(Ordering::Relaxed))
            .map(|(part, breaker)| (part, breaker.probe.lock().clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_that_a_breaker_opens_or_closes() {
        let breakers = Breakers::new(2);
        assert!(!breakers.any_open() && !breakers.is_open(1));
        assert_eq!(
            [breakers.open(1, "a"), breakers.open(1, "b")],
            [true, false]
        );
        assert!(breakers.is_open(1) && !breakers.is_open(0));
        assert_eq!(breakers.to_probe(), [(1, "b".to_owned())]);
        assert_eq!([breakers.close(1), breakers.close(1)], [true, false]);
        assert!(!breakers.any_open());
    }
}
