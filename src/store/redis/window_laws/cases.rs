//! What if Redis forgets or is away, and what does it keep?

use super::*;
use crate::window::{Known, Run};

#[test]
fn what_redis_forgot_a_survivor_remembers() {
    let server = Server::start();
    for kind in KINDS {
        let mut stage = Stage::new(&server, "lost", window_of(kind, 5, MINUTE, 0));
        assert_eq!(stage.pass(0, 4), 4);
        let _: String = stage.query(&["FLUSHALL"]);
        assert_eq!(stage.pass(1_000, 4), 1, "{kind:?}: a survivor remembers");
        let _: String = stage.query(&["FLUSHALL"]);
        let survivor = stage.another();
        assert_eq!(stage.pass(2_000, 2), 2, "{kind:?}: one that knows nothing");
        stage.instance = survivor;
        assert_eq!(
            stage.pass(3_000, 2),
            0,
            "{kind:?}: the survivor comes after it"
        );
        let _: String = stage.query(&["FLUSHALL"]);
        stage.another();
        assert_eq!(stage.pass(4_000, 9), 5, "{kind:?}: nobody does");
    }
}

#[test]
fn what_passed_without_redis_counts_there_afterwards() {
    let server = Server::start();
    for kind in KINDS {
        let window = window_of(kind, 6, MINUTE, 0);
        let mut stage = Stage::new(&server, "owed", window);
        assert_eq!(stage.pass(0, 2), 2);
        // Away: of the four that are left this one of two instances has two.
        assert!(stage.instance.detach(&window, 2, 0).is_empty());
        let part = window.share(2, 0);
        let mut loans = Vec::new();
        for nth in 0..4 {
            let now = Moment::from_micros(ZERO + 10 + nth);
            if let Verdict::Passed(loan) = stage.instance.ask_alone(&part, now, 1) {
                loans.push(loan);
            }
        }
        assert_eq!(loans.len(), 2, "{kind:?}");
        assert!(!stage.instance.give_back(loans[0]), "it is not told yet");
        stage.instance.attach();
        assert_eq!(stage.pass(100, 9), 3, "{kind:?}: 2 and 1 had passed");
    }
}

#[test]
fn garbage_in_its_keys_lets_no_more_pass_and_does_not_stay() {
    let server = Server::start();
    for kind in KINDS {
        let window = window_of(kind, 5, MINUTE, 0);
        let mut stage = Stage::new(&server, "garbage", window);
        let keys = stage.keys();
        for value in [
            "",
            "x",
            "-7",
            "1e300",
            "nan",
            "inf",
            "9999999999999999",
            "2.5",
        ] {
            for field in [
                "number", "start", "span", "count", "current", "previous", "newest",
            ] {
                let _: i64 = stage.query(&["HSET", &keys[0], field, value]);
            }
            if let Some(entries) = keys.get(1) {
                let _: i64 = stage.query(&["ZADD", entries, "12", value, "9e15", "later"]);
            }
            stage.another();
            assert!(stage.pass(0, 9) <= 5, "{kind:?}: {value}");
            stage.another();
            let later = 3 * MINUTE;
            let _passed = stage.pass(later, 0);
            let _: i64 = stage.query(&["DEL", &keys[0]]);
            if let Some(entries) = keys.get(1) {
                let _: i64 = stage.query(&["DEL", entries]);
            }
        }
    }
}

#[test]
fn a_log_keeps_as_many_as_its_limit_and_nothing_of_the_refused() {
    let server = Server::start();
    let mut stage = Stage::new(&server, "bound", window_of(Kind::Log, 5, MINUTE, 0));
    let mut none = Stage::new(&server, "none", window_of(Kind::Log, 5, MINUTE, 0));
    none.instance.want(6, Some(0));
    assert_eq!(none.say(ZERO).refused.len(), 1);
    let keys = none.keys();
    let there: i64 = none.query(&["EXISTS", &keys[0], &keys[1]]);
    assert_eq!(there, 0, "the refused leave no trace");
    assert_eq!(stage.pass(0, 1_000), 5, "in one microsecond");
    let entries = stage.keys()[1].clone();
    for at in 1..200 {
        assert_eq!(stage.pass(at, 9), 0);
    }
    let kept: i64 = stage.query(&["ZCARD", &entries]);
    assert_eq!(kept, 5);
    // A lower limit keeps no more than itself.
    stage.window = window_of(Kind::Log, 3, MINUTE, 0);
    assert_eq!(stage.pass(200, 1), 0);
    let kept: i64 = stage.query(&["ZCARD", &entries]);
    assert_eq!(kept, 3);
}

