//! Do several limits, a delay, a hold and a full upstream mean the same over several instances?

use std::time::Instant;

use crate::harness::{
    Answer, Backend, Client, Departures, Redis, Request, Weir, clients, come, have_waiting,
    instances, know_each_other, ms, responses, sharing, upstream,
};

/// Two instances with a limit for each key before one for all.
async fn two_limits(redis: &Redis, backend: &Backend, each: &str, all: &str) -> Vec<Weir> {
    let mut weirs = Vec::new();
    for name in ["a", "b"] {
        let config = format!(
            "{}[limits.each]\nkey = \"{{header.x-key}}\"\n{each}\n[limits.main]\nkey = \"all\"\n{all}\n{}",
            redis.store(),
            upstream(
                &format!("set_headers = {{ x-instance = \"{name}\" }}"),
                "limits = [\"each\", \"main\"]",
                backend
            )
        );
        weirs.push(Weir::start(&config).await);
    }
    know_each_other(&weirs).await;
    weirs
}

fn keyed(key: &str) -> Request {
    Request::get("/").with("X-Key", key)
}

#[tokio::test]
async fn what_one_limit_refuses_another_gets_back() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let each = "rate = \"1r/m\"\nburst = 2\nnodelay = true";
    let all = "rate = \"1r/s\"\nburst = 0";
    let weirs = two_limits(&redis, &backend, each, all).await;
    assert_eq!(weirs[0].client().await.ask(&keyed("x")).await.status, 200);
    // The limit for all is exhausted; that of `x` is not charged for it.
    let mut refused = 0;
    for number in 0..10 {
        let answer = weirs[number % 2].client().await.ask(&keyed("x")).await;
        refused += usize::from(answer.status == 429);
    }
    assert!(refused >= 8, "{refused}");
    let begun = Instant::now();
    let mut passed = backend.seen().len();
    while passed < 3 && begun.elapsed() < ms(4_000) {
        let answer = weirs[1].client().await.ask(&keyed("x")).await;
        passed += usize::from(answer.status == 200);
        tokio::time::sleep(ms(50)).await;
    }
    assert_eq!(passed, 3, "x has three in all");
}

#[tokio::test]
async fn a_crowd_of_keys_leaves_evenly_in_the_end() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let (each, all) = (
        "rate = \"10r/s\"\nburst = 20",
        "rate = \"50r/s\"\nburst = 200",
    );
    let weirs = two_limits(&redis, &backend, each, all).await;
    let mut sent = Vec::new();
    for number in 0..80 {
        let mut client = weirs[number % 2].client().await;
        client.send(keyed(&format!("{}", number % 8)).bytes()).await;
        sent.push(client);
    }
    let responses = responses(sent).await;
    assert!(responses.iter().all(|response| response.status == 200));
    let left = Departures::to(&backend);
    assert!(left.most_in(ms(100)) <= 8, "{}", left.most_in(ms(100)));
    assert!(left.most_in(ms(1_000)) <= 52, "{}", left.most_in(ms(1_000)));
}

#[tokio::test]
async fn the_first_of_a_burst_pass_at_once_whichever_instance_they_ask() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"2r/s\"\nburst = 8\ndelay = 3";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    let mut all: Vec<Client> = Vec::new();
    let begun = Instant::now();
    for number in 0..11 {
        all.extend(come(&weirs[number % 2], 1, &format!("{number}-")).await);
    }
    let responses = responses(all).await;
    let refused = responses.iter().filter(|it| it.status == 429).count();
    // A slot or two go by while they come.
    assert!(refused <= 2, "{refused}");
    let arrivals = backend.arrivals(begun);
    assert!(arrivals[3] < ms(450), "{arrivals:?}");
    for (slot, at) in (1_u32..).zip(arrivals.iter().skip(4)) {
        assert!(*at + ms(5) >= ms(500) * slot, "{slot}: {arrivals:?}");
    }
}

