//! Does a slot that comes back leave nothing behind?

use std::time::Duration;

use super::stage::{Stage, at, millis};
use crate::line::{Bucket, Pace, Verdict};

#[test]
fn a_slot_given_back_is_free_again() {
    let mut stage = Stage::new("1r/m", 0, 0);
    let loan = stage.bucket.lend(&stage.pace, 1, stage.now());
    assert!(matches!(stage.ask(None), Verdict::Refused(_)));
    stage.bucket.give_back(&stage.pace, loan, stage.now());
    assert_eq!(stage.ask(None), Verdict::Admitted(millis(0)));
    assert!(stage.bucket.is_idle(&stage.pace, stage.now()));
}

#[test]
fn a_slot_given_back_long_after_earns_no_credit() {
    let mut stage = Stage::new("1r/s", 3, 3);
    let loan = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.pass_to(60_000);
    assert_eq!(stage.crowd(9), 4);
    stage.bucket.give_back(&stage.pace, loan, stage.now());
    assert_eq!(stage.crowd(9), 0);
}

#[test]
fn a_slot_given_back_moves_all_behind_it_up() {
    let mut stage = Stage::new("1r/s", 5, 0);
    let loan = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.crowd(3);
    stage.pass_to(1_500);
    stage.bucket.give_back(&stage.pace, loan, stage.now());
    stage.pass_to(60_000);
    assert_eq!(stage.went_millis(), [1_000, 1_998, 2_998]);
    let mut stage = Stage::new("1r/s", 5, 0);
    let loan = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.crowd(3);
    stage.pass_to(500);
    stage.bucket.give_back(&stage.pace, loan, stage.now());
    stage.pass_to(60_000);
    assert_eq!(stage.went_millis(), [500, 1_498, 2_498]);
}

#[test]
fn who_steps_back_keeps_its_place_and_holds_up_nobody() {
    let mut stage = Stage::new("1r/s", 5, 0);
    stage.crowd(4);
    stage.pass_to(999);
    stage.pass_to_micros(999_999);
    assert_eq!(stage.promise(), None);
    let due = stage.bucket.due(&stage.pace).expect("three wait");
    let promise = stage
        .bucket
        .promise(&stage.pace, due)
        .expect("a slot is due");
    assert_eq!((promise.waiter, promise.due), (1, due));
    stage
        .bucket
        .step_back(&stage.pace, promise.ticket, promise.loan, 1, due);
    assert_eq!(stage.bucket.waiting(), 3);
    stage.pass_to(1_000);
    assert!(stage.bucket.ready(promise.ticket));
    stage.pass_to(60_000);
    let went = [(0, 0), (2, 1_000_000), (1, 2_000_000), (3, 3_000_000)];
    assert_eq!(stage.went, went);
}

#[test]
fn who_steps_back_from_the_last_slot_goes_as_soon_as_it_can() {
    let mut stage = Stage::new("1r/m", 5, 0);
    stage.crowd(2);
    let due = stage.bucket.due(&stage.pace).expect("one waits");
    let promise = stage
        .bucket
        .promise(&stage.pace, due)
        .expect("a slot is due");
    stage
        .bucket
        .step_back(&stage.pace, promise.ticket, promise.loan, 1, due);
    stage.pass_to(60_250);
    assert!(stage.bucket.ready(promise.ticket));
    stage.pass_to(60_250);
    assert_eq!(stage.went_millis(), [0, 60_250]);
    assert_eq!(stage.crowd(1), 1);
    assert_eq!(stage.bucket.due(&stage.pace), Some(at(120_248)));
}

#[test]
fn a_place_given_up_is_not_made_ready() {
    let mut stage = Stage::new("1r/s", 5, 0);
    let ticket = stage.bucket.join_blocked(1, stage.now(), 7);
    assert!(stage.bucket.leave(ticket, stage.now()));
    assert!(!stage.bucket.ready(ticket));
    assert_eq!(
        (stage.bucket.waiting(), stage.bucket.due(&stage.pace)),
        (0, None)
    );
}