#[test]
fn the_store_s_word_refuses_until_its_reset_and_no_longer() {
    let server = Server::start();
    for kind in KINDS {
        let window = window_of(kind, 2, 2_000_000, 0);
        let mut stage = Stage::new(&server, "word", window);
        let at = |at| Moment::from_micros(ZERO + at);
        stage.instance.want(1, Some(0));
        stage.instance.want(1, Some(1));
        let passed = stage.say(ZERO).passed;
        assert_eq!(passed.len(), 2);
        let free_in = stage
            .instance
            .refusal(&window, at(10), 1)
            .expect("it is full");
        assert!(free_in > Duration::from_secs(1), "{kind:?}: {free_in:?}");
        let free = 10 + u64::try_from(free_in.as_micros()).expect("short");
        assert!(
            stage
                .instance
                .refusal(&window, at(free - 3_000), 1)
                .is_some()
        );
        assert_eq!(
            stage.instance.refusal(&window, at(free), 1),
            None,
            "{kind:?}"
        );
        // What comes back makes it doubtful, and so does what others say.
        assert!(stage.instance.give_back(passed[0].1));
        assert_eq!(stage.instance.refusal(&window, at(20), 1), None, "{kind:?}");
        assert_eq!(stage.pass(30, 9), 1);
        assert!(stage.instance.refusal(&window, at(40), 1).is_some());
        stage.instance.doubt();
        assert_eq!(stage.instance.refusal(&window, at(40), 1), None, "{kind:?}");
    }
}

#[test]
fn what_others_say_may_overtake_the_store_s_answer() {
    let server = Server::start();
    for kind in KINDS {
        let window = window_of(kind, 2, MINUTE, 0);
        let mut stage = Stage::new(&server, "overtaken", window);
        stage.instance.want(1, Some(0));
        stage.instance.want(1, Some(1));
        let (number, call) = stage.instance.call(|| 99, |_| false).expect("they want");
        let answer = stage.invoke(ZERO, &call);
        stage.instance.doubt();
        let here = Moment::from_micros(ZERO + 10);
        let heard = stage.instance.answered(number, &window, &answer, here);
        assert_eq!(heard.expect("it is waited for").passed.len(), 2);
        assert_eq!(stage.instance.refusal(&window, here, 1), None, "{kind:?}");
        // The next answer is believed, for some seconds.
        assert_eq!(stage.pass(20, 1), 0);
        assert!(stage.instance.refusal(&window, here, 1).is_some());
        let later = Moment::from_micros(ZERO + 5_100_000);
        assert_eq!(stage.instance.refusal(&window, later, 1), None, "{kind:?}");
    }
}

#[test]
fn whoever_gives_back_the_last_free_place_tells_the_others() {
    let server = Server::start();
    for kind in KINDS {
        let mut stage = Stage::new(&server, "told", window_of(kind, 2, MINUTE, 0));
        let mut listening = server.connect();
        listening
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a socket");
        let mut heard = listening.as_pubsub();
        heard.subscribe("wake").expect("subscribed");
        stage.instance.want(1, Some(0));
        stage.instance.want(1, Some(1));
        let passed = stage.say(ZERO).passed;
        stage.instance.give_back(passed[0].1);
        stage.say(ZERO + 5);
        let told: String = heard
            .get_message()
            .expect("a message")
            .get_payload()
            .expect("text");
        assert_eq!(
            told,
            format!("law:{} 1", KeyHasher::new("weir").hash("told"))
        );
        // Where it wasn't full nobody refuses by heart.
        stage.instance.give_back(passed[1].1);
        stage.say(ZERO + 6);
        heard
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a socket");
        assert!(heard.get_message().is_err(), "{kind:?}");
    }
}

