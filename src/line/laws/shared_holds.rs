//! What if nobody of a shared line may go for a while?

use std::time::Duration;

use super::shared_run::{Departure, Habits, Run, STEADY, ZERO};
use super::stage::pace;

const SECOND: u64 = 1_000_000;

const NOBODY: Habits = Habits {
    every: u64::MAX / 4,
    ..STEADY
};

/// Three instances at whose common line thirty have come, in turns.
fn crowded() -> Run<'static> {
    let mut run = Run::new(1, pace("10r/s", 40, 0), &[NOBODY; 3]);
    for who in (0..3).cycle().take(30) {
        run.arrive(who);
        run.pass(Duration::from_millis(3));
    }
    run
}

fn assert_in_order_and_even(gone: &[Departure], from: u64) {
    assert!(gone.is_sorted_by_key(|one| one.came), "{gone:?}");
    for (nth, one) in (0..).zip(gone) {
        let due = from + nth * 100_000;
        let late = (one.at - ZERO).saturating_sub(due);
        assert!(one.at - ZERO >= due && late < 5_000, "{nth} of {gone:?}");
    }
}

#[test]
fn a_pause_keeps_all_back_who_go_in_order_when_it_is_over() {
    let mut run = crowded();
    run.pass(Duration::from_millis(410));
    let paused = run.now - ZERO;
    run.pause(Duration::from_secs(3));
    // What was promised before goes.
    run.pass(Duration::from_millis(60));
    let before = run.gone.len();
    let calls = run.calls;
    for who in [2, 0, 1, 2] {
        run.pass(Duration::from_millis(600));
        run.arrive(who);
    }
    assert_eq!(run.gone.len(), before);
    assert!(run.calls - calls < 30, "{} calls", run.calls - calls);
    run.pass(Duration::from_secs(6));
    assert_eq!(run.gone.len(), 34);
    assert_in_order_and_even(&run.gone[before..], paused + 3 * SECOND);
}

#[test]
fn a_pause_that_is_ended_lets_them_go_at_once_and_evenly() {
    let mut run = crowded();
    run.pause(Duration::from_hours(24));
    run.pass(Duration::from_secs(2));
    let before = run.gone.len();
    run.pause(Duration::ZERO);
    let resumed = run.now - ZERO;
    run.pass(Duration::from_secs(4));
    assert_eq!(run.gone.len(), 30);
    assert_in_order_and_even(&run.gone[before..], resumed);
    assert_eq!(run.missed, 0, "slots of the pause were nobody's");
}

#[test]
fn a_hold_costs_no_calls_while_it_lasts() {
    let mut run = crowded();
    run.hold(1, Duration::from_secs(3));
    let held = run.now - ZERO;
    run.pass(Duration::from_millis(60));
    let (before, calls) = (run.gone.len(), run.calls);
    run.pass(Duration::from_millis(2_800));
    assert_eq!(run.gone.len(), before);
    assert!(run.calls - calls < 10, "{} calls", run.calls - calls);
    run.pass(Duration::from_secs(5));
    assert_in_order_and_even(&run.gone[before..], held + 3 * SECOND);
}
