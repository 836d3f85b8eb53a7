//! What do the definitions alone say of a bucket, worked out anew from its history?

use std::time::Duration;

use crate::line::{Crowded, Verdict};
use crate::units::Moment;
use crate::units::Remaining;

/// How late a slot may be used, at most, and keep the grid.
pub(super) const TOLERANCE: Duration = Duration::from_millis(2);

/// A limit as it is written: `requests` in every `micros` microseconds.
///
/// The model's clock ticks `requests` times in a microsecond, so that an
/// interval is `micros` ticks and nothing is ever rounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) requests: i128,
    pub(super) micros: i128,
    pub(super) burst: i128,
    pub(super) delay: i128,
}

/// What became of a slot that someone had in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    InHand,
    Served,
    Returned,
}

/// One who was let go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub(super) who: usize,
    pub(super) at: Moment,
    pub(super) cost: i128,
    /// From when on its slots count, where it waited: nobody might go before, or it
    /// was not there yet.
    pub(super) from: Moment,
    pub(super) waited: bool,
    pub(super) fate: Fate,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    who: usize,
    can_go: bool,
    cost: i128,
    joined: Moment,
}

/// A bucket as its history: everyone who went, everyone who waits.
#[derive(Clone, Debug)]
pub(super) struct Model {
    limit: Limit,
    began: Moment,
    hold: Moment,
    /// The next free slot, in ticks.
    next: i128,
    /// What it was, and how many had gone, when the oldest slot in hand was lent.
    settled: (i128, usize),
    exits: Vec<Exit>,
    line: Vec<Place>,
}

impl Limit {
    /// How late a slot may be used and keep the grid: two intervals, but half a
    /// millisecond at least and two at most.
    pub(super) fn tolerance(&self) -> i128 {
        let least = self.ticks(Duration::from_micros(500));
        (2 * self.micros).clamp(least, self.ticks(TOLERANCE))
    }

    pub(super) fn has_line(self) -> bool {
        self.burst > self.delay
    }

    pub(super) fn ticks(self, span: Duration) -> i128 {
        i128::try_from(span.as_micros()).expect("spans in tests are short") * self.requests
    }

    /// How long a request may wait for its slot.
    pub(super) fn patience(self) -> i128 {
        if self.has_line() {
            (self.burst - self.delay) * self.micros
        } else {
            (self.micros / 2).min(self.ticks(Duration::from_millis(1)))
        }
    }

    fn clock(self, moment: Moment) -> i128 {
        i128::from(moment.as_micros()) * self.requests
    }

    fn credit(self) -> i128 {
        self.delay * self.micros
    }

    fn span(self, ticks: i128) -> Duration {
        let up = (ticks.max(0) + self.requests - 1) / self.requests;
        Duration::from_micros(u64::try_from(up).expect("spans in tests are short"))
    }
}

impl Model {
    pub(super) fn new(limit: Limit, began: Moment) -> Self {
        let idle = limit.clock(began) - limit.credit();
        Self {
            limit,
            began,
            hold: Moment::default(),
            next: idle,
            settled: (idle, 0),
            exits: Vec::new(),
            line: Vec::new(),
        }
    }

    pub(super) fn join(&mut self, who: usize, can_go: bool, cost: i128, joined: Moment) {
        self.line.push(Place {
            who,
            can_go,
            cost,
            joined,
        });
        self.line.sort_by_key(|place| place.who);
    }

    pub(super) fn leave(&mut self, who: usize) {
        self.line.retain(|place| place.who != who);
    }

    pub(super) fn ready(&mut self, who: usize) {
        let place = self.line.iter().find(|place| place.who == who);
        let Place { cost, joined, .. } = *place.expect("who is ready has waited");
        self.leave(who);
        self.join(who, true, cost, joined);
    }

    pub(super) fn hold(&mut self, until: Moment) {
        self.hold = self.hold.max(until);
    }

    pub(super) fn held_until(&self) -> Moment {
        self.hold
    }

    pub(super) fn go(&mut self, who: usize, at: Moment, cost: i128) {
        let place = self.line.iter().find(|place| place.who == who);
        let waited = place.is_some();
        let from = place.map_or(self.hold, |place| self.hold.max(place.joined));
        self.leave(who);
        let fate = Fate::InHand;
        if self.exits.iter().all(|exit| exit.fate != fate) {
            self.settled = (self.next, self.exits.len());
        }
        let exit = Exit {
            who,
            at,
            cost,
            from,
            waited,
            fate,
        };
        self.next = self.after(self.next, &exit);
        self.exits.push(exit);
    }

    /// What one had in hand is used, or comes back: then `next` is what it would
    /// be if it had never gone, and nobody has to wait longer for it.
    pub(super) fn end(&mut self, who: usize, fate: Fate) {
        let exit = self.exits.iter_mut().rfind(|exit| exit.who == who);
        exit.expect("only those who went have a slot").fate = fate;
        if fate == Fate::Returned {
            let (next, count) = self.settled;
            self.next = self.next.min(self.without_returned(next, count));
        }
    }

    /// Whether those who came back left nothing at all, not even an exit that
    /// was in time and would have been late without them.
    pub(super) fn is_without_trace(&self) -> bool {
        let idle = self.limit.clock(self.began) - self.limit.credit();
        self.next == self.without_returned(idle, 0)
    }

