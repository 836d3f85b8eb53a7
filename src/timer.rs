//! When does a runtime wake up for the next slot?
//!
//! tokio's own timers count whole milliseconds and ring about one late. Here one
//! timerfd per runtime is set for the earliest entry; whatever has become due by
//! the time it rings is handed out together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::units::{Clock, Moment};

mod alarm;

use alarm::Alarm;

/// The least time between two rings. Slots closer together than this are handed
/// out at one ring, which is far cheaper than a ring each.
const GATHER: Duration = Duration::from_micros(200);

/// One timer for many entries. Any thread may set it; it rings in the runtime
/// that called [`Timer::run`].
#[derive(Debug)]
pub struct Timer<E>(Arc<Shared<E>>);

impl<E> Clone for Timer<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<E> {
    clock: Clock,
    alarm: Alarm,
    /// Held for a push or a pop, never across an await.
    entries: Mutex<Entries<E>>,
}

#[derive(Debug)]
struct Entries<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    armed: Option<Moment>,
    /// When it was to ring last: one that rang late must not put off the next.
    rang: Moment,
}

#[derive(Debug)]
struct Entry<E> {
    when: Moment,
    what: E,
}

impl<E> Timer<E> {
    /// A timer that rings to the microsecond, as near as the kernel can.
    pub fn fine(clock: Clock) -> io::Result<Self> {
        Ok(Self::with(clock, Alarm::fine()?))
    }

    /// A timer on tokio's clock, which tests can stop.
    pub fn coarse(clock: Clock) -> Self {
        Self::with(clock, Alarm::coarse())
    }

    fn with(clock: Clock, alarm: Alarm) -> Self {
        let entries = Entries {
            heap: BinaryHeap::new(),
            armed: None,
            rang: Moment::default(),
        };
        Self(Arc::new(Shared {
            clock,
            alarm,
            entries: Mutex::new(entries),
        }))
    }

    /// Hands out `what` as soon as `when` has come.
    pub fn set(&self, when: Moment, what: E) {
        let mut entries = self.0.entries.lock();
        entries.heap.push(Reverse(Entry { when, what }));
        self.arm(&mut entries);
    }

    /// Hands each entry to `ring` when it is due, in order, forever.
    pub async fn run(&self, ring: impl Fn(Moment, E)) -> io::Result<()> {
        self.0.alarm.attach()?;
        loop {
            self.0.alarm.rung().await?;
            for entry in self.due() {
                ring(entry.when, entry.what);
            }
        }
    }

    fn due(&self) -> Vec<Entry<E>> {
        let mut due = Vec::new();
        let mut entries = self.0.entries.lock();
        let now = self.0.clock.now();
        let armed = entries.armed.take().unwrap_or(now);
        entries.rang = if armed.after(GATHER) > now {
            armed
        } else {
            now
        };
        while let Some(Reverse(entry)) = entries.heap.peek() {
            if entry.when > now {
                break;
            }
            due.extend(entries.heap.pop().map(|Reverse(entry)| entry));
        }
        self.arm(&mut entries);
        due
    }

    fn arm(&self, entries: &mut Entries<E>) {
        let Some(Reverse(first)) = entries.heap.peek() else {
            return;
        };
        let when = first.when.max(entries.rang.after(GATHER));
        if entries.armed.is_none_or(|armed| when < armed) {
            entries.armed = Some(when);
            self.0.alarm.set(when.since(self.0.clock.now()));
        }
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.when == other.when
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.when.cmp(&other.when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(clock: &Clock, micros: u64) -> Moment {
        clock.now().after(Duration::from_micros(micros))
    }

    #[tokio::test(start_paused = true)]
    async fn entries_come_in_the_order_of_their_time() {
        let clock = Clock::start();
        let timer = Timer::coarse(clock);
        for millis in [30_u64, 10, 20] {
            timer.set(after(&clock, millis * 1_000), millis);
        }
        let (sent, mut rung) = tokio::sync::mpsc::unbounded_channel();
        let begun = clock.now();
        let run = timer.run(|_, millis| {
            sent.send((millis, clock.now().since(begun).as_millis()))
                .expect("a receiver");
        });
        let three = async {
            for expected in [10, 20, 30] {
                let (millis, at) = rung.recv().await.expect("an entry");
                assert_eq!(u128::from(millis), expected);
                assert!(
                    (expected..expected + 3).contains(&at),
                    "{expected} rang at {at}"
                );
            }
        };
        tokio::select! { () = three => (), ended = run => panic!("{ended:?}") }
    }

    #[tokio::test]
    async fn a_fine_timer_rings_on_time_and_never_early() {
        let clock = Clock::start();
        let timer = Timer::fine(clock).expect("a timer");
        let (sent, mut rung) = tokio::sync::mpsc::unbounded_channel();
        let run = timer.run(|when, ()| {
            sent.send((when, clock.now())).expect("a receiver");
        });
        let rings = async {
            for micros in [5_000, 300, 1, 2_000] {
                timer.set(after(&clock, micros), ());
                let (when, now) = rung.recv().await.expect("an entry");
                assert!(now >= when, "rang {:?} early", when.since(now));
            }
        };
        tokio::select! { () = rings => (), ended = run => panic!("{ended:?}") }
    }
}
