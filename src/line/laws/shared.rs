//! Do the laws of a bucket hold where instances share it?

use std::time::Duration;

use super::shared_run::{Departure, Habits, Run, STEADY};
use super::stage::pace;

const SECOND: u64 = 1_000_000;

/// The most slots that were used in any window of `span` microseconds; those of the
/// first one may have come before it.
fn most_in(gone: &[Departure], span: u64) -> u32 {
    let windows = gone.iter().enumerate().map(|(from, first)| {
        gone.iter()
            .skip(from)
            .take_while(|one| one.at < first.at + span)
            .map(|one| one.slots)
            .sum::<u32>()
            - (first.slots - 1)
    });
    windows.max().unwrap_or(0)
}

/// How many left before one who had come earlier, by more than `apart` microseconds.
fn overtaking(gone: &[Departure], apart: u64) -> usize {
    let mut latest = 0;
    let late = gone.iter().filter(|one| {
        let is_late = one.came + apart < latest;
        latest = latest.max(one.came);
        is_late
    });
    late.count()
}

fn mean_wait(gone: &[Departure], who: usize) -> u64 {
    let waits: Vec<u64> = gone
        .iter()
        .filter(|one| one.who == who)
        .map(|one| one.at - one.came)
        .collect();
    waits.iter().sum::<u64>() / waits.len().max(1) as u64
}

fn habits(every: [u64; 3]) -> [Habits; 3] {
    every.map(|every| Habits { every, ..STEADY })
}

#[test]
fn three_instances_use_every_slot_in_order_and_evenly() {
    // 150, 30 and 10 arrivals a second at a hundred a second.
    let mut run = Run::new(1, pace("100r/s", 300, 0), &habits([6_667, 33_333, 100_000]));
    run.pass(Duration::from_secs(20));
    let settled: Vec<Departure> = run
        .gone
        .iter()
        .copied()
        .filter(|one| one.at > super::shared_run::ZERO + 5 * SECOND)
        .collect();
    assert!(run.gone.len() >= 1_980, "{} of 2000 slots", run.gone.len());
    assert!(most_in(&run.gone, SECOND) <= 101);
    assert!(most_in(&run.gone, SECOND / 10) <= 11);
    assert!(
        overtaking(&run.gone, 0) * 100 <= run.gone.len(),
        "{}",
        overtaking(&run.gone, 0)
    );
    let waits = [0, 1, 2].map(|who| mean_wait(&settled, who));
    let longest = waits.iter().copied().max().unwrap_or(0);
    assert!(
        waits.iter().all(|wait| *wait * 10 > longest * 9),
        "{waits:?}"
    );
    assert_eq!(run.missed, 0);
}

#[test]
fn requests_that_need_several_slots_wait_for_all_of_them() {
    // 60 arrivals a second that need 150 slots, of a hundred.
    let costly = habits([33_333, 66_667, 66_667]).map(|habits| Habits {
        costs: 4,
        leaving: 10,
        ..habits
    });
    for seed in 0..5 {
        let mut run = Run::new(seed, pace("100r/s", 300, 0), &costly);
        run.pass(Duration::from_secs(20));
        let slots: u32 = run.gone.iter().map(|one| one.slots).sum();
        assert!(slots >= 1_970, "{slots} of 2000 slots");
        let most = most_in(&run.gone, SECOND);
        assert!(most <= 101, "{most} in a second");
        let overtaking = overtaking(&run.gone, 0);
        assert!(overtaking * 20 <= run.gone.len(), "{overtaking}");
        run.close();
        run.pass(Duration::from_secs(5));
        assert_eq!((run.waiting(), run.model.length()), (0, 0), "seed {seed}");
        // Slots that came to one who left before it had them all.
        assert!(
            run.missed * 100 <= u64::from(slots),
            "{} missed",
            run.missed
        );
    }
}

#[test]
fn departures_waste_no_slot() {
    let leaving = habits([6_667, 10_000, 10_000]).map(|habits| Habits {
        leaving: 50,
        ..habits
    });
    let mut run = Run::new(2, pace("100r/s", 300, 0), &leaving);
    run.pass(Duration::from_secs(20));
    assert!(run.gone.len() >= 1_970, "{} of 2000 slots", run.gone.len());
    assert!(most_in(&run.gone, SECOND) <= 101);
    assert!(overtaking(&run.gone, 0) * 20 <= run.gone.len());
}

#[test]
fn a_slow_instance_does_not_block_the_rest() {
    let mut all = habits([10_000, 10_000, 10_000]);
    all[2].way = 40_000;
    all[2].jitter = 5_000;
    let mut run = Run::new(3, pace("100r/s", 5_000, 0), &all);
    run.pass(Duration::from_secs(20));
    assert!(run.gone.len() >= 1_900, "{} of 2000 slots", run.gone.len());
    assert!(most_in(&run.gone, SECOND) <= 101);
    let far = run.gone.iter().filter(|one| one.who == 2).count();
    assert!(far >= 500, "the far one used {far} of its 667");
}

