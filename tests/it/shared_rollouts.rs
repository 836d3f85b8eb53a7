//! What if instances are of two minds about a limit?

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{
    Backend, Departures, Redis, Request, Weir, clients, crowds, have_waiting, instances,
    keeps_pace, know_each_other, ms, none_failed, responses, sharing, visits,
};

#[tokio::test]
async fn the_rate_is_never_more_than_the_larger_of_two() {
    const SPAN: Duration = ms(5_000);
    let redis = Redis::start().await;
    let backend = Backend::start();
    let mut weirs = Vec::new();
    for (name, limit) in [
        ("a", "rate = \"100r/s\"\nburst = 60"),
        ("b", "rate = \"50r/s\"\nburst = 60"),
    ] {
        weirs.push(Weir::start(&sharing(&redis.store(), limit, &backend, name)).await);
    }
    know_each_other(&weirs).await;
    let begun = Instant::now();
    let visits = visits(&crowds(&weirs, 90.0), SPAN).await;
    none_failed(&visits);
    let left = Departures::to(&backend);
    assert!(
        left.most_in(ms(1_000)) <= 102,
        "{}",
        left.most_in(ms(1_000))
    );
    let steady = left.between(begun + ms(1_000), begun + SPAN);
    assert!(steady.count() >= 190, "{} in 4 s", steady.count());
}

#[tokio::test]
async fn a_quicker_rate_holds_from_the_next_slot_for_those_who_wait() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"1r/d\"\nburst = 9", &backend, 2).await;
    assert_eq!(weirs[0].get("/first").await.status, 200);
    let mut all = Vec::new();
    for number in 0..6 {
        let mut client = weirs[number % 2].client().await;
        let request = Request::get(&format!("/{number}"));
        client.send(request.bytes()).await;
        all.push(client);
        tokio::time::sleep(ms(30)).await;
    }
    have_waiting(&weirs, 6).await;
    for weir in &weirs {
        weir.rewrite("1r/d", "10r/s");
        weir.signal(Signal::HUP);
    }
    let changed = Instant::now();
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert!(changed.elapsed() < ms(2_500), "{:?}", changed.elapsed());
    let wanted = ["/first", "/0", "/1", "/2", "/3", "/4", "/5"];
    assert_eq!(backend.targets(), wanted);
    let arrivals = backend.arrivals(changed);
    keeps_pace(&arrivals[1..], ms(100));
}

#[tokio::test]
async fn a_slower_rate_keeps_places_and_debts() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"50r/s\"\nburst = 60", &backend, 2).await;
    let mut all = clients(&weirs[0], 30).await;
    all.extend(clients(&weirs[1], 30).await);
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    backend.has_seen(5).await;
    for weir in &weirs {
        weir.rewrite("50r/s", "10r/s");
        weir.signal(Signal::HUP);
    }
    for weir in &weirs {
        weir.reaches("weir_config_reloads_total{result=\"success\"}", 1.0)
            .await;
    }
    let changed = Instant::now();
    tokio::time::sleep(ms(100)).await;
    let before = backend.seen().len();
    tokio::time::sleep(ms(1_500)).await;
    let slow = backend.seen().len() - before;
    assert!((12..=17).contains(&slow), "{slow} in 1.5 s");
    for weir in &weirs {
        weir.rewrite("10r/s", "100r/s");
        weir.signal(Signal::HUP);
    }
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert!(changed.elapsed() < ms(4_000), "{:?}", changed.elapsed());
    assert_eq!(backend.seen().len(), 60);
}
