//! What do a bucket and its model make of the same events?

use std::collections::BTreeMap;
use std::time::Duration;

use super::events::{Policy, Span, Step, Waker};
use super::model::{Fate, Model};
use crate::line::{Bucket, Loan, Promise, Ticket, Verdict};
use crate::units::Moment;
use crate::units::Remaining;

/// What a request that arrives is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) verdict: Verdict,
    pub(super) remaining: Remaining,
    pub(super) goes_at_once: bool,
}

/// Someone goes; those who waited and could have gone are looking on.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) who: usize,
    pub(super) looking_on: Vec<usize>,
}

/// The same question to the bucket and to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair<A> {
    pub(super) bucket: A,
    pub(super) model: A,
}

/// A slot in the hand of one who has not been served yet.
#[derive(Debug)]
struct Hand {
    who: usize,
    cost: u32,
    joined: Moment,
    loan: Loan,
    ticket: Option<Ticket>,
}

/// A bucket and its model, and what was seen while they lived.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) policy: Policy,
    pub(super) began: Moment,
    pub(super) now: Moment,
    pub(super) bucket: Bucket<usize>,
    pub(super) model: Model,
    pub(super) replies: Vec<Pair<Reply>>,
    pub(super) turns: Vec<Turn>,
    /// When the next one is due, after each step.
    pub(super) dues: Vec<Pair<Option<Moment>>>,
    /// Whether a slot was to be had, each time that someone asked for one.
    pub(super) promises: Vec<Pair<bool>>,
    /// When the next one was due, and for when a timer was set.
    pub(super) alarms: Vec<(Option<Moment>, Option<Moment>)>,
    timer: Option<Moment>,
    came: usize,
    tickets: BTreeMap<usize, Ticket>,
    blocked: Vec<usize>,
    hands: Vec<Hand>,
}

impl Scene {
    pub(super) fn new(policy: Policy, began: Moment) -> Self {
        Self {
            policy,
            began,
            now: began,
            bucket: Bucket::new(&policy.pace, began),
            model: Model::new(policy.limit, began),
            replies: Vec::new(),
            turns: Vec::new(),
            dues: Vec::new(),
            promises: Vec::new(),
            alarms: Vec::new(),
            timer: None,
            came: 0,
            tickets: BTreeMap::new(),
            blocked: Vec::new(),
            hands: Vec::new(),
        }
    }

    pub(super) fn live(mut self, steps: &[Step]) -> Self {
        for step in steps {
            self.play(step);
            self.look();
        }
        self
    }

    /// Everyone who waits leaves; slots in hand are used or come back in turn.
    pub(super) fn empty(&mut self) {
        for who in self.model.waiting().collect::<Vec<_>>() {
            self.leave(who);
        }
        while !self.hands.is_empty() {
            let even = self.hands.len().is_multiple_of(2);
            let fate = if even { Fate::Served } else { Fate::Returned };
            self.end(0, fate);
        }
        self.look();
    }

    /// Nobody is held up by anything but the slots, and no slot is overdue.
    pub(super) fn unblock(&mut self) {
        while !self.blocked.is_empty() {
            self.ready(0);
        }
        self.pass_until(self.now, Waker::OnTime, false);
    }

    /// A request that may wait for good: when it joins or goes at once, its number.
    pub(super) fn arrive(
        &mut self,
        cost: u32,
        max_wait: Option<Duration>,
        can_go: bool,
        keep: bool,
    ) -> Option<usize> {
        let (pace, now) = (self.policy.pace, self.now);
        let reply = Reply {
            verdict: self.bucket.verdict(&pace, cost, now, max_wait),
            remaining: self.bucket.remaining(&pace, cost, now, max_wait),
            goes_at_once: self.bucket.goes_at_once(&pace, cost, now),
        };
        let model = Reply {
            verdict: self.model.verdict(now, cost.into(), max_wait),
            remaining: self.model.remaining(now, cost.into(), max_wait),
            goes_at_once: self.model.goes_at_once(now, cost.into()),
        };
        self.replies.push(Pair {
            bucket: reply,
            model,
        });
        let Verdict::Admitted(_) = reply.verdict else {
            return None;
        };
        let who = self.number();
        if !can_go && pace.has_line() {
            let ticket = self.bucket.join_blocked(cost, now, who);
            self.tickets.insert(who, ticket);
            self.blocked.push(who);
            self.model.join(who, false, cost.into(), now);
        } else if !reply.goes_at_once {
            self.tickets.insert(who, self.bucket.join(cost, now, who));
            self.model.join(who, true, cost.into(), now);
        } else {
            self.turn(who, cost);
            if keep {
                let loan = self.bucket.lend(&pace, cost, now);
                self.hands.push(Hand {
                    who,
                    cost,
                    joined: now,
                    loan,
                    ticket: None,
                });
            } else {
                self.bucket.take(&pace, cost, now);
                self.model.end(who, Fate::Served);
            }
        }
        Some(who)
    }

    /// Time passes, and slots that come are given away.
    pub(super) fn pass_until(&mut self, until: Moment, waker: Waker, keep: bool) {
        while let Some(due) = self
            .bucket
            .due(&self.policy.pace)
            .filter(|due| *due <= until)
        {
            let at = match waker {
                Waker::OnTime => due,
                Waker::Late(micros) => due.after(Duration::from_micros(micros)),
                Waker::Stalled => until,
            };
            let at = at.max(self.now);
            if at > until {
                break;
            }
            self.now = at;
            self.ring();
            let promised = self.promise(keep);
            self.arm();
            if !promised {
                break;
            }
        }
        self.now = until;
        self.ring();
    }

