//! What can happen to a bucket?

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::model::Limit;
use crate::line::Pace;
use crate::units::Moment;

const AWKWARD: [(u32, char); 12] = [
    (1, 'd'),
    (7, 'h'),
    (1, 'm'),
    (7, 'm'),
    (1, 's'),
    (3, 's'),
    (100, 's'),
    (700, 's'),
    (3_000, 's'),
    (30_000, 's'),
    (99_999, 's'),
    (100_000, 's'),
];

/// A limit, in the model's terms and in weir's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) limit: Limit,
    pub(super) pace: Pace,
}

/// A span of time: 64ths of an interval, and microseconds on top.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    parts: u64,
    micros: u64,
}

/// How soon after a slot someone comes to give it away.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waker {
    OnTime,
    Late(u64),
    Stalled,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Arrive {
        count: usize,
        cost: u32,
        max_wait: Option<Span>,
        can_go: bool,
        keep: bool,
    },
    Leave(Index),
    Serve(Index),
    Return(Index),
    Yield(Index),
    Ready(Index),
    Hold(Span),
    Pass {
        span: Span,
        waker: Waker,
        keep: bool,
    },
}

impl Policy {
    pub(super) fn new((requests, unit): (u32, char), burst: u32, delay: u32) -> Self {
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            _ => 86_400,
        };
        let limit = Limit {
            requests: requests.into(),
            micros: seconds * 1_000_000,
            burst: burst.into(),
            delay: delay.into(),
        };
        let rate = format!("{requests}r/{unit}")
            .parse()
            .expect("a rate within bounds");
        let pace = Pace::new(rate, burst, delay).expect("a burst that drains within years");
        Self { limit, pace }
    }
}

impl Policy {
    /// What a request may cost of it, at most so much.
    pub(super) fn cost(&self, most: u32) -> u32 {
        most.min(self.pace.burst() + 1)
    }
}

impl Span {
    pub(super) fn of(self, limit: Limit) -> Duration {
        let parts = limit.micros * i128::from(self.parts) / (limit.requests * 64);
        let parts = u64::try_from(parts).expect("spans in tests are short");
        Duration::from_micros(parts + self.micros)
    }
}

/// Limits whose requests may wait.
pub(super) fn lines() -> impl Strategy<Value = Policy> {
    policies().prop_filter("it has a line", |policy| policy.limit.has_line())
}

/// From one a day to a hundred thousand a second, with and without a line.
pub(super) fn policies() -> impl Strategy<Value = Policy> {
    let rate = prop_oneof![
        4 => select(&AWKWARD[..]),
        1 => (1_u32..=100_000, select(&['s', 'm', 'h', 'd'][..])),
    ];
    let burst = prop_oneof![3 => 0_u32..=6, 1 => 0_u32..=50];
    let delay = |burst| prop_oneof![2 => Just(0), 1 => Just(burst), 2 => 0..=burst];
    let sizes = burst.prop_flat_map(move |burst| (Just(burst), delay(burst)));
    (rate, sizes).prop_map(|(rate, (burst, delay))| Policy::new(rate, burst, delay))
}

pub(super) fn beginnings() -> impl Strategy<Value = Moment> {
    const A_HUNDRED_YEARS: u64 = 3_155_760_000_000_000;
    (A_HUNDRED_YEARS..=2 * A_HUNDRED_YEARS).prop_map(Moment::from_micros)
}

pub(super) fn spans() -> impl Strategy<Value = Span> {
    let parts = prop_oneof![3 => 0_u64..128, 2 => (0_u64..8).prop_map(|whole| whole * 64), 1 => 0_u64..2_000];
    let micros = prop_oneof![2 => Just(0_u64), 1 => 0_u64..3, 1 => 0_u64..6_000];
    (parts, micros).prop_map(|(parts, micros)| Span { parts, micros })
}

/// How many slots a request needs.
pub(super) fn costs() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(1_u32), 2 => 2_u32..5, 1 => 5_u32..60]
}

/// Whether requests may say how long they would wait, and whether the bucket may be held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mood {
    pub(super) max_wait: bool,
    pub(super) hold: bool,
}

/// Anything, in any order.
pub(super) fn steps(mood: Mood) -> impl Strategy<Value = Vec<Step>> {
    let hold = if mood.hold {
        spans().prop_map(Step::Hold).boxed()
    } else {
        step(mood).boxed()
    };
    vec(prop_oneof![15 => step(mood), 1 => hold], 1..60)
}

fn step(mood: Mood) -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    let count = prop_oneof![4 => Just(1_usize), 1 => 2_usize..9, 1 => 9_usize..60];
    let max_wait = option::weighted(0.2, spans());
    let max_wait = max_wait.prop_map(move |most| most.filter(|_| mood.max_wait));
    let can_go = prop::bool::weighted(0.9);
    let arrive = (count, costs(), max_wait, can_go, any::<bool>());
    let waker = prop_oneof![
        4 => Just(Waker::OnTime),
        2 => (1_u64..3_000).prop_map(Waker::Late),
        1 => Just(Waker::Stalled),
    ];
    let pass = (spans(), waker, any::<bool>());
    prop_oneof![
        6 => arrive.prop_map(|(count, cost, max_wait, can_go, keep)| Step::Arrive { count, cost, max_wait, can_go, keep }),
        6 => pass.prop_map(|(span, waker, keep)| Step::Pass { span, waker, keep }),
        2 => index().prop_map(Step::Leave),
        1 => index().prop_map(Step::Serve),
        2 => index().prop_map(Step::Return),
        1 => index().prop_map(Step::Yield),
        1 => index().prop_map(Step::Ready),
    ]
}
