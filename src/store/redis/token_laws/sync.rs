//! What passes between two words with Redis, and is all of it paid back?

use std::time::Duration;

use super::super::laws::{Server, pace};
use super::*;
use crate::line::laws::shared_run::{Chance, ZERO};
use crate::line::{Bucket, Pace};
use crate::units::Moment;

/// An instance that lets pass by what Redis said no longer ago than `SYNC`.
struct Between {
    bucket: Bucket<usize>,
    /// When it tells what has passed.
    due: u64,
}

const SYNC: u64 = 50_000;

impl Between {
    fn new(pace: &Pace) -> Self {
        Self {
            bucket: Bucket::new(pace, Moment::from_micros(ZERO)),
            due: u64::MAX,
        }
    }

    /// Says to Redis what is so; how many of those who asked pass.
    fn say(&mut self, tokens: &mut Tokens, at: u64, loses: bool) -> u32 {
        let (pace, now) = (tokens.pace, Moment::from_micros(ZERO + at));
        let reach = Distance::default().reach();
        self.bucket.settle_up();
        let Some(call) = self.bucket.call(&pace, &reach, now, || at + 1) else {
            return 0;
        };
        let call = Call {
            debt: pace.interval() * (pace.delay() + 1) * 3,
            ..call
        };
        let answer = tokens.invoke(at, &call);
        if loses {
            self.bucket.say_again(at + 1, now);
            return 0;
        }
        let heard = self.bucket.answered(&pace, at + 1, &answer);
        assert!(heard.is_some());
        let mut passed = 0;
        while let Some(promise) = self.bucket.promise(&pace, now) {
            self.bucket.settle(&pace, promise.loan, now);
            passed += 1;
        }
        passed
    }

    /// Asks once, lets one more pass without asking, and is about to tell of that: the
    /// call of number 9, at 3 ms.
    fn tells_of_one(&mut self, tokens: &mut Tokens) -> Call {
        assert!(self.ask(tokens, 1_000, false));
        assert!(self.ask(tokens, 2_000, false));
        self.bucket.settle_up();
        let (reach, now) = (Distance::default().reach(), ZERO + 3_000);
        let call = self
            .bucket
            .call(&tokens.pace, &reach, Moment::from_micros(now), || 9);
        call.expect("it has news")
    }

    fn ask(&mut self, tokens: &mut Tokens, at: u64, gives_back: bool) -> bool {
        let (pace, now) = (tokens.pace, Moment::from_micros(ZERO + at));
        self.bucket.attach(&pace, now);
        let sync = Duration::from_micros(SYNC);
        match self.bucket.pass_between(&pace, 1, now, sync) {
            Some(Ok((loan, must_settle))) => {
                if must_settle {
                    self.due = at + SYNC * 3 / 4;
                }
                if gives_back {
                    self.bucket.give_back(&pace, loan, now);
                } else {
                    self.bucket.settle(&pace, loan, now);
                }
                !gives_back
            }
            Some(Err(_)) => false,
            None => {
                self.bucket.want(1, None, now, 0);
                self.say(tokens, at, false) > 0
            }
        }
    }
}

/// When requests passed that came evenly to three instances.
fn passed_between(server: &Server, seed: u64, pace: Pace, apart: u64, losses: u64) -> Vec<u64> {
    let mut chance = Chance::new(seed);
    let mut tokens = Tokens::new(server, &format!("sync {seed}"), pace);
    let mut all: Vec<Between> = (0..3).map(|_| Between::new(&pace)).collect();
    let (mut at, mut passed) = (1_000, Vec::new());
    while at < 10_000_000 {
        at += 1_000 + chance.below(apart * 2 - 1_000);
        for one in &mut all {
            if one.due <= at {
                let lost = chance.percent(losses);
                one.say(&mut tokens, one.due, lost);
                one.due = if lost { at } else { u64::MAX };
            }
        }
        let who = usize::try_from(chance.below(3)).expect("few");
        if all[who].ask(&mut tokens, at, chance.percent(20)) {
            passed.push(at);
        }
    }
    passed
}

