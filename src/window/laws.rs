//! Does each window keep what it promises, whatever comes?
//!
//! Beside each tally lives a model that remembers all that passed and adds it up anew
//! each time, by the definition of its kind.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::units::Remaining;

/// A time at which clocks stand nowadays: midnight.
pub(crate) const ZERO: u64 = 20_000 * 86_400 * 1_000_000;
const KINDS: [Kind; 3] = [Kind::Fixed, Kind::Log, Kind::Counter];

/// What one does, so long after the one before.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Ask {
        after: u64,
        cost: u32,
    },
    /// The `nth` of those who have not settled gives back.
    GiveBack {
        after: u64,
        nth: usize,
    },
    /// The `nth` of them is served.
    Settle {
        nth: usize,
    },
}

pub(crate) fn window_of(kind: Kind, limit: u32, span: u64, offset: u64) -> Window {
    let micros = Duration::from_micros;
    Window::new(kind, limit, micros(span), micros(offset))
}

fn at(micros: u64) -> Moment {
    Moment::from_micros(ZERO + micros)
}

/// All that passed and was not given back.
#[derive(Debug, Default)]
struct Model(Vec<(u64, u32)>);

impl Model {
    fn sum(&self, counts: impl Fn(u64) -> bool) -> u128 {
        let counted = self.0.iter().filter(|(at, _)| counts(*at));
        counted.map(|(_, cost)| u128::from(*cost)).sum()
    }

    /// Whether `cost` may pass at `now`.
    fn admits(&self, window: &Window, now: u64, cost: u128) -> bool {
        let (limit, span) = (u128::from(window.limit), window.span);
        let start = |at: u64| (at - window.offset) / span;
        match window.kind {
            Kind::Fixed => self.sum(|at| start(at) == start(now)) + cost <= limit,
            Kind::Log => self.sum(|at| at + span > now) + cost <= limit,
            Kind::Counter => {
                let previous = self.sum(|at| start(at) + 1 == start(now));
                let current = self.sum(|at| start(at) == start(now));
                let elapsed = (now - window.offset) % span;
                previous * u128::from(span - elapsed) + (current + cost) * u128::from(span)
                    <= limit * u128::from(span)
            }
        }
    }
}

fn step(most_after: u64) -> impl Strategy<Value = Step> {
    let after = prop_oneof![Just(0), 0..most_after];
    prop_oneof![
        6 => (after.clone(), 1..4_u32).prop_map(|(after, cost)| Step::Ask { after, cost }),
        2 => (after, any::<usize>()).prop_map(|(after, nth)| Step::GiveBack { after, nth }),
        1 => any::<usize>().prop_map(|nth| Step::Settle { nth }),
    ]
}

/// What comes to a window of `span`.
pub(crate) fn steps(span: u64) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(span / 2), 1..80)
}

fn any_window() -> impl Strategy<Value = Window> {
    let span = prop_oneof![Just(60_000_000_u64), Just(86_400_000_000), 7..5_000_000_u64];
    (prop::sample::select(&KINDS), 1..12_u32, span, any::<u64>()).prop_map(
        |(kind, limit, span, offset)| {
            // Only a fixed window begins later.
            let offset = if kind == Kind::Fixed {
                offset % span
            } else {
                0
            };
            window_of(kind, limit, span, offset)
        },
    )
}

