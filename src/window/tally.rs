//! How many passed under this key, and who gives it back?

use std::time::Duration;

use super::counter::Counter;
use super::fixed::Fixed;
use super::log::Log;
use super::shared::Part;
use super::sync::Figures;
use super::{Kind, Window, share};
use crate::units::{Moment, Remaining};

/// What passed under one key. `T` is how one is reached who asked the store.
#[derive(Debug)]
pub struct Tally<T> {
    count: Count,
    /// All that ever passed: it goes up only, so that whoever knows more than the store
    /// knows that the store forgot.
    pub(super) number: u64,
    /// Where other instances share it: this one's part of it.
    pub(super) part: Option<Box<Part<T>>>,
}

#[derive(Debug)]
enum Count {
    Fixed(Fixed),
    Log(Log),
    Counter(Counter),
}

/// Whether one may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has passed, and may yet give that back.
    Passed(Loan),
    /// It may not before so long.
    Refused(Duration),
}

/// What a request took that is not served yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    pub(super) at: Moment,
    /// Of those that it took, the first one's.
    pub(super) number: u64,
    pub(super) cost: u32,
    /// Whether it was the store that let it pass.
    pub(super) shared: bool,
}

impl<T> Tally<T> {
    /// Nothing has passed yet.
    pub fn new(window: &Window) -> Self {
        Self {
            count: Count::new(window),
            number: 0,
            part: None,
        }
    }

    /// Lets one pass that costs so much, or says when it may. One that costs more than
    /// the limit never may.
    pub fn ask(&mut self, window: &Window, now: Moment, cost: u32) -> Verdict {
        let at = self.advance(window, now);
        if u64::from(cost) > self.room(window, at) {
            return Verdict::Refused(self.free_in(window, now, cost));
        }
        Verdict::Passed(self.take(at, cost))
    }

    /// Counts one, whether there is room or not.
    pub(super) fn take(&mut self, at: Moment, cost: u32) -> Loan {
        let number = self.number.saturating_add(1);
        match &mut self.count {
            Count::Fixed(fixed) => fixed.take(cost),
            Count::Log(log) => log.take(at.as_micros(), number, cost),
            Count::Counter(counter) => counter.take(cost),
        }
        self.number = self.number.saturating_add(u64::from(cost));
        Loan {
            at,
            number,
            cost,
            shared: false,
        }
    }

    /// Counts so much that passed at `at` without being numbered, where that still counts.
    pub(super) fn add(&mut self, at: Moment, cost: u32) {
        match &mut self.count {
            Count::Fixed(fixed) if at.as_micros() >= fixed.start => fixed.take(cost),
            Count::Counter(counter) if at.as_micros() >= counter.start => counter.take(cost),
            Count::Log(log) => log.take(at.as_micros(), 0, cost),
            Count::Fixed(_) | Count::Counter(_) => (),
        }
    }

    /// Who passed was not served: it is as if it had never come.
    pub(super) fn undo(&mut self, loan: Loan) {
        let at = loan.at.as_micros();
        match &mut self.count {
            Count::Fixed(fixed) => fixed.give_back(at, loan.cost),
            Count::Log(log) => log.give_back(loan.number),
            Count::Counter(counter) => counter.give_back(at, loan.cost),
        }
    }

    /// What would still pass, by ones.
    pub fn remaining(&mut self, window: &Window, now: Moment, cost: u32) -> Remaining {
        let at = self.advance(window, now);
        let admits = self.room(window, at);
        let free_in = if admits >= u64::from(cost) {
            Duration::ZERO
        } else {
            self.free_in(window, now, cost)
        };
        let now = now.as_micros();
        let idle_in = match &self.count {
            Count::Fixed(fixed) => fixed.idle_in(now),
            Count::Log(log) => log.idle_in(window.span, now),
            Count::Counter(counter) => counter.idle_in(now),
        };
        Remaining {
            admits,
            free_in,
            idle_in,
        }
    }

    /// Until so much may pass, as far as is known, where it may not now.
    pub(super) fn free_in(&self, window: &Window, now: Moment, cost: u32) -> Duration {
        let now = now.as_micros();
        match &self.count {
            Count::Fixed(fixed) => fixed.free_in(now),
            Count::Log(log) => log.free_in(window, now, cost),
            Count::Counter(counter) => counter.free_in(u64::from(window.limit), now, cost),
        }
    }

    /// Whether the key is as if nobody had come: it can be forgotten.
    pub fn is_idle(&self, window: &Window, now: Moment) -> bool {
        let now = now.as_micros();
        let idle_in = match &self.count {
            Count::Fixed(fixed) => fixed.idle_in(now),
            Count::Log(log) => log.idle_in(window.span, now),
            Count::Counter(counter) => counter.idle_in(now),
        };
        idle_in.is_zero() && self.is_quiet()
    }

    /// Goes on to `now`; the time that counts, for a clock that stepped back. Where it
    /// was counted in another way, it begins anew.
    pub(super) fn advance(&mut self, window: &Window, now: Moment) -> Moment {
        if self.count.kind() != window.kind {
            self.count = Count::new(window);
        }
        let now = now.as_micros();
        Moment::from_micros(match &mut self.count {
            Count::Fixed(fixed) => fixed.advance(window, now),
            Count::Log(log) => log.advance(window, now),
            Count::Counter(counter) => counter.advance(window, now),
        })
    }

    fn room(&self, window: &Window, at: Moment) -> u64 {
        let limit = u64::from(window.limit);
        match &self.count {
            Count::Fixed(fixed) => limit.saturating_sub(fixed.used()),
            Count::Log(log) => log.room(limit, at.as_micros()),
            Count::Counter(counter) => limit.saturating_sub(counter.used(at.as_micros())),
        }
    }

    /// When the present window began; where there are none, nothing.
    pub(super) fn start(&self) -> Moment {
        Moment::from_micros(match &self.count {
            Count::Fixed(fixed) => fixed.start,
            Count::Counter(counter) => counter.start,
            Count::Log(_) => 0,
        })
    }

    /// What the store says of it.
    pub(super) fn tell(&mut self, window: &Window, figures: Figures) {
        if self.count.kind() != window.kind {
            self.count = Count::new(window);
        }
        match &mut self.count {
            Count::Fixed(fixed) => fixed.tell(figures.0, window.span),
            Count::Log(log) => log.tell(figures.0),
            Count::Counter(counter) => counter.tell(figures.0, window.span),
        }
    }

    /// One instance's part of what is known of the whole: what is left of that goes to
    /// all in parts.
    pub(super) fn scale(&mut self, window: &Window, instances: u32, rank: u32) {
        let limit = u64::from(window.limit);
        let part = |count: u64| {
            let left = share(limit.saturating_sub(count), instances, rank);
            share(limit, instances, rank).saturating_sub(left)
        };
        match &mut self.count {
            Count::Fixed(fixed) => fixed.scale(part),
            Count::Log(log) => log.scale(part),
            Count::Counter(counter) => counter.scale(part),
        }
    }
}

impl Count {
    fn new(window: &Window) -> Self {
        match window.kind {
            Kind::Fixed => Self::Fixed(Fixed::default()),
            Kind::Log => Self::Log(Log::default()),
            Kind::Counter => Self::Counter(Counter::default()),
        }
    }

    const fn kind(&self) -> Kind {
        match self {
            Self::Fixed(_) => Kind::Fixed,
            Self::Log(_) => Kind::Log,
            Self::Counter(_) => Kind::Counter,
        }
    }
}
