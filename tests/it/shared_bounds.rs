//! Is what is admitted counted over all instances together?

use std::time::{Duration, Instant};

use crate::harness::structured::limits;
use crate::harness::{
    Backend, Client, Redis, Request, Response, Weir, clients, have_waiting, instances, ms, together,
};

async fn send(client: &mut Client, target: &str) {
    client.send(Request::get(target).bytes()).await;
}

/// What each of these says to one more.
async fn each(weirs: &[Weir]) -> Vec<Response> {
    let mut answers = Vec::new();
    for weir in weirs {
        answers.push(weir.get("/more").await);
    }
    answers
}

#[tokio::test]
async fn burst_and_one_are_admitted_in_all_and_the_next_hears_when_to_come_back() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"6r/m\"\nburst = 5";
    let weirs = instances(&redis.store(), limit, &backend, 3).await;
    let begun = Instant::now();
    assert_eq!(weirs[0].get("/first").await.status, 200);
    let first_went = Instant::now();
    let mut waiting = Vec::new();
    for number in 0..5 {
        let mut client = weirs[number % 3].client().await;
        send(&mut client, "/waits").await;
        waiting.push(client);
    }
    have_waiting(&weirs, 5).await;
    // One place is free when the first of them goes, 10 s after the first of all.
    let mut before = u64::MAX;
    while begun.elapsed() < ms(2_500) {
        let at_most = 10 - first_went.elapsed().as_secs();
        for answer in each(&weirs).await {
            let at_least = (ms(10_000).saturating_sub(begun.elapsed())).as_secs();
            assert_eq!(answer.status, 429);
            let retry_after = answer.retry_after().expect("seconds");
            let right = at_least..=at_most;
            assert!(right.contains(&retry_after), "{retry_after}, not {right:?}");
            assert!(retry_after <= before, "it counts down");
            before = retry_after;
            let limits = limits(&answer);
            let reset = u64::try_from(limits["main"]["t"]).expect("seconds");
            assert_eq!((limits["main"]["r"], reset), (0, retry_after));
        }
        tokio::time::sleep(ms(300)).await;
    }
    assert_eq!(backend.targets(), ["/first"]);
    let full = "weir_refused_total{limit=\"main\",reason=\"full\"}";
    for weir in &weirs {
        assert!(weir.metric(full).await > 0.0);
    }
}

/// How many of a greedy crowd at all of these get through in `span`.
async fn greedy(weirs: &[Weir], span: Duration) -> (u32, Duration) {
    let mut crowd = Vec::new();
    for weir in weirs {
        crowd.extend(clients(weir, 2).await);
    }
    let begun = Instant::now();
    let served = crowd.into_iter().map(|mut client| async move {
        let mut served = 0;
        while begun.elapsed() < span {
            let response = client.get("/").await;
            assert!(matches!(response.status, 200 | 429), "{response:?}");
            served += u32::from(response.status == 200);
            tokio::time::sleep(ms(5)).await;
        }
        served
    });
    let served = together(served).await.iter().sum();
    (served, begun.elapsed())
}

#[tokio::test]
async fn what_passes_at_once_is_the_burst_and_the_rate_over_all_instances() {
    let cases = [
        "rate = \"10r/s\"\nburst = 9\nnodelay = true",
        "algorithm = \"token_bucket\"\nrate = \"10r/s\"\ncapacity = 10",
    ];
    let redis = Redis::start().await;
    for limit in cases {
        redis.call(&["FLUSHALL"]).await;
        let backend = Backend::start();
        let weirs = instances(&redis.store(), limit, &backend, 2).await;
        let (served, took) = greedy(&weirs, ms(3_000)).await;
        let most = 10.0 + took.as_secs_f64() * 10.0;
        let served = f64::from(served);
        assert!(served <= most + 1.0, "{served} of {most}: {limit}");
        assert!(served >= most * 0.9 - 1.0, "{served} of {most}: {limit}");
    }
}

#[tokio::test]
async fn six_a_minute_is_one_or_two_in_ten_seconds() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"6r/m\"\nburst = 0";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    let mut all = [weirs[0].client().await, weirs[1].client().await];
    let begun = Instant::now();
    let mut asked = 0;
    while begun.elapsed() < ms(10_000) {
        let answer = all[asked % 2].get("/").await;
        assert!(matches!(answer.status, 200 | 429));
        asked += 1;
        tokio::time::sleep(ms(50)).await;
    }
    assert!(asked > 50, "enough were asked: {asked}");
    let passed = backend.seen().len();
    assert!((1..=2).contains(&passed), "{passed}");
}

#[tokio::test]
async fn a_drained_bucket_fills_at_the_rate_whichever_instance_is_asked() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"1r/s\"\nburst = 20\nnodelay = true";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    let mut all = [weirs[0].client().await, weirs[1].client().await];
    let begun = Instant::now();
    for number in 0..40 {
        all[number % 2].get("/").await;
    }
    let drained = backend.seen().len();
    assert!((21..=22).contains(&drained), "{drained}");
    tokio::time::sleep(ms(2_300)).await;
    for number in 0..20 {
        all[number % 2].get("/").await;
    }
    let passed = backend.seen().len() - drained;
    let slots = usize::try_from(begun.elapsed().as_secs()).expect("few");
    assert!((2..=slots + 1).contains(&passed), "{passed} of {slots}");
}

#[tokio::test]
async fn a_request_that_was_refused_cost_nothing() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"1r/s\"\nburst = 1\nnodelay = true";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    for weir in &weirs {
        assert_eq!(weir.get("/").await.status, 200);
    }
    // Whoever comes back when it is told to is admitted, whatever came between.
    let mut longest = 0;
    for number in 0..30 {
        let answer = weirs[number % 2].get("/refused").await;
        if answer.status == 429 {
            longest = answer.retry_after().expect("seconds");
            assert_eq!(longest, 1);
        }
    }
    tokio::time::sleep(Duration::from_secs(longest)).await;
    assert_eq!(weirs[1].get("/").await.status, 200);
}