#[test]
fn what_passes_between_two_words_with_redis_is_paid_back() {
    let server = Server::start();
    for seed in 200..206 {
        let pace = pace("100r/s", 19, 19);
        // Four and a half times what the rate lets pass.
        let passed = passed_between(&server, seed, pace, 2_200, 0);
        for (first, from) in passed.iter().enumerate() {
            for (count, to) in (1_u64..).zip(passed.iter().skip(first)) {
                let most = 3 * 20 + (to - from) / 10_000 + 1;
                assert!(count <= most, "seed {seed}: {count} in {} µs", to - from);
            }
        }
        let most = 20 + 1_000 + 40;
        assert!((990..=most).contains(&passed.len()), "{}", passed.len());
    }
}

#[test]
fn what_a_lost_call_told_is_counted_once_more_at_most() {
    let server = Server::start();
    for seed in 300..304 {
        let pace = pace("100r/s", 19, 19);
        let passed = passed_between(&server, seed, pace, 2_200, 20).len();
        assert!((500..=1_060).contains(&passed), "seed {seed}: {passed}");
    }
}

#[test]
fn what_comes_back_before_it_was_told_is_as_if_it_had_never_passed() {
    let server = Server::start();
    let pace = pace("1r/m", 4, 4);
    let mut tokens = Tokens::new(&server, "regret", pace);
    let mut one = Between::new(&pace);
    assert!(one.ask(&mut tokens, 1_000, false));
    for nth in 0..20 {
        assert!(!one.ask(&mut tokens, 2_000 + nth, true));
    }
    // While a call is under way, too.
    let now = |at| Moment::from_micros(ZERO + at);
    let sync = Duration::from_micros(SYNC);
    let passed = one.bucket.pass_between(&pace, 1, now(3_000), sync);
    let Some(Ok((loan, _))) = passed else {
        panic!("{passed:?}")
    };
    one.bucket.settle_up();
    let reach = Distance::default().reach();
    let call = one.bucket.call(&pace, &reach, now(4_000), || 9);
    let call = call.expect("it has news");
    assert_eq!(call.spent, 1);
    one.bucket.give_back(&pace, loan, now(4_500));
    let answer = tokens.invoke(4_000, &call);
    one.bucket.answered(&pace, 9, &answer).expect("waited for");
    one.say(&mut tokens, 5_000, false);
    assert_eq!(tokens.passes(6_000, 1, 9), 4);
}

#[test]
fn what_passes_while_a_call_is_under_way_is_counted_too() {
    let server = Server::start();
    let pace = pace("1r/m", 4, 4);
    let mut tokens = Tokens::new(&server, "under way", pace);
    let mut one = Between::new(&pace);
    let call = one.tells_of_one(&mut tokens);
    assert!(one.ask(&mut tokens, 3_100, false));
    assert!(one.ask(&mut tokens, 3_200, false));
    let answer = tokens.invoke(3_000, &call);
    one.bucket.answered(&pace, 9, &answer).expect("waited for");
    assert!(one.ask(&mut tokens, 4_000, false), "the fifth");
    assert!(!one.ask(&mut tokens, 4_100, false), "the sixth");
    assert_eq!(one.say(&mut tokens, 5_000, false), 0);
    assert_eq!(tokens.passes(6_000, 1, 9), 0);
}

#[test]
fn what_a_call_told_that_never_came_is_told_again() {
    let server = Server::start();
    let pace = pace("1r/m", 4, 4);
    let mut tokens = Tokens::new(&server, "never came", pace);
    let mut one = Between::new(&pace);
    let call = one.tells_of_one(&mut tokens);
    assert_eq!(call.spent, 1);
    one.bucket.say_again(9, Moment::from_micros(ZERO + 4_000));
    one.say(&mut tokens, 5_000, false);
    assert_eq!(tokens.passes(6_000, 1, 9), 3);
}