proptest! {
    #[test]
    fn as_many_pass_as_its_definition_lets(
        (window, steps) in any_window().prop_flat_map(|window| (Just(window), steps(window.span))),
    ) {
        let mut tally = Tally::<()>::new(&window);
        let mut model = Model::default();
        let mut open: Vec<(Loan, (u64, u32))> = Vec::new();
        let mut now = ZERO;
        for step in steps {
            match step {
                Step::Ask { after, cost } => {
                    now += after;
                    let admits = model.admits(&window, now, u128::from(cost));
                    match tally.ask(&window, Moment::from_micros(now), cost) {
                        Verdict::Passed(loan) => {
                            prop_assert!(admits, "passes at {now}");
                            model.0.push((now, cost));
                            open.push((loan, (now, cost)));
                        }
                        Verdict::Refused(free_in) => {
                            prop_assert!(!admits, "is refused at {now}");
                            if cost <= window.limit {
                                comes_back(&model, &window, now, cost, free_in);
                            }
                        }
                    }
                }
                Step::GiveBack { after, nth } if !open.is_empty() => {
                    now += after;
                    let (loan, entry) = open.swap_remove(nth % open.len());
                    tally.give_back(loan);
                    let found = model.0.iter().position(|one| *one == entry);
                    model.0.remove(found.expect("it passed"));
                }
                Step::Settle { nth } if !open.is_empty() => {
                    open.swap_remove(nth % open.len());
                }
                Step::GiveBack { .. } | Step::Settle { .. } => (),
            }
            let Remaining { admits, free_in, idle_in } =
                tally.remaining(&window, Moment::from_micros(now), 1);
            let admits = u128::from(admits);
            prop_assert!(admits == 0 || model.admits(&window, now, admits), "{admits} at {now}");
            prop_assert!(!model.admits(&window, now, admits + 1), "more than {admits} at {now}");
            prop_assert_eq!(free_in.is_zero(), admits > 0);
            let idle_at = now + u64::try_from(idle_in.as_micros()).expect("short");
            let is_free = |at| model.admits(&window, at, u128::from(window.limit));
            prop_assert!(is_free(idle_at));
            prop_assert_eq!(tally.is_idle(&window, Moment::from_micros(idle_at)), true);
            let still_idle = idle_in.is_zero() || !tally.is_idle(&window, Moment::from_micros(idle_at - 1));
            prop_assert!(still_idle, "idle before {idle_at}");
        }
        for (loan, entry) in open {
            tally.give_back(loan);
            let found = model.0.iter().position(|one| *one == entry);
            model.0.remove(found.expect("it passed"));
        }
        if model.0.is_empty() {
            prop_assert!(tally.is_idle(&window, Moment::from_micros(now)), "all was given back");
        }
    }

    #[test]
    fn a_log_never_holds_more_than_its_limit_in_any_span(
        limit in 1..8_u32,
        gaps in prop::collection::vec(0..400_u64, 1..200),
    ) {
        let window = window_of(Kind::Log, limit, 1_000, 0);
        let mut tally = Tally::<()>::new(&window);
        let mut now = ZERO;
        let mut passed = Vec::new();
        for gap in gaps {
            now += gap;
            if let Verdict::Passed(_) = tally.ask(&window, Moment::from_micros(now), 1) {
                passed.push(now);
            }
        }
        for (index, first) in passed.iter().enumerate() {
            let within = passed[index..].iter().filter(|at| **at < first + 1_000);
            prop_assert!(within.count() <= limit as usize);
        }
    }

    #[test]
    fn a_clock_that_steps_back_lets_nobody_pass_twice_and_freezes_nothing(
        kind in prop::sample::select(&KINDS),
        back in 1..400_000_000_u64,
        into in 0..60_000_000_u64,
    ) {
        let window = window_of(kind, 5, 60_000_000, 0);
        let mut tally = Tally::<()>::new(&window);
        let begun = ZERO + into;
        for _ in 0..5 {
            let passed = tally.ask(&window, Moment::from_micros(begun), 1);
            prop_assert!(matches!(passed, Verdict::Passed(_)));
        }
        let stepped = begun - back;
        let Verdict::Refused(free_in) = tally.ask(&window, Moment::from_micros(stepped), 1) else {
            return Err(TestCaseError::fail("one more passed"));
        };
        prop_assert!(free_in <= Duration::from_mins(3), "frozen for {free_in:?}");
        let free = Moment::from_micros(stepped).after(free_in);
        prop_assert!(matches!(tally.ask(&window, free, 1), Verdict::Passed(_)));
    }
}

/// Whoever comes back when it was told to passes, and no second earlier.
fn comes_back(model: &Model, window: &Window, now: u64, cost: u32, free_in: Duration) {
    let cost = u128::from(cost);
    let free = now + u64::try_from(free_in.as_micros()).expect("short");
    assert!(model.admits(window, free, cost), "{free_in:?} from {now}");
    assert!(
        !model.admits(window, free - 1, cost),
        "{free_in:?} from {now}"
    );
    let told = now + whole_seconds(free_in) * 1_000_000;
    // Where a fixed window has gone by until then, another is open.
    assert!(model.admits(window, told, cost));
    assert!(!model.admits(window, (told - 1_000_000).max(now), cost));
}

const MINUTE: u64 = 60_000_000;

fn passes(tally: &mut Tally<()>, window: &Window, when: u64, count: u32) -> u32 {
    let passed =
        (0..count).filter(|_| matches!(tally.ask(window, at(when), 1), Verdict::Passed(_)));
    u32::try_from(passed.count()).expect("few")
}

#[test]
fn a_fixed_window_is_aligned_and_full_on_both_sides_of_its_end() {
    let window = window_of(Kind::Fixed, 5, MINUTE, 0);
    let mut tally = Tally::new(&window);
    assert_eq!(passes(&mut tally, &window, 59_000_000, 9), 5);
    assert_eq!(passes(&mut tally, &window, 59_999_999, 1), 0);
    assert_eq!(passes(&mut tally, &window, MINUTE, 9), 5, "its weakness");
    assert_eq!(passes(&mut tally, &window, 2 * MINUTE - 1, 1), 0);
}

