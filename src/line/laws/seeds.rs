//! What does a limit do that can be reckoned in one's head?

use super::stage::{Stage, at, millis, pace};
use crate::line::{Crowded, Pace, PaceError, Verdict};

fn full(in_millis: u64) -> Verdict {
    Verdict::Refused(Crowded::Full(millis(in_millis)))
}

/// When six who come at once go, in seconds, and what a seventh is told.
fn six_and_a_seventh(delay: u32) -> (Vec<u64>, Verdict) {
    let mut stage = Stage::new("5r/m", 5, delay);
    assert_eq!(stage.crowd(6), 6);
    let seventh = stage.arrive();
    stage.pass_to(3_600_000);
    (
        stage
            .went_millis()
            .into_iter()
            .map(|millis| millis / 1_000)
            .collect(),
        seventh,
    )
}

#[test]
fn six_at_five_a_minute_leave_every_twelve_seconds_and_a_seventh_is_refused() {
    assert_eq!(
        six_and_a_seventh(0),
        (vec![0, 12, 24, 36, 48, 60], full(12_000))
    );
}

#[test]
fn a_delay_of_three_lets_four_go_and_the_rest_wait() {
    assert_eq!(
        six_and_a_seventh(3),
        (vec![0, 0, 0, 0, 12, 24], full(12_000))
    );
}

#[test]
fn without_delay_six_pass_and_a_seventh_is_refused() {
    assert_eq!(six_and_a_seventh(5), (vec![0, 0, 0, 0, 0, 0], full(11_999)));
}

#[test]
fn a_token_bucket_of_five_lets_five_pass_and_then_one_in_twelve_seconds() {
    let mut stage = Stage::new("5r/m", 4, 4);
    let mut passed = vec![stage.crowd(9)];
    for second in [6, 12, 18, 24, 3_600] {
        stage.pass_to(second * 1_000);
        passed.push(stage.crowd(9));
    }
    assert_eq!(passed, [5, 0, 1, 0, 1, 5]);
}

#[test]
fn a_token_bucket_of_twenty_fills_up_at_a_hundred_a_minute() {
    let mut stage = Stage::new("100r/m", 19, 19);
    let mut passed = vec![stage.crowd(30)];
    for millis in [599, 600, 1_200, 7_200, 19_200] {
        stage.pass_to(millis);
        passed.push(stage.crowd(30));
    }
    assert_eq!(passed, [20, 1, 0, 1, 10, 20]);
}

#[test]
fn ten_a_second_and_twenty_at_once() {
    let mut stage = Stage::new("10r/s", 19, 19);
    let mut passed = vec![stage.crowd(30)];
    for second in 1..4 {
        stage.pass_to(second * 1_000);
        passed.push(stage.crowd(30));
    }
    assert_eq!(passed, [20, 10, 10, 10]);
}

#[test]
fn the_kth_of_a_crowd_waits_for_all_but_the_delayed() {
    for (burst, delay) in [
        (0, 0),
        (1, 0),
        (1, 1),
        (7, 0),
        (7, 3),
        (7, 6),
        (7, 7),
        (50, 20),
    ] {
        let mut stage = Stage::new("4r/s", burst, delay);
        let admitted = stage.crowd(200);
        stage.pass_to(60_000);
        let expected: Vec<u64> = (0..=u64::from(burst))
            .map(|k| k.saturating_sub(u64::from(delay)) * 250)
            .collect();
        assert_eq!(admitted, expected.len());
        assert_eq!(
            stage.went_millis(),
            expected,
            "burst {burst}, delay {delay}"
        );
    }
}

#[test]
fn a_burst_of_zero_does_not_disable_a_limit() {
    let mut stage = Stage::new("1r/s", 0, 0);
    let passed: usize = (0..100)
        .map(|tick| {
            stage.pass_to(tick * 10);
            stage.crowd(1)
        })
        .sum();
    assert_eq!(passed, 1);
}

#[test]
fn requests_that_keep_the_rate_to_the_microsecond_all_pass() {
    for (rate, requests, micros) in [
        ("3000r/s", 3_000, 1_000_000),
        ("30000r/s", 30_000, 1_000_000),
        ("99999r/s", 99_999, 1_000_000),
        ("7r/m", 7, 60_000_000),
    ] {
        let mut stage = Stage::new(rate, 0, 0);
        for k in 0..5_000_u64 {
            stage.pass_to_micros(k * micros / requests);
            assert_eq!(stage.crowd(1), 1, "request {k} at {rate}");
        }
    }
}