#[test]
fn a_stalled_and_a_killed_instance_make_no_burst_and_waste_little() {
    let mut run = Run::new(4, pace("100r/s", 300, 0), &habits([10_000, 10_000, 10_000]));
    run.pass(Duration::from_secs(6));
    run.instances[1].stalled_until = run.now + 2 * SECOND;
    run.pass(Duration::from_secs(6));
    run.kill(2);
    run.pass(Duration::from_secs(8));
    assert!(run.gone.len() >= 1_840, "{} of 2000 slots", run.gone.len());
    assert!(most_in(&run.gone, SECOND) <= 101);
    assert!(most_in(&run.gone, SECOND / 10) <= 11);
}

#[test]
fn dead_tickets_ahead_hold_others_for_seconds_not_minutes() {
    let mut run = Run::new(5, pace("5r/m", 100, 0), &habits([u64::MAX / 4; 3]));
    (0..60).for_each(|_| run.arrive(0));
    run.pass(Duration::from_secs(1));
    run.kill(0);
    run.pass(Duration::from_secs(1));
    (0..3).for_each(|_| run.arrive(1));
    run.pass(Duration::from_mins(1));
    let served: Vec<u64> = run
        .gone
        .iter()
        .filter(|one| one.who == 1)
        .map(|one| (one.at - one.came) / SECOND)
        .collect();
    assert_eq!(served.len(), 3, "{served:?}");
    assert!(served[0] <= 15, "the first waited {} s", served[0]);
}

#[test]
fn all_instances_together_admit_the_burst_and_one_more() {
    let mut run = Run::new(6, pace("5r/m", 5, 0), &habits([u64::MAX / 4; 3]));
    for request in 0..9 {
        run.arrive(request % 3);
    }
    run.pass(Duration::from_secs(61));
    let at: Vec<u64> = run
        .gone
        .iter()
        .map(|one| (one.at - super::shared_run::ZERO) / SECOND)
        .collect();
    assert_eq!(at, [0, 12, 24, 36, 48, 60], "five a minute");
    assert_eq!(run.refused, 3);
}

#[test]
fn idle_credit_passes_at_once_and_no_more_of_it() {
    let mut run = Run::new(7, pace("10r/s", 10, 4), &habits([u64::MAX / 4; 3]));
    (0..12).for_each(|request| run.arrive(request % 3));
    run.pass(Duration::from_millis(50));
    assert_eq!(
        run.gone.len(),
        5,
        "four of the burst and the one that is due"
    );
    run.pass(Duration::from_secs(2));
    assert_eq!((run.gone.len(), run.refused), (11, 1));
    assert!(most_in(&run.gone[5..], SECOND) <= 10);
}

#[test]
fn one_call_is_enough_for_an_idle_key() {
    let mut run = Run::new(8, pace("100r/s", 10, 0), &habits([u64::MAX / 4; 3]));
    run.arrive(0);
    run.pass(Duration::from_secs(1));
    assert_eq!((run.gone.len(), run.calls), (1, 1));
}

#[test]
fn calls_are_few_where_many_wait() {
    let mut run = Run::new(9, pace("2000r/s", 2_000, 0), &habits([1_400, 1_400, 1_400]));
    run.pass(Duration::from_secs(5));
    let (calls, served) = (run.calls, run.gone.len() as u64);
    assert!(
        calls * 10 <= served * 4,
        "{calls} calls for {served} requests"
    );
    assert!(run.gone.len() >= 9_900, "{}", run.gone.len());
}

#[test]
fn whatever_gets_lost_nobody_is_served_too_fast_and_nothing_leaks() {
    for seed in 0..60 {
        let mut all = habits([12_000, 15_000, 30_000]).map(|habits| Habits {
            loss: 5,
            leaving: 30,
            jitter: 1_000,
            ..habits
        });
        all[2].way = 5_000;
        let mut run = Run::new(seed, pace("100r/s", 40, 3), &all);
        run.pass(Duration::from_secs(4));
        if seed % 3 == 0 {
            run.model.flush();
        }
        run.pass(Duration::from_secs(2));
        run.close();
        run.pass(Duration::from_secs(4));
        assert!(most_in(&run.gone, SECOND) <= 105, "seed {seed}");
        assert_eq!(run.waiting(), 0, "seed {seed}: someone waits in vain");
        run.pass(Duration::from_secs(2));
        assert_eq!(run.model.length(), 0, "seed {seed}: tickets are left over");
        let idle = run
            .instances
            .iter()
            .all(|one| one.bucket.is_idle(&one.pace, run.moment()));
        assert!(idle, "seed {seed}: a bucket is never forgotten");
    }
}

#[test]
fn a_rollout_never_goes_faster_than_the_faster_config() {
    let mut run = Run::new(
        10,
        pace("100r/s", 300, 0),
        &habits([10_000, 10_000, 10_000]),
    );
    run.instances[1].pace = pace("50r/s", 300, 0);
    run.pass(Duration::from_secs(10));
    assert!(most_in(&run.gone, SECOND) <= 101);
    assert!(run.gone.len() >= 500, "{}", run.gone.len());
}

#[test]
fn a_slot_that_nobody_uses_is_undone_where_it_was_the_last() {
    let mut run = Run::new(11, pace("1r/m", 5, 0), &habits([u64::MAX / 4; 3]));
    run.arrive(0);
    run.arrive(0);
    run.pass(Duration::from_secs(59));
    // The second is promised its slot within the horizon, and stalls through it.
    run.instances[0].stalled_until = run.now + 2 * SECOND;
    run.pass(Duration::from_secs(4));
    assert_eq!(run.gone.len(), 2, "it need not wait a minute more");
}
