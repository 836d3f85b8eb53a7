//! How do several instances fare with one line, on a clock that only the test moves?

use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::shared_model::{Model, Told};
use crate::line::{Answer, Bucket, Call, Loan, Pace, Reach, Ticket};
use crate::units::Moment;

/// Where instances and the store begin.
pub(crate) const ZERO: u64 = 1_700_000_000_000_000;

/// A source of chance that gives the same run for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// How one instance behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Microseconds between arrivals, on average.
    pub(crate) every: u64,
    /// The way to the store, one way, in microseconds, and how much it varies.
    pub(crate) way: u64,
    pub(crate) jitter: u64,
    /// Calls, and answers, that get lost, in percent.
    pub(crate) loss: u64,
    /// Clients that leave before their turn, in percent, and when at the latest.
    pub(crate) leaving: u64,
    pub(crate) leave_within: u64,
    /// How many slots a request needs at most.
    pub(crate) costs: u32,
}

pub(crate) const STEADY: Habits = Habits {
    every: 20_000,
    way: 100,
    jitter: 50,
    loss: 0,
    leaving: 0,
    leave_within: 300_000,
    costs: 1,
};

/// One that left for its backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) at: u64,
    pub(crate) who: usize,
    pub(crate) came: u64,
    pub(crate) slots: u32,
}

#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) bucket: Bucket<usize>,
    pub(crate) habits: Habits,
    pub(crate) pace: Pace,
    pub(crate) stalled_until: u64,
    /// When it was killed; the others know of it three seconds later.
    pub(crate) killed: Option<u64>,
    tickets: BTreeMap<usize, Ticket>,
}

const ALIVE: u64 = 3_000_000;

/// What happens next, ordered by time.
#[derive(Debug, PartialEq, Eq)]
enum Happening {
    Arrive(usize),
    Leave(usize, usize),
    Wake(usize, Moment),
    Hear(usize, u64, Call),
    Answer(usize, u64, Option<Answer>),
    Lost(usize, u64),
    Notice,
}

#[derive(Debug, PartialEq, Eq)]
struct Due {
    at: u64,
    order: u64,
    what: Happening,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Looks over the model's shoulder: the same call, and what the model answered.
pub(crate) type Shadow<'a> = dyn FnMut(&Told<'_>, &Call, Option<&Answer>) + 'a;

/// A run with all that is needed to judge it.
pub(crate) struct Run<'a> {
    pub(crate) now: u64,
    pub(crate) model: Model,
    pub(crate) instances: Vec<Instance>,
    pub(crate) gone: Vec<Departure>,
    pub(crate) refused: usize,
    pub(crate) missed: u64,
    pub(crate) calls: u64,
    pub(crate) chance: Chance,
    pub(crate) shadow: Option<Box<Shadow<'a>>>,
    came: BTreeMap<usize, u64>,
    happenings: BinaryHeap<Due>,
    ordered: u64,
    requests: usize,
    arrivals_until: u64,
}

/// An answer that takes longer is not waited for.
const TIMEOUT: u64 = 50_000;