    pub(super) fn went(&self, who: usize) -> Option<Moment> {
        self.model
            .gone()
            .find(|exit| exit.who == who)
            .map(|exit| exit.at)
    }

    fn number(&mut self) -> usize {
        self.came += 1;
        self.came
    }

    fn play(&mut self, step: &Step) {
        let limit = self.policy.limit;
        let span = |span: &Span| span.of(limit);
        match step {
            Step::Arrive {
                count,
                cost,
                max_wait,
                can_go,
                keep,
            } => {
                let cost = self.policy.cost(*cost);
                for _ in 0..*count {
                    self.arrive(cost, max_wait.as_ref().map(span), *can_go, *keep);
                }
            }
            Step::Leave(which) => {
                let waiting: Vec<_> = self.model.waiting().collect();
                if !waiting.is_empty() {
                    self.leave(*which.get(&waiting));
                }
            }
            Step::Serve(which) if !self.hands.is_empty() => {
                self.end(which.index(self.hands.len()), Fate::Served);
            }
            Step::Return(which) if !self.hands.is_empty() => {
                self.end(which.index(self.hands.len()), Fate::Returned);
            }
            Step::Yield(which) if !self.hands.is_empty() && self.policy.pace.has_line() => {
                self.step_back(which.index(self.hands.len()));
            }
            Step::Ready(which) if !self.blocked.is_empty() => {
                self.ready(which.index(self.blocked.len()));
            }
            Step::Hold(long) => {
                self.bucket.hold(self.now.after(span(long)));
                self.model.hold(self.now.after(span(long)));
            }
            Step::Pass {
                span: long,
                waker,
                keep,
            } => {
                self.pass_until(self.now.after(span(long)), *waker, *keep);
            }
            Step::Serve(_) | Step::Return(_) | Step::Yield(_) | Step::Ready(_) => {}
        }
    }

    /// Notes when the next one is due, and that nobody gets a slot before.
    fn look(&mut self) {
        let due = self.model.due();
        let from_now = |due: Option<Moment>| due.map(|due| due.max(self.now));
        self.dues.push(Pair {
            bucket: from_now(self.bucket.due(&self.policy.pace)),
            model: from_now(due),
        });
        if due.is_none_or(|due| due > self.now) {
            self.promise(false);
        }
        self.arm();
    }

    /// Sets a timer where one is missing, as whoever serves a bucket does.
    fn arm(&mut self) {
        self.timer = self.bucket.arm(&self.policy.pace).or(self.timer);
        self.alarms
            .push((self.bucket.due(&self.policy.pace), self.timer));
    }

    fn ring(&mut self) {
        if let Some(when) = self.timer.take_if(|when| *when <= self.now) {
            self.bucket.rang(when);
        }
    }

    fn promise(&mut self, keep: bool) -> bool {
        let due = self.model.due().is_some_and(|due| due <= self.now);
        let promise = self.bucket.promise(&self.policy.pace, self.now);
        self.promises.push(Pair {
            bucket: promise.is_some(),
            model: due,
        });
        let Some(Promise {
            ticket,
            waiter: who,
            loan,
            ..
        }) = promise
        else {
            return false;
        };
        self.bucket.claim(loan);
        self.turn(who, ticket.cost());
        self.hands.push(Hand {
            who,
            cost: ticket.cost(),
            joined: ticket.joined(),
            loan,
            ticket: Some(ticket),
        });
        if !keep {
            self.end(self.hands.len() - 1, Fate::Served);
        }
        true
    }

    fn turn(&mut self, who: usize, cost: u32) {
        let looking_on = self
            .model
            .could_go()
            .filter(|other| *other != who)
            .collect();
        self.turns.push(Turn { who, looking_on });
        self.model.go(who, self.now, cost.into());
    }

    fn leave(&mut self, who: usize) {
        let ticket = *self.tickets.get(&who).expect("who waits has a ticket");
        assert!(self.bucket.leave(ticket, self.now), "a place is freed once");
        assert!(!self.bucket.leave(ticket, self.now), "and only once");
        self.blocked.retain(|other| *other != who);
        self.model.leave(who);
    }

    fn end(&mut self, hand: usize, fate: Fate) {
        let Hand { who, loan, .. } = self.hands.remove(hand);
        match fate {
            Fate::Returned => self.bucket.give_back(&self.policy.pace, loan, self.now),
            Fate::Served | Fate::InHand => self.bucket.settle(&self.policy.pace, loan, self.now),
        }
        self.model.end(who, fate);
    }

    fn step_back(&mut self, hand: usize) {
        let Hand {
            mut who,
            cost,
            mut joined,
            loan,
            ticket,
        } = self.hands.remove(hand);
        self.model.end(who, Fate::Returned);
        if let Some(ticket) = ticket {
            self.bucket
                .step_back(&self.policy.pace, ticket, loan, who, self.now);
        } else {
            (who, joined) = (self.number(), self.now);
            self.tickets
                .insert(who, self.bucket.join_blocked(cost, self.now, who));
            self.bucket.give_back(&self.policy.pace, loan, self.now);
        }
        self.blocked.push(who);
        self.model.join(who, false, cost.into(), joined);
    }

    fn ready(&mut self, which: usize) {
        let who = self.blocked.remove(which);
        let ticket = *self.tickets.get(&who).expect("who waits has a ticket");
        assert!(self.bucket.ready(ticket), "a blocked place is kept");
        self.model.ready(who);
    }
}