#[test]
fn a_million_slots_end_where_the_rate_says() {
    const SLOTS: u64 = 1_000_000;
    for (rate, requests, micros) in [("30000r/s", 30_000, 1_000_000), ("7r/m", 7, 60_000_000)] {
        let mut stage = Stage::new(rate, 2, 0);
        stage.crowd(2);
        for _ in 1..SLOTS {
            let due = stage.bucket.due(&stage.pace).expect("someone waits");
            let micros = due.as_micros() - at(0).as_micros();
            stage.went.clear();
            stage.pass_to_micros(micros);
            assert_eq!((stage.went.len(), stage.crowd(1)), (1, 1));
        }
        let due = stage.bucket.due(&stage.pace).expect("someone waits");
        let last = due.as_micros() - at(0).as_micros();
        assert_eq!(last, SLOTS * micros / requests, "{rate}");
    }
}

#[test]
fn those_who_leave_free_their_places_at_once() {
    let mut stage = Stage::new("1r/s", 5, 0);
    assert_eq!(stage.crowd(9), 6);
    stage.pass_to(50);
    assert!((1..6).all(|who| stage.leave(who)));
    assert_eq!(stage.bucket.waiting(), 0);
    assert_eq!(stage.crowd(9), 5);
    stage.pass_to(10_000);
    assert_eq!(stage.went_millis(), [0, 1_000, 2_000, 3_000, 4_000, 5_000]);
}

#[test]
fn all_behind_one_who_leaves_move_up() {
    let mut stage = Stage::new("1r/s", 5, 0);
    stage.crowd(6);
    stage.pass_to(500);
    assert!(stage.leave(2));
    stage.pass_to(10_000);
    let went = [
        (0, 0),
        (1, 1_000_000),
        (3, 2_000_000),
        (4, 3_000_000),
        (5, 4_000_000),
    ];
    assert_eq!(stage.went, went);
}

#[test]
fn after_a_stall_there_is_no_burst() {
    let mut stage = Stage::new("10r/s", 5, 0);
    stage.crowd(6);
    stage.stall_to(1_000);
    assert_eq!(stage.went_millis(), [0, 1_000]);
    assert_eq!(stage.missed, 8);
    stage.pass_to(9_000);
    assert_eq!(stage.went_millis(), [0, 1_000, 1_098, 1_198, 1_298, 1_398]);
}

#[test]
fn a_slot_a_little_late_keeps_the_grid() {
    let mut stage = Stage::new("10r/s", 5, 0);
    stage.crowd(6);
    for millis in [102, 201, 302, 400] {
        stage.stall_to(millis);
    }
    stage.pass_to(9_000);
    assert_eq!(stage.went_millis(), [0, 102, 201, 302, 400, 500]);
    assert_eq!(stage.missed, 0);
}

#[test]
fn a_slot_five_milliseconds_late_does_not_cost_a_minute() {
    let mut stage = Stage::new("1r/m", 5, 0);
    stage.crowd(3);
    stage.stall_to(60_005);
    stage.pass_to(600_000);
    assert_eq!(stage.went_millis(), [0, 60_005, 120_003]);
}

#[test]
fn a_full_line_says_when_to_come_back() {
    let mut stage = Stage::new("10r/s", 1, 1);
    assert_eq!(stage.crowd(3), 2);
    stage.pass_to(30);
    // An interval after the first one, but for the hair.
    assert_eq!(stage.ask(None), full(69));
    stage.pass_to_micros(98_999);
    assert!(matches!(stage.ask(None), Verdict::Refused(_)));
    stage.pass_to(99);
    assert!(matches!(stage.ask(None), Verdict::Admitted(_)));
}

#[test]
fn a_wait_longer_than_allowed_is_refused_and_moves_nothing() {
    let mut stage = Stage::new("1r/s", 5, 0);
    stage.crowd(4);
    assert_eq!(
        stage.ask(Some(millis(4_000))),
        Verdict::Admitted(millis(4_000))
    );
    let refused = Verdict::Refused(Crowded::MaxWait(millis(1_500)));
    assert_eq!(stage.ask(Some(millis(2_500))), refused);
    assert_eq!(stage.bucket.waiting(), 3);
    stage.pass_to(1_500);
    assert!(matches!(
        stage.ask(Some(millis(2_500))),
        Verdict::Admitted(_)
    ));
}

#[test]
fn a_full_line_sends_the_hurried_away_for_as_long_as_they_would_wait() {
    let mut stage = Stage::new("1r/s", 5, 0);
    stage.crowd(6);
    assert_eq!(stage.ask(Some(millis(2_000))), full(4_000));
}

#[test]
fn absurd_bursts_are_refused_when_they_are_written() {
    let day = "1r/d".parse().expect("a rate");
    let (burst, delay) = (5, 6);
    assert_eq!(
        Pace::new(day, burst, delay),
        Err(PaceError::Delay { delay, burst })
    );
    assert!(matches!(
        Pace::new(day, u32::MAX, 0),
        Err(PaceError::Drain { .. })
    ));
    assert_eq!(
        pace("100000r/s", u32::MAX, 0).longest_wait(),
        millis(42_949_672) + std::time::Duration::from_micros(950)
    );
}
