//! What do many clients get over time?

use super::stage::{Stage, at, millis};
use crate::line::Verdict;

#[test]
fn a_greedy_client_gets_the_rate_and_the_burst() {
    for delay in [0, 4, 10] {
        let mut stage = Stage::new("100r/s", 10, delay);
        let mut admitted = 0;
        for tick in 0..5_000 {
            stage.pass_to(tick);
            admitted += stage.crowd(2);
        }
        assert!(
            (506..=511).contains(&admitted),
            "{admitted} at a delay of {delay}"
        );
    }
}

#[test]
fn silence_earns_no_more_than_the_slots_it_lasted() {
    let mut stage = Stage::new("1r/s", 100, 100);
    assert_eq!(stage.crowd(500), 101);
    stage.pass_to(2_300);
    assert_eq!(stage.crowd(500), 2);
}

#[test]
fn a_drained_line_owes_until_its_last_slot() {
    let mut stage = Stage::new("1r/s", 100, 0);
    assert_eq!(stage.crowd(500), 101);
    stage.pass_to(100_000);
    assert_eq!(stage.bucket.waiting(), 0);
    assert!(!stage.bucket.is_idle(&stage.pace, at(100_999)));
    assert!(stage.bucket.is_idle(&stage.pace, at(101_000)));
    stage.pass_to(102_300);
    assert_eq!(stage.crowd(500), 101);
    assert_eq!(stage.went_millis().last(), Some(&102_300));
}

#[test]
fn six_a_minute_let_one_through_in_ten_seconds() {
    let mut stage = Stage::new("6r/m", 0, 0);
    for tick in 0..200 {
        stage.pass_to(tick * 50);
        stage.crowd(1);
    }
    assert_eq!(stage.went_millis(), [0]);
}

#[test]
fn the_patient_are_all_served_whoever_leaves_before_them() {
    let mut stage = Stage::new("100r/s", 30, 0);
    let mut patient = Vec::new();
    let mut hurried = std::collections::VecDeque::new();
    let mut who = 0;
    for request in 0..1_500 {
        let now = request * 20 / 3;
        while let Some((gone, _)) = hurried.pop_front_if(|(_, until)| *until <= now) {
            stage.pass_to(now);
            stage.leave(gone);
        }
        stage.pass_to(now);
        let admitted = matches!(stage.arrive(), Verdict::Admitted(_));
        if request % 2 == 0 {
            assert!(admitted, "a patient one was refused at {now} ms");
            patient.push(who);
        } else if admitted {
            hurried.push_back((who, now + 100));
        }
        who += usize::from(admitted);
    }
    for (gone, _) in hurried {
        stage.leave(gone);
    }
    stage.pass_to(60_000);
    let served: Vec<usize> = stage.went.iter().map(|(who, _)| *who).collect();
    assert!(patient.iter().all(|who| served.binary_search(who).is_ok()));
    assert!(
        served.len() > 990,
        "{} of 1000 slots were used",
        served.len()
    );
}

#[test]
fn nobody_waits_only_to_be_refused() {
    let mut stage = Stage::new("10r/s", 100, 0);
    stage.crowd(101);
    let admitted = stage.ask(Some(millis(2_000)));
    assert!(matches!(admitted, Verdict::Refused(_)), "{admitted:?}");
    for who in 21..101 {
        stage.leave(who);
    }
    assert!(matches!(
        stage.ask(Some(millis(2_100))),
        Verdict::Admitted(_)
    ));
    assert!(matches!(
        stage.ask(Some(millis(2_099))),
        Verdict::Refused(_)
    ));
}
