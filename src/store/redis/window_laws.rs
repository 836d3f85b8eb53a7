//! Do the scripts of the windows count as their twins in Rust do?
//!
//! One instance asks a real Redis at times that the test says, in the words in which it
//! always does; a tally of its own counts beside it.

mod cases;

use std::time::Duration;

use super::laws::Server;
use super::windows::{read, saying};
use super::*;
use crate::key::KeyHasher;
use crate::line::laws::shared_run::Chance;
use crate::units::Moment;
use crate::window::laws::{ZERO, window_of};
use crate::window::{Answer, Call, Heard, Kind, Loan, Tally, Verdict, Window};

const MINUTE: u64 = 60_000_000;
const KINDS: [Kind; 3] = [Kind::Fixed, Kind::Log, Kind::Counter];

/// A window in Redis, and one instance that asks it.
struct Stage {
    connection: redis::Connection,
    script: Script,
    names: BucketNames,
    window: Window,
    instance: Tally<usize>,
    calls: u64,
}

impl Stage {
    fn new(server: &Server, key: &str, window: Window) -> Self {
        let script = match window.kind() {
            Kind::Fixed => include_str!("../../../lua/fixed_window.lua"),
            Kind::Log => include_str!("../../../lua/sliding_window_log.lua"),
            Kind::Counter => include_str!("../../../lua/sliding_window_counter.lua"),
        };
        let mut instance = Tally::new(&window);
        instance.attach();
        Self {
            connection: server.connect(),
            script: Script::new(script),
            names: Names::new("weir").bucket("law", KeyHasher::new("weir").hash(key)),
            window,
            instance,
            calls: 0,
        }
    }

    /// Another instance, which knows nothing yet.
    fn another(&mut self) -> Tally<usize> {
        let mut other = Tally::new(&self.window);
        other.attach();
        std::mem::replace(&mut self.instance, other)
    }

    fn invoke(&mut self, now: u64, call: &Call) -> Answer {
        let said = saying(&self.script, &self.names, now, &self.window, call, "wake");
        let reply: Vec<i64> = said.invoke(&mut self.connection).expect("a reply");
        read(&reply, call.wanted.len()).expect("a sound reply")
    }

    /// Says whatever there is to say.
    fn say(&mut self, now: u64) -> Heard<usize> {
        let number = self.calls + 1;
        let Some((number, call)) = self.instance.call(|| number, |_| false) else {
            return Heard::default();
        };
        self.calls = number;
        let answer = self.invoke(now, &call);
        assert_eq!(answer.now, Moment::from_micros(now));
        self.instance
            .answered(number, &self.window, &answer, Moment::from_micros(now))
            .expect("it was waited for")
    }

    /// How many of so many pass.
    fn pass(&mut self, at: u64, count: usize) -> usize {
        for nth in 0..count {
            self.instance.want(1, Some(nth));
        }
        self.say(ZERO + at).passed.len()
    }

    fn query<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query(&mut self.connection).expect("an answer")
    }

    fn keys(&self) -> Vec<String> {
        self.names.window(self.window.kind())
    }

    /// How long each of its keys is kept yet.
    fn kept_for(&mut self) -> Vec<i64> {
        let keys = self.keys();
        let ttl = |key: &String| self.query(&["PTTL", key]);
        keys.iter().map(ttl).collect()
    }
}

/// One of so many, by its place.
fn pick(chance: &mut Chance, of: usize) -> usize {
    usize::try_from(chance.below(of as u64)).expect("below a length")
}

/// A window of one's chance.
fn any_window(chance: &mut Chance, kind: Kind) -> Window {
    let mut one_of = |all: [u64; 4]| all[pick(chance, 4)];
    let span = one_of([MINUTE, 86_400_000_000, 7_777, 31_622_400_000_000]);
    let limit = one_of([5, 12, 1, if kind == Kind::Log { 40 } else { 3_000_000 }]);
    let offset = if kind == Kind::Fixed {
        chance.below(span)
    } else {
        0
    };
    window_of(kind, u32::try_from(limit).expect("small"), span, offset)
}

/// A history of the script and its twin.
struct Pair {
    stage: Stage,
    twin: Tally<()>,
    /// What both lent.
    open: Vec<(Loan, Loan)>,
    now: u64,
    /// Where a real clock steps back, what is kept stays so much longer.
    stepped: bool,
    what: String,
}

