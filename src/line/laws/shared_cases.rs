//! What went wrong with shared lines before, case by case?

use std::time::Duration;

use super::shared_model::{Model, Told};
use super::shared_run::{Habits, Run, STEADY, ZERO};
use super::stage::pace;
use crate::line::{Answer, Bucket, Call, Grant, Known, Pace, Reach, Run as Newcomers, Unused};
use crate::units::Moment;

const MINUTE: u64 = 60_000_000;
const REACH: Reach = Reach {
    round_trip: Duration::from_micros(200),
    lead: Duration::from_micros(400),
    notice: Duration::from_micros(200),
    horizon: Duration::from_millis(30),
};
const NOBODY: Habits = Habits {
    every: u64::MAX / 4,
    ..STEADY
};

/// One caller after another, at times that the test says.
#[derive(Default)]
struct Desk {
    model: Model,
    number: u64,
}

impl Desk {
    fn call(&mut self, at: u64, me: usize, pace: &Pace, call: &Call) -> Answer {
        self.number += 1;
        self.call_again(at, me, pace, self.number, call)
            .expect("a call with a new number")
    }

    fn call_again(
        &mut self,
        at: u64,
        me: usize,
        pace: &Pace,
        number: u64,
        call: &Call,
    ) -> Option<Answer> {
        let told = Told {
            now: ZERO + at,
            me,
            number,
            pace,
            reach: REACH,
            dead: &[],
        };
        self.model.call(&told, call)
    }
}

fn newcomers(count: u32) -> Call {
    Call {
        wanted: vec![Newcomers {
            count,
            max_wait: None,
            cost: 1,
        }],
        ..Call::default()
    }
}

fn slots(answer: &Answer) -> Vec<u64> {
    let at = |grant: &Grant| grant.slot.as_micros() - ZERO;
    answer.grants.iter().map(at).collect()
}

/// Those who hold so many places, and know what the last answer said.
fn holding(held: usize, last: &Answer) -> Call {
    Call {
        known: Some(last.known),
        held,
        has_tickets: true,
        ..Call::default()
    }
}

#[test]
fn idle_credit_is_promised_for_now_not_for_the_past() {
    let answer = Desk::default().call(0, 0, &pace("1r/s", 9, 4), &newcomers(7));
    assert_eq!(slots(&answer), [0, 0, 0, 0, 0], "never before now");
    assert_eq!((answer.joined, answer.tickets), (vec![7], 2));
}

#[test]
fn a_hold_keeps_all_back_and_is_never_part_of_what_is_owed() {
    let (mut desk, pace) = (Desk::default(), pace("10r/s", 5, 0));
    let hold = Call {
        hold: Some(Duration::from_mins(1)),
        ..newcomers(3)
    };
    let held = desk.call(0, 0, &pace, &hold);
    assert_eq!((slots(&held).len(), held.joined.as_slice()), (0, &[3][..]));
    assert!(
        held.next <= Moment::from_micros(ZERO),
        "nothing is owed yet"
    );
    let impatient = Call {
        wanted: vec![Newcomers {
            count: 1,
            max_wait: Some(Duration::from_secs(5)),
            cost: 1,
        }],
        ..Call::default()
    };
    let refused = desk.call(1_000, 1, &pace, &impatient);
    assert_eq!(refused.joined, [0], "its turn can't come in time");
    let before = desk.call(59_000_000, 0, &pace, &holding(3, &held));
    assert_eq!(slots(&before).len(), 0);
    let after = desk.call(59_980_000, 0, &pace, &holding(3, &before));
    assert_eq!(slots(&after), [MINUTE], "within the horizon, and no burst");
}