#[test]
fn redis_s_own_time_is_taken_where_none_is_said() {
    let server = Server::start();
    for kind in KINDS {
        let mut stage = Stage::new(&server, "own", window_of(kind, 3, 3_600_000_000, 0));
        let call = Call {
            known: Some(Known {
                number: 0,
                figures: crate::window::Figures::default(),
            }),
            wanted: vec![Run { count: 2, cost: 1 }, Run { count: 9, cost: 1 }],
            ..Call::default()
        };
        let (seconds, micros): (u64, u64) = stage.query(&["TIME"]);
        let answer = stage.invoke(0, &call);
        assert!(answer.now >= Moment::from_micros(seconds * 1_000_000 + micros));
        assert_eq!(answer.passed, [2, 1]);
        for kept in stage.kept_for() {
            assert!(kept > 1_000, "{kind:?}: {kept}");
        }
    }
}

/// How many pass too many is what the others let pass that one can't know of.
#[test]
fn between_two_words_with_redis_no_more_pass_than_the_others_kept_quiet_about() {
    const SYNC: u64 = 50_000;
    let server = Server::start();
    let sync = Duration::from_micros(SYNC);
    let mut most_over = 0;
    for (seed, kind) in (1..).zip(KINDS.into_iter().cycle().take(12)) {
        let limit = 300;
        let window = window_of(kind, limit, 3_600_000_000, 0);
        let mut stage = Stage::new(&server, &format!("sync{seed}"), window);
        let mut chance = Chance::new(seed);
        let mut others: Vec<Tally<usize>> = (0..3).map(|_| Tally::new(&window)).collect();
        others.iter_mut().for_each(Tally::attach);
        let mut due = [u64::MAX; 3];
        let mut passed: Vec<(u64, usize)> = Vec::new();
        let mut now = ZERO;
        for _ in 0..1_000 {
            now += chance.below(4_000);
            for who in 0..3 {
                if due[who] <= now {
                    std::mem::swap(&mut stage.instance, &mut others[who]);
                    stage.instance.settle();
                    stage.say(due[who]);
                    std::mem::swap(&mut stage.instance, &mut others[who]);
                    due[who] = u64::MAX;
                }
            }
            // One of them is seldom asked, and knows little.
            let seldom = usize::from(chance.percent(3)) * 2;
            let who = seldom.max(pick(&mut chance, 2));
            std::mem::swap(&mut stage.instance, &mut others[who]);
            let here = Moment::from_micros(now);
            let passes = if stage.instance.refusal(&window, here, 1).is_some() {
                false
            } else if let Some((verdict, owes)) = stage.instance.ask_between(&window, here, 1, sync)
            {
                due[who] = if owes { now + SYNC } else { due[who] };
                matches!(verdict, Verdict::Passed(_))
            } else {
                stage.instance.want(1, Some(0));
                stage.say(now).passed.len() == 1
            };
            std::mem::swap(&mut stage.instance, &mut others[who]);
            if passes {
                let unknown = passed.iter().rev();
                let unknown = unknown.take_while(|(at, _)| at + 2 * SYNC >= now);
                let unknown = unknown.filter(|(_, by)| *by != who).count();
                let known = passed.len() - unknown;
                assert!(
                    known < limit as usize,
                    "{kind:?}, seed {seed}: {known} were known"
                );
                passed.push((now, who));
            }
        }
        assert!(passed.len() >= limit as usize, "{kind:?}, seed {seed}");
        most_over = most_over.max(passed.len() - limit as usize);
    }
    assert!((1..100).contains(&most_over), "some, and few: {most_over}");
}

#[test]
fn what_a_lost_call_told_is_told_again() {
    let server = Server::start();
    for kind in KINDS {
        let window = window_of(kind, 5, 3_600_000_000, 0);
        let sync = Duration::from_millis(50);
        let mut stage = Stage::new(&server, "again", window);
        assert_eq!(stage.pass(0, 1), 1);
        let here = Moment::from_micros(ZERO + 10);
        for _ in 0..2 {
            let asked = stage.instance.ask_between(&window, here, 1, sync);
            assert!(matches!(asked, Some((Verdict::Passed(_), _))), "{kind:?}");
        }
        let (number, call) = stage.instance.call(|| 7, |_| false).expect("it owes");
        assert_eq!(call.owed.iter().map(|owed| owed.cost).sum::<u32>(), 2);
        assert!(stage.instance.unanswered(number, None));
        assert_eq!(stage.pass(20, 9), 2, "{kind:?}: three had passed");
        assert_eq!(
            stage
                .instance
                .ask_between(&window, here, 1, sync)
                .map(|(_, owes)| owes),
            Some(false)
        );
    }
}
