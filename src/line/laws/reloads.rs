//! What does a new rate change for those who wait?

use super::stage::{Stage, millis, pace};
use crate::line::Verdict;

#[test]
fn those_who_wait_drain_at_a_new_rate_and_nobody_overtakes_them() {
    let mut stage = Stage::new("1r/s", 5, 0);
    stage.crowd(4);
    stage.pass_to(500);
    stage.reload(pace("10r/s", 5, 0));
    assert_eq!(stage.crowd(1), 1);
    stage.pass_to(60_000);
    assert_eq!(stage.went_millis(), [0, 600, 700, 800, 900]);
    assert!(stage.went.is_sorted());
}

#[test]
fn nobody_waits_a_day_once_the_rate_is_ten_a_second() {
    let mut stage = Stage::new("1r/d", 5, 0);
    stage.crowd(3);
    stage.pass_to(50);
    stage.reload(pace("10r/s", 5, 0));
    assert_eq!(stage.ask(None), Verdict::Admitted(millis(300)));
    stage.pass_to(1_000);
    assert_eq!(stage.went_millis(), [0, 150, 250]);
}

#[test]
fn a_slower_rate_keeps_places_and_debt() {
    let mut stage = Stage::new("100r/s", 50, 0);
    assert_eq!(stage.crowd(51), 51);
    stage.pass_to(5);
    stage.reload(pace("10r/s", 50, 0));
    assert_eq!((stage.bucket.waiting(), stage.crowd(1)), (50, 0));
    stage.pass_to(60_000);
    let expected = (0..50).map(|k| 10 + k * 100);
    assert_eq!(
        stage.went_millis(),
        std::iter::once(0).chain(expected).collect::<Vec<_>>()
    );
}

#[test]
fn a_smaller_burst_keeps_the_places_of_those_who_wait() {
    let mut stage = Stage::new("10r/s", 50, 0);
    stage.crowd(51);
    stage.reload(pace("10r/s", 2, 1));
    assert_eq!((stage.bucket.waiting(), stage.crowd(1)), (50, 0));
    stage.pass_to(60_000);
    assert_eq!(stage.went.len(), 51);
}

#[test]
fn a_fraction_of_another_rate_is_less_than_a_microsecond() {
    let mut stage = Stage::new("99999r/s", 5, 0);
    stage.crowd(3);
    let due = stage.bucket.due(&stage.pace).expect("two wait");
    for (rate, interval) in [("1r/s", millis(1_000)), ("10r/s", millis(100))] {
        stage.reload(pace(rate, 5, 0));
        let wait = due.since(stage.now()) + 2 * interval;
        assert_eq!(stage.ask(None), Verdict::Admitted(wait), "{rate}");
    }
}

#[test]
fn a_slot_given_back_after_a_reload_makes_nobody_wait_longer() {
    let mut stage = Stage::new("100r/s", 50, 0);
    let loan = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.crowd(20);
    stage.pass_to(100);
    stage.reload(pace("10r/s", 50, 0));
    let before = stage.bucket.due(&stage.pace);
    stage.bucket.give_back(&stage.pace, loan, stage.now());
    assert!(stage.bucket.due(&stage.pace) <= before);
}