impl Run<'_> {
    pub(crate) fn new(seed: u64, pace: Pace, habits: &[Habits]) -> Self {
        let instance = |habits: &Habits| Instance {
            bucket: Bucket::new(&pace, Moment::from_micros(ZERO)),
            habits: *habits,
            pace,
            stalled_until: 0,
            killed: None,
            tickets: BTreeMap::new(),
        };
        let mut run = Self {
            now: ZERO,
            model: Model::default(),
            instances: habits.iter().map(instance).collect(),
            gone: Vec::new(),
            refused: 0,
            missed: 0,
            calls: 0,
            chance: Chance::new(seed),
            shadow: None,
            came: BTreeMap::new(),
            happenings: BinaryHeap::new(),
            ordered: 0,
            requests: 0,
            arrivals_until: u64::MAX,
        };
        for who in 0..habits.len() {
            run.next_arrival(who);
        }
        run
    }

    /// Nobody comes any more.
    pub(crate) fn close(&mut self) {
        self.arrivals_until = self.now;
    }

    /// One more arrives, now.
    pub(crate) fn arrive(&mut self, who: usize) {
        let request = self.requests;
        self.requests += 1;
        let now = self.moment();
        let Some(instance) = self
            .instances
            .get_mut(who)
            .filter(|one| one.killed.is_none())
        else {
            return;
        };
        self.came.insert(request, self.now);
        instance.bucket.attach(&instance.pace, now);
        let cost = match instance.habits.costs {
            1 => 1,
            most => u32::try_from(self.chance.below(most.into())).expect("few") + 1,
        };
        let ticket = instance.bucket.want(cost, None, now, request);
        instance.tickets.insert(request, ticket);
        let Habits {
            leaving,
            leave_within,
            ..
        } = instance.habits;
        if self.chance.percent(leaving) {
            let at = self.now + self.chance.below(leave_within);
            self.push(at, Happening::Leave(who, request));
        }
        self.flow(who);
    }

    /// Goes on for so long.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + u64::try_from(span.as_micros()).expect("a short span");
        while self.happenings.peek().is_some_and(|due| due.at <= end) {
            let Some(Due { at, what, .. }) = self.happenings.pop() else {
                break;
            };
            self.now = self.now.max(at);
            self.happen(what);
        }
        self.now = end;
    }

    /// One is no more; the others notice by their heartbeats.
    pub(crate) fn kill(&mut self, who: usize) {
        self.instances[who].killed = Some(self.now);
        self.push(self.now + ALIVE, Happening::Notice);
    }

    /// All learn that nobody may go for so long; at once where that is over.
    pub(crate) fn pause(&mut self, span: Duration) {
        for who in 0..self.instances.len() {
            let now = self.moment();
            let bucket = &mut self.instances[who].bucket;
            bucket.pause(now.after(span), now);
            bucket.ask_anew();
            self.flow(who);
        }
    }

    /// An upstream of one asks that nobody goes for so long.
    pub(crate) fn hold(&mut self, who: usize, span: Duration) {
        let until = self.moment().after(span);
        self.instances[who].bucket.hold(until);
        self.flow(who);
    }

    /// How many wait in all instances together.
    pub(crate) fn waiting(&self) -> usize {
        let living = self.instances.iter().filter(|one| one.killed.is_none());
        living.map(|instance| instance.bucket.waiting()).sum()
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Arrive(who) => {
                if self.now < self.arrivals_until {
                    self.arrive(who);
                    self.next_arrival(who);
                }
            }
            Happening::Leave(who, request) => {
                let now = self.moment();
                let instance = &mut self.instances[who];
                if let Some(ticket) = instance.tickets.remove(&request) {
                    instance.bucket.leave(ticket, now);
                    self.flow(who);
                }
            }
            Happening::Wake(who, when) => {
                let instance = &mut self.instances[who];
                if instance.stalled_until > self.now {
                    let until = instance.stalled_until;
                    self.push(until, Happening::Wake(who, when));
                } else if instance.bucket.rang(when) {
                    self.flow(who);
                }
            }
            Happening::Notice => {
                for who in 0..self.instances.len() {
                    self.instances[who].bucket.ask_anew();
                    self.flow(who);
                }
            }
            Happening::Hear(who, number, call) => self.hear(who, number, &call),
            Happening::Answer(who, number, answer) => self.answer(who, number, answer),
            Happening::Lost(who, number) => {
                // As an instance does whose store is back at once.
                let now = self.moment();
                let instance = &mut self.instances[who];
                if !instance.bucket.is_calling(number) {
                    return;
                }
                if let Some(heard) = instance.bucket.detach(&instance.pace, Duration::ZERO, now) {
                    self.refused += heard.refused.len();
                }
                let instance = &mut self.instances[who];
                instance.bucket.attach(&instance.pace, now);
                self.flow(who);
            }
        }
    }

    fn hear(&mut self, who: usize, number: u64, call: &Call) {
        let instance = &self.instances[who];
        let dead: Vec<usize> = (0..self.instances.len())
            .filter(|one| {
                let killed = self.instances[*one].killed;
                killed.is_some_and(|killed| killed + ALIVE <= self.now)
            })
            .collect();
        let told = Told {
            now: self.now,
            me: who,
            number,
            pace: &instance.pace,
            reach: reach(&instance.habits),
            dead: &dead,
        };
        self.calls += 1;
        let left = self.model.left;
        let answer = self.model.call(&told, call);
        if let Some(shadow) = &mut self.shadow {
            shadow(&told, call, answer.as_ref());
        }
        let habits = instance.habits;
        let news = u32::try_from(self.model.left - left).unwrap_or(u32::MAX);
        if news > 0 {
            for one in 0..self.instances.len() {
                self.instances[one].bucket.hurry(news);
                self.flow(one);
            }
        }
        if !self.chance.percent(habits.loss) {
            let at = self.now + habits.way + self.chance.below(habits.jitter);
            self.push(at, Happening::Answer(who, number, answer));
        }
    }

    fn answer(&mut self, who: usize, number: u64, answer: Option<Answer>) {
        let until = self.instances[who].stalled_until;
        if until > self.now {
            self.push(until, Happening::Answer(who, number, answer));
            return;
        }
        let Some(answer) = answer else { return };
        let instance = &mut self.instances[who];
        if let Some(heard) = instance.bucket.answered(&instance.pace, number, &answer) {
            self.refused += heard.refused.len();
            self.flow(who);
        }
    }

    /// As an instance does after whatever happened.
    fn flow(&mut self, who: usize) {
        let now = self.moment();
        let instance = &mut self.instances[who];
        if instance.killed.is_some() || instance.stalled_until > self.now {
            return;
        }
        let mut went = Vec::new();
        while let Some(promise) = instance.bucket.promise(&instance.pace, now) {
            went.push(promise);
        }
        for promise in went {
            let instance = &mut self.instances[who];
            assert!(matches!(promise.loan, Loan::Shared(_)));
            instance.bucket.settle(&instance.pace, promise.loan, now);
            instance.tickets.remove(&promise.waiter);
            self.gone.push(Departure {
                at: self.now,
                who,
                came: self.came[&promise.waiter],
                slots: promise.ticket.cost(),
            });
        }
        let instance = &mut self.instances[who];
        self.missed += instance.bucket.missed();
        let reach = reach(&instance.habits);
        let number = self.ordered + 1;
        let call = instance.bucket.call(&instance.pace, &reach, now, || number);
        if let Some(call) = call {
            let habits = instance.habits;
            let lost = self.chance.percent(habits.loss);
            let at = self.now + habits.way + self.chance.below(habits.jitter);
            if !lost {
                self.push(at, Happening::Hear(who, number, call));
            }
            self.push(
                self.now + TIMEOUT.max(habits.way * 5),
                Happening::Lost(who, number),
            );
        }
        let instance = &mut self.instances[who];
        if let Some(when) = instance.bucket.arm_shared(&instance.pace, &reach) {
            let at = when.as_micros().max(self.now + 1);
            self.push(at, Happening::Wake(who, when));
        }
    }

    fn next_arrival(&mut self, who: usize) {
        let every = self.instances[who].habits.every;
        let at = self.now + 1 + self.chance.below(2 * every);
        self.push(at, Happening::Arrive(who));
    }

    fn push(&mut self, at: u64, what: Happening) {
        self.ordered += 1;
        self.happenings.push(Due {
            at,
            order: self.ordered,
            what,
        });
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::from_micros(self.now)
    }
}

/// What an instance knows of the way after some calls.
fn reach(habits: &Habits) -> Reach {
    let round_trip = Duration::from_micros(2 * habits.way + habits.jitter);
    let lead = round_trip + Duration::from_micros(2 * habits.jitter);
    let horizon = (lead + round_trip + Duration::from_millis(15))
        .clamp(Duration::from_millis(30), Duration::from_millis(250));
    Reach {
        round_trip,
        lead,
        notice: round_trip / 2 + Duration::from_micros(habits.jitter),
        horizon,
    }
}