#[test]
fn a_slot_given_back_sets_an_earlier_timer() {
    let mut stage = Stage::new("1r/s", 5, 0);
    let loan = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.crowd(1);
    assert_eq!(stage.bucket.arm(&stage.pace), Some(at(1_000)));
    assert_eq!(stage.bucket.arm(&stage.pace), None);
    stage.pass_to(500);
    stage.bucket.give_back(&stage.pace, loan, stage.now());
    assert_eq!(stage.bucket.arm(&stage.pace), Some(at(0)));
    assert!(stage.bucket.rang(at(0)));
    assert!(!stage.bucket.rang(at(1_000)));
}

#[test]
fn the_oldest_counts_whether_it_can_go_or_not() {
    let mut stage = Stage::new("1r/m", 5, 0);
    stage.crowd(1);
    let blocked = stage.bucket.join_blocked(1, stage.now(), 7);
    stage.pass_to(500);
    stage.crowd(1);
    assert_eq!(stage.bucket.oldest(), Some(at(0)));
    assert!(stage.bucket.leave(blocked, stage.now()));
    assert_eq!(stage.bucket.oldest(), Some(at(500)));
}

#[test]
fn a_purge_tells_all_who_waited_and_keeps_the_debt() {
    let mut stage = Stage::new("1r/s", 5, 0);
    stage.crowd(3);
    stage.bucket.join_blocked(1, stage.now(), 9);
    let mut told = stage.bucket.purge(stage.now());
    told.sort_unstable();
    assert_eq!((told, stage.bucket.waiting()), (vec![1, 2, 9], 0));
    assert_eq!(stage.ask(None), Verdict::Admitted(millis(1_000)));
}

#[test]
fn a_loan_that_was_settled_does_not_come_back() {
    let mut stage = Stage::new("1r/s", 3, 3);
    let first = stage.bucket.lend(&stage.pace, 1, stage.now());
    let second = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.bucket.settle(&stage.pace, second, stage.now());
    stage.bucket.give_back(&stage.pace, second, stage.now());
    stage.bucket.give_back(&stage.pace, first, stage.now());
    assert_eq!(stage.crowd(9), 3);
}

#[test]
fn a_loan_that_was_settled_is_nobody_elses() {
    let mut stage = Stage::new("1r/s", 3, 3);
    let first = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.bucket.settle(&stage.pace, first, stage.now());
    stage.pass_to_micros(1);
    let second = stage.bucket.lend(&stage.pace, 1, stage.now());
    stage.bucket.give_back(&stage.pace, first, stage.now());
    stage.bucket.settle(&stage.pace, second, stage.now());
    assert_eq!(stage.crowd(9), 2);
}

#[test]
fn a_place_that_was_given_up_is_nobody_elses() {
    let now = Stage::new("1r/s", 3, 0).now();
    let mut bucket = Bucket::new(&Stage::new("1r/s", 3, 0).pace, now);
    let first = bucket.join(1, now, 1);
    assert!(bucket.leave(first, now));
    let now = now.after(Duration::from_micros(1));
    bucket.join(1, now, 2);
    assert!(!bucket.leave(first, now));
    assert_eq!(bucket.waiting(), 1);
}

#[test]
fn nobody_passes_one_to_whom_a_slot_is_on_its_way() {
    let mut stage = Stage::new("10r/s", 5, 5);
    let pace = Pace::new("10r/s".parse().expect("a rate"), 5, 3).expect("a pace");
    let ticket = stage.bucket.join(1, stage.now(), 1);
    let promise = stage
        .bucket
        .promise(&pace, stage.now())
        .expect("a slot is due");
    assert_eq!(promise.ticket, ticket);
    assert!(
        !stage.bucket.goes_at_once(&pace, 1, stage.now()),
        "it has not arrived"
    );
    stage.bucket.claim(promise.loan);
    assert!(stage.bucket.goes_at_once(&pace, 1, stage.now()));
}
