//! What does weir make of a Redis that answers, but not as it should?

use std::time::Instant;

use crate::harness::{
    Backend, Departures, Redis, Request, Severing, Way, Weir, clients, crowds, instances, ms,
    none_failed, responses, until, visits,
};

const LIMIT: &str = "rate = \"100r/s\"\nburst = 20";

/// That nothing fails while Redis is `spoilt`, and all is well when it is `mended`.
async fn takes(weirs: &[Weir], spoil: impl Future<Output = ()>, mend: impl Future<Output = ()>) {
    let crowds = crowds(weirs, 40.0);
    let faults = async {
        tokio::time::sleep(ms(500)).await;
        spoil.await;
        for weir in weirs {
            weir.shows("weir_store_up", 0.0).await;
            weir.shows("weir_store_degraded", 1.0).await;
        }
        tokio::time::sleep(ms(700)).await;
        mend.await;
        for weir in weirs {
            weir.shows("weir_store_up", 1.0).await;
            weir.shows("weir_store_degraded", 0.0).await;
        }
    };
    let (visits, ()) = tokio::join!(visits(&crowds, ms(3_000)), faults);
    none_failed(&visits);
}

#[tokio::test]
async fn a_redis_that_became_a_replica_is_away() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), LIMIT, &backend, 2).await;
    let spoil = async {
        redis.call(&["REPLICAOF", "127.0.0.1", "1"]).await;
    };
    let mend = async {
        redis.call(&["REPLICAOF", "NO", "ONE"]).await;
    };
    takes(&weirs, spoil, mend).await;
}

#[tokio::test]
async fn a_redis_without_memory_is_away() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), LIMIT, &backend, 2).await;
    let spoil = async {
        redis.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    };
    let mend = async {
        redis.call(&["CONFIG", "SET", "maxmemory", "0"]).await;
    };
    takes(&weirs, spoil, mend).await;
}

#[tokio::test]
async fn a_redis_that_babbles_is_away() {
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "-ERR odd\r\n",
        "+OK\r\n",
        ":-1\r\n",
        "$-5\r\n",
        "*3\r\n:1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*1\r\n*1\r\n*1\r\n$3\r\nodd\r\n",
        "\0\0\0\0",
    ] {
        let redis = Redis::start().await;
        let way = Severing::before(redis.address());
        let backend = Backend::start();
        let weirs = instances(&way.store(), LIMIT, &backend, 1).await;
        way.set(Way::Babbling(answer));
        let mut client = weirs[0].client().await;
        let begun = Instant::now();
        while begun.elapsed() < ms(400) {
            let status = client.get("/").await.status;
            assert!(matches!(status, 200 | 429), "{status} on {answer:?}");
        }
        weirs[0].shows("weir_store_up", 0.0).await;
        way.set(Way::Open);
        weirs[0].shows("weir_store_up", 1.0).await;
        let response = client.get("/").await;
        assert_eq!(response.status, 200, "{answer:?}: {response:?}");
    }
}

#[tokio::test]
async fn a_line_that_is_lost_without_its_state_is_put_back() {
    for lost in ["line", "state", "both"] {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let limit = "rate = \"10r/s\"\nburst = 50";
        let weirs = instances(&redis.store(), limit, &backend, 2).await;
        let mut all = Vec::new();
        for weir in &weirs {
            all.extend(clients(weir, 10).await);
        }
        for client in &mut all {
            client.send(Request::get("/").bytes()).await;
        }
        backend.has_seen(4).await;
        let begun = Instant::now();
        let keys = redis.keys().await;
        let of_main = keys.iter().filter(|key| key.contains("{main:"));
        for key in of_main {
            let is_line = key.ends_with(":line");
            if lost == "both" || is_line == (lost == "line") {
                redis.call(&["DEL", key]).await;
            }
        }
        let responses = responses(all).await;
        assert!(
            responses.iter().all(|response| response.status == 200),
            "{lost}"
        );
        assert!(begun.elapsed() < ms(3_500), "{lost}: {:?}", begun.elapsed());
        let left = Departures::to(&backend);
        assert_eq!(left.count(), 20, "{lost}");
        assert!(
            left.most_in(ms(1_000)) <= 11,
            "{lost}: {}",
            left.most_in(ms(1_000))
        );
    }
}