impl Pair {
    fn new(server: &Server, window: Window, name: &str) -> Self {
        Self {
            stage: Stage::new(server, name, window),
            twin: Tally::new(&window),
            open: Vec::new(),
            now: ZERO,
            stepped: false,
            what: String::new(),
        }
    }

    fn here(&self) -> Moment {
        Moment::from_micros(self.now)
    }

    /// Time goes on, or back now and then.
    fn pass_time(&mut self, chance: &mut Chance) {
        let span = u64::try_from(self.stage.window.span().as_micros()).expect("short");
        self.now += if chance.percent(33) {
            0
        } else {
            chance.below(span / 2)
        };
        if chance.percent(4) {
            self.now -= chance.below(span * 3).min(ZERO / 2);
            self.stepped = true;
        }
    }

    fn give_back(&mut self, chance: &mut Chance) {
        let _seen = self.twin.remaining(&self.stage.window, self.here(), 1);
        for _ in 0..chance.below(3) {
            if !self.open.is_empty() {
                let (theirs, own) = self.open.swap_remove(pick(chance, self.open.len()));
                self.stage.instance.give_back(theirs);
                self.twin.give_back(own);
            }
        }
        self.open.truncate(30);
    }

    fn ask(&mut self, wants: &[u32]) {
        for (nth, cost) in wants.iter().enumerate() {
            self.stage.instance.want(*cost, Some(nth));
        }
        if wants.is_empty() {
            self.stage.instance.look();
        }
        let heard = self.stage.say(self.now);
        self.stepped &= heard.passed.is_empty();
        let (window, what) = (self.stage.window, &self.what);
        let mut passed = heard.passed.into_iter();
        for (nth, cost) in wants.iter().enumerate() {
            match self.twin.ask(&window, self.here(), *cost) {
                Verdict::Passed(own) => {
                    let (who, theirs) = passed.next().expect(what);
                    assert_eq!(who, nth, "{what}");
                    if window.kind() != Kind::Log {
                        assert_eq!(theirs.at(), own.at(), "{what}");
                    }
                    self.open.push((theirs, own));
                }
                Verdict::Refused(_) => {
                    let refused = |(who, _): &(usize, Duration)| *who == nth;
                    assert!(heard.refused.iter().any(refused), "{what}");
                }
            }
        }
        assert_eq!(passed.next(), None, "{what}");
    }

    /// Both stand the same, and Redis keeps it long enough.
    fn compare(&mut self) {
        let (window, here) = (self.stage.window, self.here());
        let left = self.stage.instance.remaining(&window, here, 1);
        let own = self.twin.remaining(&window, here, 1);
        let what = &self.what;
        assert_eq!(
            (left.admits, left.free_in),
            (own.admits, own.free_in),
            "{what}"
        );
        assert!(left.idle_in >= own.idle_in, "{what}");
        if window.kind() != Kind::Log {
            assert_eq!(left.idle_in, own.idle_in, "{what}");
        }
        for kept in self.stage.kept_for() {
            assert!(kept != -1, "{what}: for ever");
            if !self.stepped {
                let kept = Duration::from_millis(u64::try_from(kept).unwrap_or(0));
                let enough = kept + Duration::from_millis(100) >= own.idle_in;
                assert!(enough, "{what}: {kept:?} of {:?}", own.idle_in);
            }
        }
    }
}

fn live(server: &Server, kind: Kind, seed: u64) {
    let mut chance = Chance::new(seed);
    let window = any_window(&mut chance, kind);
    let most = u64::from(window.limit() / 3).clamp(3, 500_000);
    let mut pair = Pair::new(server, window, &format!("{kind:?}{seed}"));
    for step in 0..120 {
        pair.what = format!("{window}, {kind:?}, seed {seed}, step {step}");
        pair.pass_time(&mut chance);
        pair.give_back(&mut chance);
        let wants = (0..chance.below(5)).map(|_| 1 + chance.below(most));
        let wants: Vec<u32> = wants
            .map(|cost| u32::try_from(cost).expect("small"))
            .collect();
        pair.ask(&wants);
        pair.compare();
    }
}

#[test]
fn as_many_pass_as_in_memory_whenever_they_come_and_whatever_comes_back() {
    let server = Server::start();
    for kind in KINDS {
        for seed in 0..24 {
            live(&server, kind, seed);
        }
    }
}