#[test]
fn neither_a_clock_that_steps_back_nor_a_slower_rate_freezes_a_bucket() {
    let mut desk = Desk::default();
    let daily = pace("1r/d", 5, 0);
    let first = desk.call(3_600_000_000, 0, &daily, &newcomers(2));
    assert_eq!(first.tickets, 1);
    let faster = pace("10r/s", 5, 0);
    let next = desk.call(3_600_001_000, 0, &faster, &holding(1, &first));
    let due = next.next.as_micros() - ZERO;
    assert!(due <= 3_600_001_000 + 350_000, "due {due}");
    // The clock is an hour back.
    let stepped = desk.call(1_000, 0, &faster, &holding(1, &next));
    let due = stepped.next.as_micros() - ZERO;
    assert!(due <= 1_000 + 350_000, "due {due}");
}

#[test]
fn an_old_call_that_comes_late_is_stale() {
    let (mut desk, pace) = (Desk::default(), pace("5r/m", 9, 0));
    let old = newcomers(4);
    desk.number = 1;
    let answer = desk.call(0, 0, &pace, &Call::default());
    assert_eq!(answer.length, 0);
    assert_eq!(desk.call_again(1_000, 0, &pace, 1, &old), None);
    assert_eq!(desk.call(2_000, 0, &pace, &Call::default()).length, 0);
}

#[test]
fn what_an_answer_said_that_got_lost_is_said_again() {
    let (mut desk, pace) = (Desk::default(), pace("5r/m", 9, 0));
    let heard = desk.call(0, 0, &pace, &newcomers(2));
    assert_eq!((slots(&heard), heard.tickets), (vec![0], 1));
    let lost = desk.call(11_980_000, 0, &pace, &holding(1, &heard));
    assert_eq!(slots(&lost), [12_000_000]);
    let again = desk.call(11_985_000, 0, &pace, &holding(1, &heard));
    assert_eq!((slots(&again), again.tickets), (vec![12_000_000], 0));
    // It came too late after all: nobody waits a minute more for that.
    let unused = Call {
        returned: vec![Unused {
            number: again.grants[0].number,
            count: 1,
        }],
        ..holding(1, &again)
    };
    let undone = desk.call(12_020_000, 0, &pace, &unused);
    assert_eq!(slots(&undone), [12_020_000]);
}

#[test]
fn what_redis_forgot_its_callers_remember() {
    let (mut desk, pace) = (Desk::default(), pace("1r/m", 9, 0));
    let heard = desk.call(0, 0, &pace, &newcomers(1));
    assert_eq!(slots(&heard), [0]);
    desk.model.flush();
    let other = Call {
        known: Some(Known {
            number: heard.known.number,
            next: heard.known.next,
        }),
        ..newcomers(1)
    };
    let after = desk.call(1_000_000, 0, &pace, &other);
    assert_eq!(slots(&after).len(), 0, "the minute is not over");
    // Its line alone gone: whoever held a place puts it back at once.
    desk.model.lose_line();
    let back = desk.call(2_000_000, 0, &pace, &holding(1, &after));
    assert_eq!((back.tickets, back.length), (1, 1));
}

#[test]
fn each_of_a_batch_is_judged_by_its_own_patience() {
    let run = |count, millis| Newcomers {
        count,
        max_wait: Some(Duration::from_millis(millis)),
        cost: 1,
    };
    let call = Call {
        wanted: vec![run(3, 10_000), run(2, 250), run(2, 400)],
        ..Call::default()
    };
    let answer = Desk::default().call(0, 0, &pace("10r/s", 100, 0), &call);
    assert_eq!(answer.joined, [3, 0, 2]);
}

#[test]
fn what_only_counts_uses_its_slots() {
    let pace = pace("1r/h", 3, 0);
    let at = |micros: u64| Moment::from_micros(ZERO + micros);
    let mut bucket = Bucket::<()>::new(&pace, at(0));
    bucket.attach(&pace, at(0));
    (0..3).for_each(|_| bucket.count(1, None, at(0)));
    let call = bucket.call(&pace, &REACH, at(1_000), || 1).expect("a call");
    assert_eq!(call.wanted[0].count, 3);
    let grant = |number| Grant {
        number,
        slot: at(1_000),
        count: 1,
    };
    let answer = Answer {
        known: Known { number: 2, next: 0 },
        next: at(1_000),
        hold: Moment::default(),
        length: 0,
        tickets: 0,
        place: None,
        joined: vec![2],
        grants: vec![grant(1), grant(2)],
        buried: 0,
    };
    let heard = bucket
        .answered(&pace, 1, &answer)
        .expect("it was waited for");
    assert_eq!(heard.would_refuse, 1);
    assert!(
        bucket.call(&pace, &REACH, at(9_000), || 2).is_none(),
        "nothing comes back"
    );
}