#[test]
fn an_offset_shifts_where_a_fixed_window_begins() {
    let window = window_of(Kind::Fixed, 1, MINUTE, 15_000_000);
    let mut tally = Tally::new(&window);
    assert_eq!(passes(&mut tally, &window, 14_999_999, 1), 1);
    assert_eq!(passes(&mut tally, &window, 15_000_000, 2), 1);
    assert_eq!(passes(&mut tally, &window, MINUTE + 14_999_999, 1), 0);
    assert_eq!(passes(&mut tally, &window, MINUTE + 15_000_000, 1), 1);
}

#[test]
fn several_in_one_instant_count_each_and_the_refused_leave_no_trace() {
    let window = window_of(Kind::Log, 5, MINUTE, 0);
    let mut tally = Tally::new(&window);
    assert_eq!(passes(&mut tally, &window, 0, 3), 3);
    assert_eq!(passes(&mut tally, &window, 10, 1_000), 2);
    assert_eq!(passes(&mut tally, &window, MINUTE - 1, 1_000), 0);
    assert_eq!(passes(&mut tally, &window, MINUTE, 1_000), 3);
    assert_eq!(passes(&mut tally, &window, MINUTE + 10, 1_000), 2);
}

#[test]
fn a_counter_weighs_the_window_before() {
    let window = window_of(Kind::Counter, 100, MINUTE, 0);
    let mut tally = Tally::new(&window);
    assert_eq!(passes(&mut tally, &window, 1, 84), 84);
    assert_eq!(passes(&mut tally, &window, MINUTE + MINUTE / 4, 36), 36);
    let left = tally.remaining(&window, at(MINUTE + MINUTE / 4), 1);
    assert_eq!(left.admits, 1, "99 are counted");
    assert_eq!(passes(&mut tally, &window, MINUTE + MINUTE / 4, 9), 1);

    let window = window_of(Kind::Counter, 5, MINUTE, 0);
    let mut tally = Tally::new(&window);
    assert_eq!(passes(&mut tally, &window, 0, 9), 5);
    assert_eq!(passes(&mut tally, &window, MINUTE + 24_000_000, 9), 2);
    let refused = tally.ask(&window, at(MINUTE + 18_000_000), 1);
    assert!(matches!(refused, Verdict::Refused(_)), "3.5 + 2 + 1 of 5");
}

#[test]
fn what_costs_more_than_the_limit_never_passes() {
    for kind in KINDS {
        let window = window_of(kind, 5, MINUTE, 0);
        let mut tally = Tally::<()>::new(&window);
        assert!(matches!(tally.ask(&window, at(0), 6), Verdict::Refused(_)));
        assert!(matches!(tally.ask(&window, at(0), 5), Verdict::Passed(_)));
    }
}

#[test]
fn another_limit_or_span_keeps_what_was_counted_and_another_kind_begins_anew() {
    for kind in KINDS {
        let window = window_of(kind, 5, MINUTE, 0);
        let mut tally = Tally::new(&window);
        assert_eq!(passes(&mut tally, &window, 1, 9), 5);
        let more = window_of(kind, 7, MINUTE, 0);
        assert_eq!(passes(&mut tally, &more, 2, 9), 2, "{kind:?}");
        let less = window_of(kind, 3, MINUTE, 0);
        assert_eq!(passes(&mut tally, &less, 3, 9), 0, "{kind:?}");
        let longer = window_of(kind, 7, 60 * MINUTE, 0);
        assert_eq!(passes(&mut tally, &longer, 4, 9), 0, "{kind:?}");
        let other = KINDS.into_iter().find(|other| *other != kind);
        let other = window_of(other.expect("there are three"), 5, MINUTE, 0);
        assert_eq!(passes(&mut tally, &other, 5, 9), 5, "{kind:?}");
    }
}

#[test]
fn all_parts_together_are_the_whole() {
    for (limit, instances, used) in [(5, 3, 0), (5, 3, 4), (2, 3, 1), (100, 7, 34), (1, 1, 0)] {
        for kind in KINDS {
            let window = window_of(kind, limit, MINUTE, 0);
            let parts = (0..instances).map(|rank| {
                let mut tally = Tally::<()>::new(&window);
                tally.attach();
                let start = ZERO;
                let figures = match kind {
                    Kind::Log => Figures([ZERO, u64::from(used), ZERO]),
                    Kind::Fixed | Kind::Counter => Figures([start, u64::from(used), 0]),
                };
                tally.tell(&window, figures);
                assert!(tally.detach(&window, instances, rank).is_empty());
                let part = window.share(instances, rank);
                passes(&mut tally, &part, 10, limit + 1)
            });
            assert_eq!(
                parts.sum::<u32>(),
                limit - used,
                "{kind:?}, {instances} instances"
            );
        }
    }
}
