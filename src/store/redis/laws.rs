//! Does the script do what the model of a shared line says?
//!
//! Several instances live through random histories with a model of the store, and
//! each call is made to a real Redis as well, at the model's time.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::Connection;

use super::answer::Grants;
use super::saying::{Caller, Saying};
use super::*;
use crate::key::KeyHasher;
use crate::line::laws::shared_model::{Model, Told};
use crate::line::laws::shared_run::{self, Habits, STEADY, ZERO};
use crate::line::{Answer, Pace, Run};
use crate::units::Moment;

/// A Redis of its own, ended with the test.
pub(super) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(super) fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server; tests/run installs it");
        Self { child, port }
    }

    pub(super) fn connect(&self) -> Connection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port));
        let client = client.expect("an address");
        let begun = Instant::now();
        loop {
            match client.get_connection() {
                Ok(connection) => return connection,
                Err(_) if begun.elapsed() < Duration::from_secs(10) => std::thread::yield_now(),
                Err(error) => panic!("redis-server does not answer: {error}"),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A bucket in Redis beside the model's.
struct Beside {
    connection: Connection,
    script: Script,
    names: BucketNames,
}

impl Beside {
    fn new(connection: Connection, key: &str) -> Self {
        Self {
            connection,
            script: Script::new(include_str!("../../../lua/leaky_bucket.lua")),
            names: Names::new("weir").bucket("law", KeyHasher::new("weir").hash(key)),
        }
    }

    fn call(&mut self, told: &Told<'_>, call: &Call) -> Option<Answer> {
        let dead: Vec<String> = told.dead.iter().map(|who| format!("i{who}")).collect();
        let saying = Saying {
            now: told.now,
            pace: told.pace,
            owed: call.owed.map_or(0, Moment::as_micros),
            call,
        };
        let caller = Caller {
            me: &format!("i{}", told.me),
            number: told.number,
            reach: told.reach,
            dead: &dead.join(","),
            channel: "weir:wake",
        };
        let said = saying.leaky_bucket(&self.script, &self.names, &caller);
        let reply: Vec<i64> = said.invoke(&mut self.connection).expect("a reply");
        let identity = |_now| Mapping::default();
        answer::read(&reply, Grants::Slots, &call.wanted, identity).expect("a sound reply")
    }
}

pub(super) fn pace(rate: &str, burst: u32, delay: u32) -> Pace {
    Pace::new(rate.parse().expect("a rate"), burst, delay).expect("a pace")
}

/// A history in which every call is made to both. It takes less time than any key is
/// kept, which goes by the real clock in Redis.
fn lives_through(server: &Server, seed: u64, pace: Pace, habits: &[Habits]) -> u64 {
    let mut beside = Beside::new(server.connect(), &seed.to_string());
    let mut run = shared_run::Run::new(seed, pace, habits);
    let mut calls = 0;
    run.shadow = Some(Box::new(|told, call, expected| {
        let answer = beside.call(told, call);
        assert_eq!(
            answer.as_ref(),
            expected,
            "seed {seed}, at {} µs: {call:?}",
            told.now - ZERO
        );
        calls += 1;
    }));
    run.pass(Duration::from_secs(1));
    if seed.is_multiple_of(4) {
        run.kill(0);
    }
    run.instances[1].stalled_until = run.now + seed % 3 * 700_000;
    if seed % 5 == 1 {
        run.pause(Duration::from_millis(700));
        run.pass(Duration::from_millis(400));
        run.hold(2, Duration::from_millis(300 * (seed % 3 + 1)));
        run.pass(Duration::from_millis(100));
        if seed.is_multiple_of(2) {
            run.pause(Duration::ZERO);
        }
    }
    run.pass(Duration::from_secs(4));
    drop(run);
    calls
}

#[test]
fn a_call_ends_where_a_slot_lies_a_fraction_behind_its_horizon() {
    let server = Server::start();
    let mut beside = Beside::new(server.connect(), "fraction");
    let mut model = Model::default();
    let pace = pace("7r/m", 5, 0);
    let mut both = |number: u64, at: u64, call: &Call| {
        let told = Told {
            now: ZERO + at,
            me: 0,
            number,
            pace: &pace,
            reach: Distance::default().reach(),
            dead: &[],
        };
        let answer = model.call(&told, call).expect("a new call");
        assert_eq!(beside.call(&told, call), Some(answer.clone()));
        answer
    };
    let wanted = vec![Run {
        count: 2,
        max_wait: None,
        cost: 1,
    }];
    let first = both(
        1,
        0,
        &Call {
            wanted,
            ..Call::default()
        },
    );
    // The next slot is at 8571428 4/7 µs.
    let held = Call {
        known: Some(first.known),
        held: 1,
        ..Call::default()
    };
    assert_eq!(both(2, 8_571_428 - 30_000, &held).grants.len(), 1);
}

#[test]
fn the_script_does_what_the_model_says_in_random_histories() {
    let server = Server::start();
    let paces = [
        pace("100r/s", 40, 0),
        pace("30000r/s", 200, 20),
        pace("7r/m", 9, 4),
        pace("333r/s", 30, 10),
        pace("1r/d", 3, 1),
    ];
    let mut calls = 0;
    for seed in 0..40 {
        let habits: Vec<Habits> = (0..3)
            .map(|who| Habits {
                every: 8_000 + 5_000 * who,
                way: 100 + 2_000 * who,
                jitter: 3_000,
                loss: 4,
                leaving: 25,
                costs: if seed % 3 == 0 { 3 } else { 1 },
                ..STEADY
            })
            .collect();
        let pace = paces[usize::try_from(seed).expect("small") % paces.len()];
        calls += lives_through(&server, seed, pace, &habits);
    }
    assert!(calls > 10_000, "{calls} calls were compared");
}
