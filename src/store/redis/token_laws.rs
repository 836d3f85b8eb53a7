//! Does `token_bucket.lua` let as many pass as a bucket in memory does?

use std::time::Duration;

use super::answer::Grants;
use super::laws::{Server, pace};
use super::saying::Saying;
use super::*;
use crate::key::KeyHasher;
use crate::line::laws::shared_run::{Chance, ZERO};
use crate::line::{Answer, Bucket, Grant, Known, Loan, Pace, Run, Unused, Verdict};
use crate::units::Moment;

/// A bucket in Redis, asked at times that the test says.
struct Tokens {
    connection: redis::Connection,
    script: Script,
    names: BucketNames,
    pace: Pace,
    known: Option<Known>,
}

impl Tokens {
    fn new(server: &Server, key: &str, pace: Pace) -> Self {
        Self {
            connection: server.connect(),
            script: Script::new(include_str!("../../../lua/token_bucket.lua")),
            names: Names::new("weir").bucket("law", KeyHasher::new("weir").hash(key)),
            pace,
            known: None,
        }
    }

    fn ask(&mut self, at: u64, cost: u32, count: u32, returned: &[Unused]) -> Answer {
        let call = Call {
            known: self.known,
            returned: returned.to_vec(),
            wanted: vec![Run {
                count,
                max_wait: None,
                cost,
            }],
            ..Call::default()
        };
        let answer = self.invoke(at, &call);
        self.known = Some(answer.known);
        answer
    }

    fn invoke(&mut self, at: u64, call: &Call) -> Answer {
        let saying = Saying {
            now: ZERO + at,
            pace: &self.pace,
            owed: call.owed.map_or(0, Moment::as_micros),
            call,
        };
        let said = saying.token_bucket(&self.script, &self.names);
        let reply: Vec<i64> = said.invoke(&mut self.connection).expect("a reply");
        let answer = answer::read(&reply, Grants::Requests, &call.wanted, |_now| {
            Mapping::default()
        });
        answer.expect("a sound reply").expect("never stale")
    }

    fn passes(&mut self, at: u64, cost: u32, count: u32) -> u32 {
        let answer = self.ask(at, cost, count, &[]);
        assert_eq!(answer.grants.len(), answer.joined[0] as usize);
        answer.joined[0]
    }

    fn ttl(&mut self) -> i64 {
        let mut ttl = redis::cmd("PTTL");
        ttl.arg(&self.names.bucket);
        ttl.query(&mut self.connection).expect("a time to live")
    }
}

#[test]
fn as_many_pass_as_in_memory_whenever_they_come() {
    let server = Server::start();
    let paces = [
        pace("10r/s", 4, 4),
        pace("1r/m", 0, 0),
        pace("30000r/s", 100, 100),
        pace("7r/m", 9, 9),
        pace("3000r/s", 0, 0),
    ];
    for (nth, pace) in paces.into_iter().enumerate() {
        let mut chance = Chance::new(nth as u64 + 1);
        let mut tokens = Tokens::new(&server, &nth.to_string(), pace);
        let mut bucket = Bucket::<()>::new(&pace, Moment::from_micros(ZERO));
        let interval = u64::try_from(pace.interval().as_micros()).expect("short");
        let mut at = 0;
        for _ in 0..300 {
            at += chance.below(interval * 2);
            let mut few = |most| u32::try_from(chance.below(most)).expect("few") + 1;
            let (count, cost) = (few(7), few(4).min(pace.burst() + 1));
            let now = Moment::from_micros(ZERO + at);
            let mut expected = 0;
            while expected < count
                && matches!(bucket.verdict(&pace, cost, now, None), Verdict::Admitted(_))
            {
                bucket.take(&pace, cost, now);
                expected += 1;
            }
            assert_eq!(
                tokens.passes(at, cost, count),
                expected,
                "{} at {at} µs",
                pace.rate()
            );
        }
    }
}

/// One that passed both, and has not been served yet.
struct Open {
    grant: Grant,
    loan: Loan,
}

impl Open {
    fn unused(&self) -> Unused {
        Unused {
            number: self.grant.number,
            count: self.grant.count,
        }
    }
}

/// A random history of those who pass and those who give it back. What passed in Redis
/// and in memory, call by call, each asked after what came back.
fn with_returns(server: &Server, seed: u64, pace: Pace) -> Vec<[u32; 2]> {
    let mut chance = Chance::new(seed);
    let mut tokens = Tokens::new(server, &format!("returns {seed}"), pace);
    let mut bucket = Bucket::<()>::new(&pace, Moment::from_micros(ZERO));
    let interval = u64::try_from(pace.interval().as_micros()).expect("short");
    let most = u64::from(pace.burst()) + 1;
    let (mut at, mut open) = (0, Vec::<Open>::new());
    let mut passed = Vec::new();
    for _ in 0..60 {
        // Now and then long enough to be full again.
        let long = if chance.percent(20) { most * 2 } else { 2 };
        at += chance.below(interval * long);
        let now = Moment::from_micros(ZERO + at);
        let mut returned = Vec::new();
        while !open.is_empty() && chance.percent(50) {
            let which = usize::try_from(chance.below(open.len() as u64)).expect("few");
            let one = open.swap_remove(which);
            bucket.give_back(&pace, one.loan, now);
            returned.push(one.unused());
        }
        let cost = u32::try_from(chance.below(most.min(4))).expect("few") + 1;
        let count = u32::try_from(chance.below(4)).expect("few");
        let answer = tokens.ask(at, cost, count, &returned);
        let mut here = 0;
        while here < count && matches!(bucket.verdict(&pace, cost, now, None), Verdict::Admitted(_))
        {
            let loan = bucket.lend(&pace, cost, now);
            if let Some(grant) = answer.grants.get(here as usize) {
                open.push(Open {
                    grant: *grant,
                    loan,
                });
            }
            here += 1;
        }
        passed.push([answer.joined[0], here]);
        if answer.joined[0] != here {
            return passed;
        }
    }
    passed
}