#[test]
fn a_call_promises_no_more_than_five_hundred_slots() {
    let (mut desk, pace) = (Desk::default(), pace("100000r/s", 10_000, 0));
    let answer = desk.call(0, 0, &pace, &newcomers(5_000));
    assert_eq!((answer.grants.len(), answer.tickets), (512, 4_488));
}

#[test]
fn one_that_misses_its_slots_lets_others_go_before() {
    let (mut desk, pace) = (Desk::default(), pace("100r/s", 100, 0));
    desk.call(0, 0, &pace, &newcomers(50));
    let mine = desk.call(1_000, 1, &pace, &newcomers(2));
    assert!(mine.place.is_some_and(|place| place > 40));
    let late = Call {
        held: 50,
        at_tail: true,
        ..Call::default()
    };
    desk.model.lose_line();
    desk.call(2_000, 1, &pace, &holding(2, &mine));
    let tail = desk.call(3_000, 0, &pace, &late);
    assert_eq!(tail.place, Some(2), "behind the two of the other");
}

#[test]
fn a_lost_word_of_departures_costs_no_more_than_the_wait_foreseen() {
    let leaving = Habits { loss: 30, ..NOBODY };
    let mut run = Run::new(3, pace("1r/s", 20, 0), &[leaving, leaving, leaving]);
    (0..9).for_each(|request| run.arrive(request % 3));
    run.pass(Duration::from_secs(30));
    assert_eq!((run.gone.len() + run.refused, run.waiting()), (9, 0));
}

#[test]
fn a_store_that_comes_back_finds_everyone_in_order() {
    let pace = pace("10r/s", 20, 0);
    let (mut bucket, now) = (Bucket::new(&pace, Moment::from_micros(ZERO)), ZERO);
    let at = |micros: u64| Moment::from_micros(now + micros);
    bucket.attach(&pace, at(0));
    let tickets: Vec<_> = (0..5)
        .map(|one| bucket.want(1, None, at(one), one))
        .collect();
    assert!(bucket.call(&pace, &REACH, at(1_000), || 1).is_some());
    let heard = bucket
        .detach(&pace.share(2), Duration::ZERO, at(50_000))
        .expect("it was attached");
    assert_eq!((heard.admitted, heard.refused.len()), (tickets, 0));
    assert_eq!(
        bucket.promise(&pace, at(50_000)).map(|went| went.waiter),
        Some(0)
    );
    bucket.attach(&pace, at(60_000));
    let call = bucket
        .call(&pace, &REACH, at(60_000), || 2)
        .expect("a call");
    assert_eq!((call.held, call.wanted.len()), (4, 0));
    assert!(
        call.owed.is_some_and(|owed| owed <= at(160_000)),
        "{:?}",
        call.owed
    );
}

#[test]
fn a_store_that_comes_and_goes_costs_one_turn_and_not_one_each_time() {
    let (pace, second) = (pace("1r/s", 20, 0), Duration::from_secs(1));
    let mut bucket = Bucket::new(&pace, Moment::from_micros(ZERO));
    let at = |millis: u64| Moment::from_micros(ZERO + millis * 1_000);
    let (part, rank) = (pace.share(3), 2);
    for flap in 0..10 {
        bucket.attach(&pace, at(flap));
        bucket.want(1, None, at(flap), flap);
        bucket.detach(&part, second * rank, at(flap));
    }
    // Each of three goes every three seconds, the last of them two behind the first.
    let due = bucket.due(&part).expect("somebody waits");
    assert!(due >= at(2_000) && due <= at(3_300), "{due:?}");
}
