//! How long may something stand still?

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Ends a wait that lasts too long. One timer serves many waits: it is made with
/// the first, and set anew only when it rings before its time.
#[derive(Debug)]
pub(super) struct Patience {
    most: Duration,
    until: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    /// Patience for waits of `most`.
    pub(super) const fn new(most: Duration) -> Self {
        Self {
            most,
            until: None,
            timer: None,
        }
    }

    /// The longest wait.
    pub(super) const fn most(&self) -> Duration {
        self.most
    }

    /// Something came: the next wait begins anew.
    pub(super) fn moved(&mut self) {
        self.until = None;
    }

    /// Nothing came: ready once that has lasted too long.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let most = self.most;
        let until = *self.until.get_or_insert_with(|| Instant::now() + most);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_end() {
        let begun = Instant::now();
        let mut patience = Patience::new(Duration::from_secs(10));
        for _ in 0..3 {
            let came =
                tokio::time::timeout(Duration::from_secs(7), poll_fn(|cx| patience.poll(cx)));
            assert!(
                came.await.is_err(),
                "it moved before the end of its patience"
            );
            patience.moved();
        }
        poll_fn(|cx| patience.poll(cx)).await;
        assert_eq!(begun.elapsed().as_secs(), 31);
    }
}