    /// Those who were let go and did not come back.
    pub(super) fn gone(&self) -> impl Iterator<Item = &Exit> {
        self.exits.iter().filter(|exit| exit.fate != Fate::Returned)
    }

    /// Those who wait and could go, first come first.
    pub(super) fn could_go(&self) -> impl Iterator<Item = usize> {
        self.line
            .iter()
            .filter(|place| place.can_go)
            .map(|place| place.who)
    }

    /// Those who wait, whether they could go or not.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> {
        self.line.iter().map(|place| place.who)
    }

    /// When the first who could go has its turn.
    pub(super) fn due(&self) -> Option<Moment> {
        let limit = self.limit;
        let first = self.line.iter().find(|place| place.can_go)?;
        let counted = limit.clock(self.hold.max(first.joined)) - limit.credit();
        let last = self.next.max(counted) + (first.cost - 1) * limit.micros;
        let micros = u64::try_from(last / limit.requests).expect("after zero");
        Some(self.hold.max(Moment::from_micros(micros)))
    }

    pub(super) fn goes_at_once(&self, now: Moment, cost: i128) -> bool {
        let (limit, clock) = (self.limit, self.limit.clock(now));
        let from = self.next.max(clock - limit.credit());
        let due = from + (cost - 1) * limit.micros < clock + limit.requests;
        !self.limit.has_line() || (due && self.hold <= now && self.could_go().next().is_none())
    }

    pub(super) fn verdict(&self, now: Moment, cost: i128, max_wait: Option<Duration>) -> Verdict {
        let (limit, clock) = (self.limit, self.limit.clock(now));
        let ahead = (self.ahead() + cost - 1) * limit.micros;
        let free = self.free(now);
        // What is free once a hold is over, if nobody goes before.
        let held = free.max(limit.clock(self.hold) - limit.credit());
        let turn = (held + ahead).max(limit.clock(self.hold));
        let wait = limit.span(turn - clock);
        let too_long = max_wait.map_or(Duration::ZERO, |most| wait.saturating_sub(most));
        if free + ahead - clock > limit.patience() {
            let first = if self.ahead() + cost - 1 > limit.burst {
                held
            } else {
                free
            };
            let place = limit.span(first + ahead - limit.patience() - clock);
            Verdict::Refused(Crowded::Full(place.max(too_long)))
        } else if too_long > Duration::ZERO {
            Verdict::Refused(Crowded::MaxWait(too_long))
        } else {
            Verdict::Admitted(wait)
        }
    }

    /// Lets a crowd come, and counts those who get in.
    pub(super) fn remaining(
        &self,
        now: Moment,
        cost: i128,
        max_wait: Option<Duration>,
    ) -> Remaining {
        let (limit, clock) = (self.limit, self.limit.clock(now));
        let free_in = match self.verdict(now, cost, max_wait) {
            Verdict::Admitted(_) => Duration::ZERO,
            Verdict::Refused(Crowded::Full(free) | Crowded::MaxWait(free)) => free,
        };
        let mut crowd = self.clone();
        let mut admits = 0;
        while let Verdict::Admitted(_) = crowd.verdict(now, 1, max_wait) {
            admits += 1;
            let who = usize::MAX;
            if crowd.goes_at_once(now, 1) {
                crowd.go(who, now, 1);
            } else {
                crowd.join(who, true, 1, now);
            }
        }
        let last = self.free(now) + self.ahead() * limit.micros;
        let idle_in = limit
            .span(last + limit.credit() - clock)
            .max(self.hold.since(now));
        Remaining {
            admits,
            free_in,
            idle_in,
        }
    }

    /// The first slot that anyone can have: while one waits for several, those that
    /// come are its own.
    fn free(&self, now: Moment) -> i128 {
        let (limit, idle) = (self.limit, self.limit.clock(now) - self.limit.credit());
        let first = self.line.iter().find(|place| place.can_go);
        let gathered = first.map(|first| {
            let since = first.joined.max(self.hold).min(now);
            let joined = limit.clock(since) - limit.credit();
            joined.max(idle - (first.cost - 1) * limit.micros)
        });
        self.next.max(gathered.unwrap_or(idle))
    }

    fn ahead(&self) -> i128 {
        self.line.iter().map(|place| place.cost).sum()
    }

    /// What `next` would be, had none of those gone who came back; the first
    /// `count` exits are in it.
    fn without_returned(&self, next: i128, count: usize) -> i128 {
        let since = self.exits.iter().skip(count);
        let gone = since.filter(|exit| exit.fate != Fate::Returned);
        gone.fold(next, |next, exit| self.after(next, exit))
    }

    /// The next free slot once `next` was used.
    fn after(&self, next: i128, exit: &Exit) -> i128 {
        let limit = self.limit;
        let floor = limit.clock(exit.at) - limit.credit();
        if !exit.waited {
            return next.max(floor) + exit.cost * limit.micros;
        }
        let first = next.max(limit.clock(exit.from) - limit.credit());
        let last = first + (exit.cost - 1) * limit.micros;
        last.max(floor - limit.tolerance()) + limit.micros
    }
}
