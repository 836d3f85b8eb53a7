//! How does one bucket fare whose slots are given away on time?

use std::collections::BTreeMap;
use std::time::Duration;

use crate::line::{Bucket, Loan, Pace, Ticket, Verdict};
use crate::units::Moment;

const ZERO: Moment = Moment::from_micros(3_155_760_000_000_000);

/// A bucket, its clock in microseconds, and who went when.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) pace: Pace,
    pub(super) bucket: Bucket<usize>,
    pub(super) went: Vec<(usize, u64)>,
    pub(super) missed: u64,
    now: Moment,
    came: usize,
    tickets: BTreeMap<usize, Ticket>,
}

pub(super) fn pace(rate: &str, burst: u32, delay: u32) -> Pace {
    let rate = rate.parse().expect("a rate within bounds");
    Pace::new(rate, burst, delay).expect("a burst that drains within years")
}

pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The moment so many milliseconds after a scene began.
pub(super) fn at(millis: u64) -> Moment {
    ZERO.after(Duration::from_millis(millis))
}

impl Stage {
    pub(super) fn new(rate: &str, burst: u32, delay: u32) -> Self {
        let pace = pace(rate, burst, delay);
        let bucket = Bucket::new(&pace, ZERO);
        Self {
            pace,
            bucket,
            went: Vec::new(),
            missed: 0,
            now: ZERO,
            came: 0,
            tickets: BTreeMap::new(),
        }
    }

    /// Another pace holds from now on.
    pub(super) fn reload(&mut self, pace: Pace) {
        self.pace = pace;
        self.bucket.repace(&pace, 1, self.now);
    }

    /// Microseconds since the scene began.
    pub(super) fn micros(&self) -> u64 {
        self.now.as_micros() - ZERO.as_micros()
    }

    pub(super) fn now(&self) -> Moment {
        self.now
    }

    /// What a request would be told.
    pub(super) fn ask(&self, max_wait: Option<Duration>) -> Verdict {
        self.bucket.verdict(&self.pace, 1, self.now, max_wait)
    }

    /// A request comes, and waits or goes where there is a place.
    pub(super) fn arrive(&mut self) -> Verdict {
        let verdict = self.ask(None);
        if let Verdict::Admitted(_) = verdict {
            let who = self.came;
            self.came += 1;
            if self.bucket.goes_at_once(&self.pace, 1, self.now) {
                self.bucket.take(&self.pace, 1, self.now);
                self.went.push((who, self.micros()));
            } else {
                self.tickets.insert(who, self.bucket.join(1, self.now, who));
            }
        }
        verdict
    }

    /// So many come at once: how many have a place or went.
    pub(super) fn crowd(&mut self, count: usize) -> usize {
        (0..count)
            .filter(|_| matches!(self.arrive(), Verdict::Admitted(_)))
            .count()
    }

    pub(super) fn leave(&mut self, who: usize) -> bool {
        self.tickets
            .remove(&who)
            .is_some_and(|ticket| self.bucket.leave(ticket, self.now))
    }

    /// The slot that is due, to the one whose turn it is.
    pub(super) fn promise(&mut self) -> Option<(Ticket, usize, Loan)> {
        let promise = self.bucket.promise(&self.pace, self.now)?;
        self.missed += promise.missed;
        self.bucket.claim(promise.loan);
        Some((promise.ticket, promise.waiter, promise.loan))
    }

    /// Time passes; every slot is given away as it comes.
    pub(super) fn pass_to(&mut self, millis: u64) {
        self.pass_to_micros(millis * 1_000);
    }

    pub(super) fn pass_to_micros(&mut self, micros: u64) {
        let until = Moment::from_micros(ZERO.as_micros() + micros);
        while let Some(due) = self.bucket.due(&self.pace).filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.let_go();
        }
        self.now = until;
    }

    /// Time passes unnoticed; what is due then goes.
    pub(super) fn stall_to(&mut self, millis: u64) {
        self.now = at(millis);
        self.pass_to(millis);
    }

    /// When those who went did so, in milliseconds.
    pub(super) fn went_millis(&self) -> Vec<u64> {
        self.went.iter().map(|(_, micros)| micros / 1_000).collect()
    }

    fn let_go(&mut self) {
        let (_, who, loan) = self.promise().expect("a slot is due and someone can go");
        self.bucket.settle(&self.pace, loan, self.now);
        self.went.push((who, self.micros()));
    }
}
