//! Do instances count in one window, and what if Redis forgets or is away?

use std::time::{Duration, Instant};

use crate::harness::structured::left;
use crate::harness::{
    Backend, Redis, Request, Response, Weir, at_once, calmly, clients, instances, know_each_other,
    ms, together, until, upstream,
};

const KINDS: [&str; 3] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
];

fn window(kind: &str, limit: u32, span: &str) -> String {
    format!("algorithm = \"{kind}\"\nlimit = {limit}\nwindow = \"{span}\"")
}

fn passed_and_refused(responses: &[Response]) -> (usize, usize) {
    let of = |status| responses.iter().filter(|it| it.status == status).count();
    assert_eq!(of(200) + of(429), responses.len(), "{responses:?}");
    (of(200), of(429))
}

#[tokio::test]
async fn of_ten_in_parallel_exactly_five_pass_through_one_instance_and_through_three() {
    let backend = Backend::start();
    for kind in KINDS {
        let redis = Redis::start().await;
        let weirs = instances(&redis.store(), &window(kind, 5, "12h"), &backend, 3).await;
        let (mut attempts, mut known_errors) = (0, 0.0);
        calmly("Redis answers in time", async || {
            attempts += 1;
            for count in [1, 3] {
                let key = format!("{attempts}, {count}");
                let responses = at_once(&weirs[..count], 10, &key).await;
                for weir in &weirs {
                    let errors = weir.metric_sum("weir_store_errors_total").await;
                    if errors > known_errors {
                        known_errors = errors;
                        return Err(key);
                    }
                }
                assert_eq!(passed_and_refused(&responses), (5, 5), "{kind}, {key}");
            }
            Ok(())
        })
        .await;
        // What stays there is small, ends by itself and tells nothing of the keys.
        for key in redis.keys().await {
            let millis = redis.call(&["PTTL", &key]).await.number();
            assert!(millis > 0, "{key} is kept for ever");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_over_its_limit_is_refused_without_a_call() {
    let cases = KINDS.map(|kind| async move {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let weirs = instances(&redis.store(), &window(kind, 2, "6s"), &backend, 1).await;
        let series = format!("weir_store_call_seconds_count{{script=\"{kind}\"}}");
        until("a window that has just begun", async || {
            let answers = at_once(&weirs, 4, "k").await;
            let left = answers.iter().filter_map(Response::retry_after).max();
            (left >= Some(4))
                .then_some(())
                .ok_or_else(|| format!("{left:?}"))
        })
        .await;
        let before = weirs[0].metric(&series).await;
        let responses = at_once(&weirs, 50, "k").await;
        assert_eq!(passed_and_refused(&responses), (0, 50), "{kind}");
        let calls = weirs[0].metric(&series).await - before;
        assert!(calls.abs() < 1e-9, "{kind}: {calls} calls for nothing");
        let refused = at_once(&weirs, 1, "k").await;
        let told = Duration::from_secs(refused[0].retry_after().expect("seconds"));
        tokio::time::sleep_until((refused[0].at + told).into()).await;
        let again = at_once(&weirs, 1, "k").await;
        assert_eq!(again[0].status, 200, "{kind}: told {told:?}");
    });
    together(cases).await;
}

/// Two instances with a window before a line.
async fn before_a_line(redis: &Redis, backend: &Backend, window: &str) -> Vec<Weir> {
    let mut weirs = Vec::new();
    for _ in 0..2 {
        let config = format!(
            "{}[limits.main]\nkey = \"all\"\n{window}\n\
             [limits.line]\nkey = \"all\"\nrate = \"1r/m\"\nburst = 2\n{}",
            redis.store(),
            upstream("", "limits = [\"main\", \"line\"]", backend)
        );
        weirs.push(Weir::start(&config).await);
    }
    know_each_other(&weirs).await;
    weirs
}

#[tokio::test]
async fn what_was_not_served_comes_back_and_the_other_instance_hears_of_it() {
    let backend = Backend::start();
    for kind in KINDS {
        let redis = Redis::start().await;
        let weirs = before_a_line(&redis, &backend, &window(kind, 3, "12h")).await;
        assert_eq!(weirs[0].get("/").await.status, 200);
        let mut waiting = clients(&weirs[0], 2).await;
        for client in &mut waiting {
            client.send(Request::get("/").bytes()).await;
        }
        weirs[0].shows("weir_waiting{limit=\"line\"}", 2.0).await;
        // All three are taken: the other refuses, by Redis's word and then by heart.
        for _ in 0..3 {
            let refused = weirs[1].get("/").await;
            assert_eq!(refused.status, 429, "{kind}");
            assert_eq!(left(&refused, "main"), 0, "{kind}");
        }
        for client in waiting {
            client.reset();
        }
        // Two are free again, in the window and in the line.
        let begun = Instant::now();
        let mut later = weirs[1].client().await;
        until("room", async || {
            later = weirs[1].client().await;
            later.send(Request::get("/").bytes()).await;
            let waits = weirs[1].metric("weir_waiting{limit=\"line\"}").await;
            (waits >= 1.0)
                .then_some(())
                .ok_or_else(|| waits.to_string())
        })
        .await;
        assert!(begun.elapsed() < ms(5_000), "{kind}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_a_later_limit_refuses_a_shared_window_gets_back() {
    let backend = Backend::start();
    for kind in KINDS {
        let redis = Redis::start().await;
        let weirs = before_a_line(&redis, &backend, &window(kind, 4, "12h")).await;
        assert_eq!(weirs[0].get("/").await.status, 200);
        let mut waiting = clients(&weirs[0], 2).await;
        for client in &mut waiting {
            client.send(Request::get("/").bytes()).await;
        }
        weirs[0].shows("weir_waiting{limit=\"line\"}", 2.0).await;
        for number in 0..6 {
            // It is on its way back for a moment.
            until("the window has it back", async || {
                let refused = weirs[number % 2].get("/").await;
                assert_eq!(refused.status, 429, "{kind}");
                let violated = &refused.json()["violated-policies"];
                (violated[0] == "line")
                    .then_some(())
                    .ok_or_else(|| violated.to_string())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn what_redis_forgets_survivors_remember() {
    let backend = Backend::start();
    for kind in KINDS {
        let redis = Redis::start().await;
        let weirs = instances(&redis.store(), &window(kind, 6, "12h"), &backend, 2).await;
        let responses = at_once(&weirs, 4, "k").await;
        assert_eq!(passed_and_refused(&responses), (4, 0), "{kind}");
        redis.call(&["FLUSHALL"]).await;
        let mut passed = 0;
        for _ in 0..6 {
            let responses = at_once(&weirs, 2, "k").await;
            passed += passed_and_refused(&responses).0;
        }
        // The one that had heard of all four by its last answer, or of three.
        assert!((2..=3).contains(&passed), "{kind}: {passed}");
    }
}

#[tokio::test]
async fn without_redis_each_has_its_part_of_what_is_left() {
    let backend = Backend::start();
    for kind in KINDS {
        let mut redis = Redis::start().await;
        let weirs = instances(&redis.store(), &window(kind, 8, "12h"), &backend, 3).await;
        for weir in &weirs {
            let one = weir
                .client()
                .await
                .ask(&Request::get("/").with("X-Key", "k"))
                .await;
            assert_eq!(one.status, 200, "{kind}");
        }
        redis.kill();
        let responses = at_once(&weirs, 30, "k").await;
        let (passed, _) = passed_and_refused(&responses);
        // Each knows what it heard last: of one, two and three that had passed.
        assert!((5..=7).contains(&passed), "{kind}: {passed}");
        let fresh = at_once(&weirs, 30, "fresh").await;
        assert_eq!(
            passed_and_refused(&fresh).0,
            8,
            "{kind}: all parts are the whole"
        );
        redis.restart().await;
        know_each_other(&weirs).await;
        for key in ["k", "fresh"] {
            until("what passed meanwhile is told", async || {
                let responses = at_once(&weirs, 3, key).await;
                (passed_and_refused(&responses).0 == 0)
                    .then_some(())
                    .ok_or_else(|| key.to_owned())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn without_redis_a_limit_is_open_or_closed_as_it_says() {
    let backend = Backend::start();
    for (on_failure, status) in [("open", 200), ("closed", 503)] {
        let mut redis = Redis::start().await;
        let limit = format!(
            "{}\non_failure = \"{on_failure}\"",
            window("sliding_window_log", 2, "12h")
        );
        let weirs = instances(&redis.store(), &limit, &backend, 1).await;
        let responses = at_once(&weirs, 4, "k").await;
        assert_eq!(passed_and_refused(&responses), (2, 2));
        redis.kill();
        let begun = Instant::now();
        until("it is noticed", async || {
            let answers = at_once(&weirs, 1, "other").await;
            (answers[0].status == status)
                .then_some(())
                .ok_or_else(|| answers[0].status.to_string())
        })
        .await;
        assert!(begun.elapsed() < ms(5_000));
        for response in at_once(&weirs, 5, "k").await {
            assert_eq!(response.status, status, "{on_failure}");
        }
    }
}

#[tokio::test]
async fn who_may_count_by_itself_for_a_while_calls_seldom_and_settles_all() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let windows = KINDS.map(|kind| (kind, window(kind, 400, "12h")));
    let tokens = "algorithm = \"token_bucket\"\nrate = \"1r/h\"\ncapacity = 400";
    let all = windows
        .into_iter()
        .chain([("token_bucket", tokens.to_owned())]);
    for (kind, limit) in all {
        let limit = format!("{limit}\nsync = \"50ms\"");
        let weirs = instances(&redis.store(), &limit, &backend, 2).await;
        let series = format!("weir_store_call_seconds_count{{script=\"{kind}\"}}");
        let mut client = weirs[0].client().await;
        let request = Request::get("/").with("X-Key", "k");
        for _ in 0..300 {
            assert_eq!(client.ask(&request).await.status, 200, "{kind}");
        }
        let calls = weirs[0].metric(&series).await;
        // On a busy machine an answer may be too old by the time that it is needed.
        assert!(calls <= 100.0, "{kind}: {calls} calls for 300 requests");
        // What was counted alone is settled a moment later: the other hears of all.
        until("all is settled", async || {
            let answer = weirs[1].client().await.ask(&request).await;
            let left = left(&answer, "main");
            (left < 100).then_some(()).ok_or_else(|| left.to_string())
        })
        .await;
        let mut passed = 0;
        for number in 0..250 {
            let mut client = weirs[number % 2].client().await;
            passed += usize::from(client.ask(&request).await.status == 200);
        }
        // One asks at a time: what the other kept quiet about is two words' worth at most.
        assert!((90..180).contains(&passed), "{kind}: {passed}");
    }
}