#[tokio::test]
async fn metrics_and_readiness_tell_how_redis_does() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), LIMIT, &backend, 1).await;
    let weir = &weirs[0];
    for _ in 0..5 {
        assert_eq!(weir.get("/").await.status, 200);
    }
    let well = weir.metrics().await;
    for (series, wanted) in [
        ("weir_store_up", 1.0),
        ("weir_store_degraded", 0.0),
        ("weir_instances", 1.0),
    ] {
        assert!((well.value(series) - wanted).abs() < 1e-9, "{series}");
    }
    for (name, kind) in [
        ("weir_store_call_seconds", "histogram"),
        ("weir_store_batch_size", "histogram"),
        ("weir_store_errors_total", "counter"),
    ] {
        assert_eq!(well.kind(name), Some(kind), "{name}");
    }
    assert!(well.sum("weir_store_call_seconds_count") >= 5.0);
    assert!(well.sum("weir_store_batch_size_count") >= 1.0);
    assert!(well.sum("weir_store_errors_total").abs() < 1e-9);
    let ready = weir.page("/readyz").await;
    assert_eq!(ready.status, 200);
    let said = ready.text().to_owned();
    assert!(said.contains("store"), "{said}");

    redis.kill();
    assert_eq!(weir.get("/").await.status, 200);
    weir.shows("weir_store_up", 0.0).await;
    weir.shows("weir_store_degraded", 1.0).await;
    assert!(weir.metric_sum("weir_store_errors_total").await > 0.0);
    // It serves all the same: an instance is not taken out for its store.
    let ready = weir.page("/readyz").await;
    assert_eq!(ready.status, 200);
    assert_ne!(ready.text(), said);
    for _ in 0..20 {
        assert_eq!(weir.get("/").await.status, 200);
        tokio::time::sleep(ms(50)).await;
    }
    redis.restart().await;
    weir.shows("weir_store_up", 1.0).await;
    weir.shows("weir_store_degraded", 0.0).await;
    let told = |line: &&String| {
        let line = line.to_lowercase();
        line.contains("redis") || line.contains("store")
    };
    until("an outage in the log", async || {
        let log = weir.log();
        let lines: Vec<_> = log.iter().filter(told).collect();
        // Once that it is away, once that it is back; a start may say something too.
        (2..=4)
            .contains(&lines.len())
            .then_some(())
            .ok_or_else(|| format!("{lines:#?}"))
    })
    .await;
}

#[tokio::test]
async fn a_bucket_that_something_else_overwrote_goes_alone_and_comes_back() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"20r/s\"\nburst = 100";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    let begun = Instant::now();
    let mut all = clients(&weirs[0], 40).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    weirs[0].has_waiting(30).await;
    let keys = redis.keys().await;
    let bucket = keys
        .iter()
        .find(|key| key.ends_with('}'))
        .expect("a bucket");
    redis.call(&["SET", bucket, "x", "PX", "1500"]).await;
    let served = responses(all).await;
    assert!(served.iter().all(|response| response.status == 200));
    let left = Departures::to(&backend);
    assert!(left.most_in(ms(1_000)) <= 22, "{}", left.most_in(ms(1_000)));
    let gone = ms(3_500).saturating_sub(begun.elapsed());
    tokio::time::sleep(gone).await;
    // Whoever comes afterwards is served as ever, here and there.
    for weir in &weirs {
        assert_eq!(weir.get("/").await.status, 200);
    }
    until("the bucket is in Redis again", async || {
        let there = redis.keys().await.iter().any(|key| key == bucket);
        there.then_some(()).ok_or_else(|| "it is not".to_owned())
    })
    .await;
}