#[tokio::test]
async fn each_in_a_batch_is_admitted_by_its_own_patience() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"2r/s\"\nburst = 20", &backend, 2).await;
    let _waiting = come(&weirs[0], 5, "waits").await;
    have_waiting(&weirs, 4).await;
    // The next turn is two seconds away and more.
    let mut all = clients(&weirs[1], 8).await;
    for (number, client) in all.iter_mut().enumerate() {
        let wait = if number % 2 == 0 { "wait=1" } else { "wait=30" };
        let request = Request::get("/").with("Prefer", wait);
        client.send(request.bytes()).await;
    }
    let responses = responses(all).await;
    let statuses: Vec<_> = responses.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [429, 200, 429, 200, 429, 200, 429, 200]);
}

#[tokio::test]
async fn what_an_upstream_says_to_one_instance_holds_for_all() {
    let redis = Redis::start().await;
    let backend = Backend::answering(|seen| {
        if seen.target() == "/busy" {
            Answer::with("429 Too Many Requests", &[("Retry-After", "2")], "busy")
        } else {
            Answer::ok()
        }
    });
    let limit = "rate = \"10r/s\"\nburst = 20";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    assert_eq!(weirs[0].get("/busy").await.status, 429);
    let held = Instant::now();
    tokio::time::sleep(ms(150)).await;
    let all = come(&weirs[1], 3, "held").await;
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert!(held.elapsed() < ms(4_000), "{:?}", held.elapsed());
    let arrivals = backend.arrivals(held);
    assert!(arrivals[1] >= ms(1_900), "{arrivals:?}");
}

#[tokio::test]
async fn an_instance_whose_upstream_is_full_steps_aside_for_the_others() {
    let redis = Redis::start().await;
    let (full, free) = (Backend::answering(|_| Answer::held()), Backend::start());
    let limit = "rate = \"20r/s\"\nburst = 50";
    let blocked = sharing(&redis.store(), limit, &full, "a").replace(
        "[upstreams.main]\n",
        "[upstreams.main]\nmax_in_flight = 1\n",
    );
    let weirs = [
        Weir::start(&blocked).await,
        Weir::start(&sharing(&redis.store(), limit, &free, "b")).await,
    ];
    know_each_other(&weirs).await;
    let blocked = come(&weirs[0], 10, "blocked").await;
    full.has_seen(1).await;
    let begun = Instant::now();
    let served = responses(come(&weirs[1], 20, "free").await).await;
    assert!(served.iter().all(|response| response.status == 200));
    // Twenty slots, and those that the blocked let go by.
    assert!(begun.elapsed() < ms(4_000), "{:?}", begun.elapsed());
    full.let_go(10);
    let served = responses(blocked).await;
    assert!(served.iter().all(|response| response.status == 200));
}

/// A second limit, asked on arrival, is exhausted for longer than the line is full.
#[tokio::test]
async fn every_instance_announces_the_same_way_back() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let config = format!(
        "{}[limits.line]\nkey = \"all\"\nrate = \"15r/m\"\nburst = 2\n\
         [limits.quota]\nalgorithm = \"token_bucket\"\nkey = \"all\"\nrate = \"6r/m\"\ncapacity = 3\n{}",
        redis.store(),
        upstream("", "limits = [\"line\", \"quota\"]", &backend)
    );
    let mut weirs = Vec::new();
    for _ in 0..3 {
        weirs.push(Weir::start(&config).await);
    }
    know_each_other(&weirs).await;
    let spent = Instant::now();
    let all = come(&weirs[0], 3, "spends").await;
    weirs[0].shows("weir_waiting{limit=\"line\"}", 2.0).await;
    // Nothing tells from outside when the quota has heard of all three.
    tokio::time::sleep(ms(300)).await;
    for weir in [&weirs[1], &weirs[2], &weirs[0]] {
        let refused = weir.get("/").await;
        assert_eq!(refused.status, 429);
        let left = ms(10_000).saturating_sub(spent.elapsed()).as_secs() + 1;
        let told = refused.retry_after().expect("a way back");
        assert!(told.abs_diff(left) <= 1, "{told} s, not {left}");
    }
    drop(all);
}
