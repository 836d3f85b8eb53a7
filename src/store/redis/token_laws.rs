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

mod sync;

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