#[test]
fn what_comes_back_leaves_as_much_as_if_it_had_never_gone() {
    let server = Server::start();
    for seed in 0..60 {
        let pace = match seed % 4 {
            0 => pace("10r/s", 4, 4),
            1 => pace("1r/m", 9, 9),
            2 => pace("1000r/s", 20, 20),
            _ => pace("2r/s", 0, 0),
        };
        for (call, [theirs, here]) in with_returns(&server, seed, pace).iter().enumerate() {
            assert_eq!(theirs, here, "seed {seed}, call {call}");
        }
    }
}

#[test]
fn what_comes_back_to_a_large_bucket_or_an_odd_rate_is_never_more() {
    let server = Server::start();
    for seed in 100..160 {
        let pace = match seed % 3 {
            0 => pace("30000r/s", 500, 500),
            1 => pace("7r/m", 9, 9),
            _ => pace("10r/s", 200, 200),
        };
        let passed = with_returns(&server, seed, pace);
        for (call, [theirs, here]) in passed.iter().enumerate() {
            assert!(theirs <= here, "seed {seed}, call {call}");
        }
        // Where both agree so far, the next call may show less: that is rare.
        assert!(passed.len() > 20, "seed {seed}: {}", passed.len());
    }
}

#[test]
fn a_part_of_what_a_request_took_may_come_back() {
    let server = Server::start();
    let mut tokens = Tokens::new(&server, "part", pace("1r/m", 9, 9));
    let grant = tokens.ask(0, 8, 1, &[]).grants[0];
    assert_eq!((grant.number, grant.count), (8, 8));
    let part = Unused {
        number: grant.number,
        count: 3,
    };
    assert_eq!(tokens.ask(1_000, 5, 2, &[part]).joined, [1]);
    assert_eq!(tokens.passes(1_000, 1, 9), 0);
}

#[test]
fn what_is_given_back_after_a_pause_makes_no_burst() {
    let server = Server::start();
    let mut tokens = Tokens::new(&server, "pause", pace("10r/s", 0, 0));
    let first = tokens.ask(0, 1, 1, &[]).grants[0].number;
    assert_eq!(tokens.passes(1_000_000, 1, 1), 1);
    let first = Unused {
        number: first,
        count: 1,
    };
    assert_eq!(tokens.ask(1_000_001, 1, 1, &[first]).joined, [0]);
}

#[test]
fn it_is_kept_past_its_drain_and_what_it_forgot_is_told() {
    let server = Server::start();
    let mut tokens = Tokens::new(&server, "ttl", pace("1r/m", 2, 2));
    assert_eq!(tokens.passes(0, 1, 9), 3);
    assert!(
        tokens.ttl()
            > Duration::from_mins(3)
                .as_millis()
                .try_into()
                .expect("short")
    );
    let mut forget = redis::cmd("FLUSHALL");
    let _: String = forget.query(&mut tokens.connection).expect("OK");
    assert_eq!(tokens.passes(1_000_000, 1, 9), 0, "a survivor remembers");
    forget = redis::cmd("FLUSHALL");
    let _: String = forget.query(&mut tokens.connection).expect("OK");
    tokens.known = None;
    assert_eq!(tokens.passes(2_000_000, 1, 9), 3, "nobody does");
}

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
    assert!(one.ask(&mut tokens, 1_000, false));
    assert!(one.ask(&mut tokens, 2_000, false));
    one.bucket.settle_up();
    let (reach, now) = (Distance::default().reach(), |at| {
        Moment::from_micros(ZERO + at)
    });
    let call = one.bucket.call(&pace, &reach, now(3_000), || 9);
    assert!(one.ask(&mut tokens, 3_100, false));
    assert!(one.ask(&mut tokens, 3_200, false));
    let answer = tokens.invoke(3_000, &call.expect("it has news"));
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
    assert!(one.ask(&mut tokens, 1_000, false));
    assert!(one.ask(&mut tokens, 2_000, false));
    one.bucket.settle_up();
    let (reach, now) = (Distance::default().reach(), |at| {
        Moment::from_micros(ZERO + at)
    });
    let call = one.bucket.call(&pace, &reach, now(3_000), || 9);
    assert_eq!(call.expect("it has news").spent, 1);
    one.bucket.say_again(9, now(4_000));
    one.say(&mut tokens, 5_000, false);
    assert_eq!(tokens.passes(6_000, 1, 9), 3);
}
