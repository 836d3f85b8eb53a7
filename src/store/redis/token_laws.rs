//! Does `token_bucket.lua` let as many pass as a bucket in memory does?

use std::time::Duration;

use super::laws::{Server, pace};
use super::saying::Saying;
use super::*;
use crate::key::KeyHasher;
use crate::line::laws::shared_run::{Chance, ZERO};
use crate::line::{Answer, Bucket, Known, Pace, Run, Verdict};
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

    fn ask(&mut self, at: u64, count: u32, returned: &[u64]) -> Answer {
        let call = Call {
            known: self.known,
            returned: returned.to_vec(),
            wanted: vec![Run {
                count,
                max_wait: None,
            }],
            ..Call::default()
        };
        let saying = Saying {
            now: ZERO + at,
            pace: &self.pace,
            owed: 0,
            call: &call,
        };
        let said = saying.token_bucket(&self.script, &self.names);
        let reply: Vec<i64> = said.invoke(&mut self.connection).expect("a reply");
        let answer = answer::read(&reply, 1, |_now| Mapping::default());
        let answer = answer.expect("a sound reply").expect("never stale");
        self.known = Some(answer.known);
        answer
    }

    fn passes(&mut self, at: u64, count: u32) -> u32 {
        let answer = self.ask(at, count, &[]);
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
            let count = u32::try_from(chance.below(7)).expect("few") + 1;
            let now = Moment::from_micros(ZERO + at);
            let mut expected = 0;
            while expected < count
                && matches!(bucket.verdict(&pace, now, None), Verdict::Admitted(_))
            {
                bucket.take(&pace, now);
                expected += 1;
            }
            assert_eq!(
                tokens.passes(at, count),
                expected,
                "{} at {at} µs",
                pace.rate()
            );
        }
    }
}

#[test]
fn what_is_given_back_can_be_had_again_but_never_more() {
    let server = Server::start();
    let mut tokens = Tokens::new(&server, "back", pace("1r/m", 4, 4));
    let all = tokens.ask(0, 9, &[]);
    assert_eq!(all.joined, [5]);
    let numbers: Vec<u64> = all.grants.iter().map(|grant| grant.number).collect();
    // Two of the middle, a moment later: as much as the last two leave.
    let again = tokens.ask(1_000, 9, &[numbers[2], numbers[1]]);
    assert!(again.joined[0] <= 2, "{:?}", again.joined);
    let last = again.known.number;
    // The last one comes back in full.
    let passed = tokens.ask(2_000, 9, &[last]).joined[0];
    assert_eq!(passed, 1);
    assert_eq!(tokens.ask(3_000, 9, &[]).joined, [0]);
}

#[test]
fn what_is_given_back_after_a_pause_makes_no_burst() {
    let server = Server::start();
    let mut tokens = Tokens::new(&server, "pause", pace("10r/s", 0, 0));
    let first = tokens.ask(0, 1, &[]).grants[0].number;
    assert_eq!(tokens.passes(1_000_000, 1), 1);
    assert_eq!(tokens.ask(1_000_001, 1, &[first]).joined, [0]);
}

#[test]
fn it_is_kept_past_its_drain_and_what_it_forgot_is_told() {
    let server = Server::start();
    let mut tokens = Tokens::new(&server, "ttl", pace("1r/m", 2, 2));
    assert_eq!(tokens.passes(0, 9), 3);
    assert!(
        tokens.ttl()
            > Duration::from_mins(3)
                .as_millis()
                .try_into()
                .expect("short")
    );
    let mut forget = redis::cmd("FLUSHALL");
    let _: String = forget.query(&mut tokens.connection).expect("OK");
    assert_eq!(tokens.passes(1_000_000, 9), 0, "a survivor remembers");
    forget = redis::cmd("FLUSHALL");
    let _: String = forget.query(&mut tokens.connection).expect("OK");
    tokens.known = None;
    assert_eq!(tokens.passes(2_000_000, 9), 3, "nobody does");
}
