//! Does a pause hold on all instances, and does it outlive one of them?

use std::time::Instant;

use serde_json::json;

use crate::harness::{
    Backend, Redis, Weir, come, have_waiting, instances, keeps_pace, know_each_other, ms,
    responses, sharing, until,
};

const LIMIT: &str = "rate = \"20r/s\"\nburst = 40";

/// Waits until an instance says so of the limit.
async fn says(weir: &Weir, paused: bool) {
    until("a pause that all know", async || {
        let limit = weir.api("GET", "/api/limits/main").await.json();
        (limit.get("paused") == Some(&json!(paused)))
            .then_some(())
            .ok_or_else(|| limit.to_string())
    })
    .await;
}

#[tokio::test]
async fn all_instances_keep_back_and_let_go_as_one() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), LIMIT, &backend, 2).await;
    let paused = weirs[0].api("POST", "/api/limits/main/pause").await;
    assert_eq!(paused.json()["shared"], json!(true), "{}", paused.text());
    let begun = Instant::now();
    says(&weirs[1], true).await;
    assert!(begun.elapsed() < ms(1_000), "{:?}", begun.elapsed());
    let mut all = Vec::new();
    for number in 0..8 {
        all.extend(come(&weirs[number % 2], 1, &format!("{number}-")).await);
    }
    have_waiting(&weirs, 8).await;
    let calls = weirs[0].metric_sum("weir_store_call_seconds_count").await;
    tokio::time::sleep(ms(600)).await;
    let later = weirs[0].metric_sum("weir_store_call_seconds_count").await;
    assert!(later - calls < 20.0, "{} calls", later - calls);
    assert_eq!(backend.seen().len(), 0);
    weirs[1].api("POST", "/api/limits/main/resume").await;
    let resumed = Instant::now();
    let responses = responses(all).await;
    assert!(responses.iter().all(|one| one.status == 200));
    assert!(resumed.elapsed() < ms(2_000), "{:?}", resumed.elapsed());
    let arrivals = backend.arrivals(resumed);
    keeps_pace(&arrivals, ms(50));
    says(&weirs[0], false).await;
}

#[tokio::test]
async fn an_instance_that_begins_knows_what_is_paused() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let mut weirs = instances(&redis.store(), LIMIT, &backend, 1).await;
    let key = "/api/limits/main/buckets/one/pause";
    assert_eq!(weirs[0].api("POST", key).await.status, 200);
    assert_eq!(
        weirs[0].api("POST", "/api/limits/main/pause").await.status,
        200
    );
    drop(weirs.pop());
    let late = Weir::start(&sharing(&redis.store(), LIMIT, &backend, "b")).await;
    let limit = late.api("GET", "/api/limits/main").await.json();
    assert_eq!(limit["paused"], json!(true), "{limit}");
    assert_eq!(limit["paused_buckets"], json!(1), "{limit}");
    let all = come(&late, 2, "held").await;
    late.has_waiting(2).await;
    let ttl = redis.call(&["PTTL", "weir:pauses"]).await.number();
    assert!(ttl > 3_500_000, "{ttl}");
    late.api("POST", "/api/limits/main/resume").await;
    let responses = responses(all).await;
    assert!(responses.iter().all(|one| one.status == 200));
}

#[tokio::test]
async fn what_is_paused_stays_so_while_redis_is_away_and_when_it_has_forgotten() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), LIMIT, &backend, 2).await;
    weirs[0].api("POST", "/api/limits/main/pause").await;
    says(&weirs[1], true).await;
    redis.kill();
    let all = come(&weirs[1], 3, "held").await;
    weirs[1].shows("weir_store_up", 0.0).await;
    weirs[1].has_waiting(3).await;
    // It hears of this later.
    let resumed = weirs[0].api("POST", "/api/limits/main/resume").await;
    assert_eq!(resumed.json()["shared"], json!(false), "{}", resumed.text());
    let again = weirs[0].api("POST", "/api/limits/main/pause?for=2h").await;
    assert_eq!(again.json()["shared"], json!(false));
    redis.restart().await;
    know_each_other(&weirs).await;
    for weir in &weirs {
        says(weir, true).await;
    }
    assert_eq!(backend.seen().len(), 0);
    let late = Weir::start(&sharing(&redis.store(), LIMIT, &backend, "c")).await;
    says(&late, true).await;
    late.api("POST", "/api/limits/main/resume").await;
    let responses = responses(all).await;
    assert!(responses.iter().all(|one| one.status == 200));
}

#[tokio::test]
async fn a_purge_reaches_those_who_wait_elsewhere() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"1r/m\"\nburst = 40", &backend, 2).await;
    let first = come(&weirs[0], 3, "a").await;
    let second = come(&weirs[1], 3, "b").await;
    have_waiting(&weirs, 5).await;
    let purged = weirs[0].api("DELETE", "/api/limits/main/line").await;
    assert_eq!(purged.json()["shared"], json!(true), "{}", purged.text());
    have_waiting(&weirs, 0).await;
    let ends = responses(first.into_iter().chain(second).collect()).await;
    let sent_away = ends.iter().filter(|one| one.status == 503).count();
    assert_eq!(sent_away, 5);
    until("an empty line", async || {
        let limit = weirs[1].api("GET", "/api/limits/main/buckets").await.json();
        let length = &limit["buckets"][0]["line_length"];
        (*length == json!(0))
            .then_some(())
            .ok_or_else(|| limit.to_string())
    })
    .await;
}
