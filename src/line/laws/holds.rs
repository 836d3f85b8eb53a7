//! What does a bucket do while it is held?

use std::time::Duration;

use super::stage::{Stage, at, millis};
use crate::line::{Crowded, Verdict};

fn held(burst: u32, delay: u32) -> Stage {
    let mut stage = Stage::new("1r/s", burst, delay);
    stage.bucket.hold(at(10_000));
    stage
}

#[test]
fn nobody_goes_while_a_hold_lasts_and_then_there_is_no_burst() {
    let mut stage = held(5, 0);
    assert_eq!(stage.crowd(9), 6);
    stage.pass_to(9_999);
    assert_eq!(stage.promise(), None);
    stage.pass_to(60_000);
    assert_eq!(
        stage.went_millis(),
        [10_000, 11_000, 12_000, 13_000, 14_000, 15_000]
    );
}

#[test]
fn a_hold_is_never_shortened_by_another() {
    let mut stage = held(5, 0);
    stage.bucket.hold(at(3_000));
    stage.crowd(1);
    assert_eq!(stage.bucket.due(&stage.pace), Some(at(10_000)));
}

#[test]
fn a_held_bucket_is_not_forgotten() {
    let stage = held(5, 0);
    assert!(!stage.bucket.is_idle(&stage.pace, at(9_999)));
    assert!(stage.bucket.is_idle(&stage.pace, at(10_000)));
}

#[test]
fn a_wait_that_a_hold_makes_too_long_is_refused() {
    let stage = held(5, 0);
    assert_eq!(
        stage.ask(Some(millis(10_000))),
        Verdict::Admitted(millis(10_000))
    );
    let refused = Verdict::Refused(Crowded::MaxWait(millis(4_000)));
    assert_eq!(stage.ask(Some(millis(6_000))), refused);
}

#[test]
fn a_full_held_line_says_when_to_come_back() {
    let mut stage = held(5, 0);
    stage.crowd(6);
    let told = stage.arrive();
    stage.pass_to(10_000);
    assert!(matches!(stage.ask(None), Verdict::Refused(_)));
    stage.pass_to(11_000);
    assert!(matches!(stage.ask(None), Verdict::Admitted(_)));
    assert_eq!(told, Verdict::Refused(Crowded::Full(millis(11_000))));
}

#[test]
fn those_whom_a_delay_lets_pass_wait_for_the_hold_alone() {
    let mut stage = held(5, 3);
    let told: Vec<Verdict> = (0..4).map(|_| stage.arrive()).collect();
    stage.pass_to(60_000);
    assert_eq!(stage.went_millis(), [10_000; 4]);
    assert_eq!(told, [Verdict::Admitted(millis(10_000)); 4]);
}

#[test]
fn a_hold_that_is_over_is_forgotten() {
    let mut stage = held(5, 5);
    stage.pass_to(10_500);
    let remaining = stage
        .bucket
        .remaining(&stage.pace, 1, stage.now(), Some(Duration::ZERO));
    assert_eq!(remaining.admits, 6);
}
