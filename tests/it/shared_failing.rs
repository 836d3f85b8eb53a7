//! What does a client hear while Redis is away, for each `on_failure`?

use std::time::{Duration, Instant};

use crate::harness::structured::proxy_error;
use crate::harness::{
    Backend, Departures, Redis, Request, Response, Severing, Way, Weir, black_hole, calmly,
    clients, come, free_port, have_waiting, instances, ms, responses, sharing,
};

const REFUSED: &str = "weir_refused_total{limit=\"main\",reason=\"store\"}";

fn store(url: &str, keys: &str) -> String {
    format!("[store]\nkind = \"redis\"\nurl = \"{url}\"\n{keys}\n")
}

fn is_closed(response: &Response) {
    assert_eq!(response.status, 503);
    let type_ = response.header("content-type");
    assert_eq!(type_, Some("application/problem+json"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.problem_status(), 503);
    assert!(response.retry_after().expect("seconds") >= 1);
    proxy_error(response);
}

#[tokio::test]
async fn closed_refuses_until_redis_is_there_again() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let store = redis.store() + "on_failure = \"closed\"\n";
    let config = sharing(&store, "rate = \"100r/s\"\nburst = 5", &backend, "a");
    let weir = Weir::start(&config).await;
    assert_eq!(weir.get("/before").await.status, 200);
    redis.kill();
    for _ in 0..5 {
        is_closed(&weir.get("/away").await);
    }
    weir.shows(REFUSED, 5.0).await;
    let shed = "weir_requests_total{route=\"main\",outcome=\"shed\"}";
    weir.shows(shed, 5.0).await;
    redis.restart().await;
    weir.shows("weir_store_up", 1.0).await;
    assert_eq!(weir.get("/after").await.status, 200);
    assert_eq!(backend.targets(), ["/before", "/after"]);
}

#[tokio::test]
async fn open_forwards_unshaped_until_redis_is_there_again() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let store = redis.store() + "on_failure = \"open\"\n";
    let config = sharing(&store, "rate = \"1r/m\"", &backend, "a");
    let weir = Weir::start(&config).await;
    assert_eq!(weir.get("/").await.status, 200);
    assert_eq!(weir.get("/").await.status, 429);
    redis.kill();
    for _ in 0..20 {
        assert_eq!(weir.get("/").await.status, 200);
    }
    assert_eq!(backend.seen().len(), 21);
    redis.restart().await;
    weir.shows("weir_store_up", 1.0).await;
    weir.shows("weir_store_degraded", 0.0).await;
    assert!(weir.get("/").await.status == 429 || weir.get("/").await.status == 429);
}

#[tokio::test]
async fn open_lets_those_go_who_wait_when_redis_goes() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let store = redis.store() + "on_failure = \"open\"\n";
    let weirs = instances(&store, "rate = \"6r/m\"\nburst = 9", &backend, 1).await;
    let mut all = clients(&weirs[0], 6).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    have_waiting(&weirs, 5).await;
    redis.kill();
    let gone = Instant::now();
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert!(gone.elapsed() < ms(3_000), "{:?}", gone.elapsed());
}

#[tokio::test]
async fn a_limit_may_fail_in_another_way_than_the_store() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let config = format!(
        "{}on_failure = \"open\"\n\
         [limits.login]\nkey = \"login\"\nrate = \"1r/m\"\nburst = 1\nnodelay = true\non_failure = \"closed\"\n\
         [limits.api]\nkey = \"api\"\nrate = \"1r/m\"\nburst = 1\nnodelay = true\non_failure = \"local\"\n\
         [limits.files]\nkey = \"files\"\nrate = \"1r/m\"\nburst = 1\nnodelay = true\n\
         [upstreams.main]\nurl = \"{}\"\n\
         [[routes]]\nname = \"login\"\npath = \"/login\"\nupstream = \"main\"\nlimits = [\"login\"]\n\
         [[routes]]\nname = \"api\"\npath = \"/api\"\nupstream = \"main\"\nlimits = [\"api\"]\n\
         [[routes]]\nname = \"files\"\npath = \"/files\"\nupstream = \"main\"\nlimits = [\"files\"]\n",
        redis.store(),
        backend.url()
    );
    let weir = Weir::start(&config).await;
    assert_eq!(weir.get("/api").await.status, 200);
    redis.kill();
    let mut statuses = Vec::new();
    for path in [
        "/login", "/files", "/files", "/files", "/api", "/api", "/api",
    ] {
        statuses.push(weir.get(path).await.status);
    }
    assert_eq!(statuses[..4], [503, 200, 200, 200]);
    // Two go in a minute, and one of them went before.
    let passed = statuses[4..]
        .iter()
        .filter(|status| **status == 200)
        .count();
    assert!(passed <= 2 && statuses[6] == 429, "{statuses:?}");
}

#[tokio::test]
async fn whoever_waits_keeps_its_order_when_redis_goes_and_when_it_comes_back() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"10r/s\"\nburst = 60", &backend, 1).await;
    let mut all = clients(&weirs[0], 50).await;
    for (number, client) in all.iter_mut().enumerate() {
        let request = Request::get(&format!("/{number}"));
        client.send(request.bytes()).await;
        weirs[0].has_admitted(&backend, number + 1).await;
    }
    let begun = Instant::now();
    redis.kill();
    tokio::time::sleep(ms(1_500)).await;
    redis.restart().await;
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    let wanted: Vec<_> = (0..50).map(|number| format!("/{number}")).collect();
    assert_eq!(backend.targets(), wanted);
    let left = Departures::to(&backend);
    assert!(left.most_in(ms(1_000)) <= 11, "{}", left.most_in(ms(1_000)));
    assert!(begun.elapsed() < ms(7_000), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn local_divides_rate_and_burst_by_the_instances_last_seen() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"2r/s\"\nburst = 9\nnodelay = true";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    redis.kill();
    let begun = Instant::now();
    let mut passed = 0;
    for weir in &weirs {
        let mut client = weir.client().await;
        for _ in 0..20 {
            passed += usize::from(client.get("/").await.status == 200);
        }
    }
    let slots = usize::try_from(begun.elapsed().as_secs() * 2).expect("few");
    // Each has a burst of 4 or 5.
    assert!((8..=12 + slots).contains(&passed), "{passed}");
}

/// How long each of these decisions took, one after the other.
async fn decisions(weir: &Weir, count: usize) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..count {
        let mut client = weir.client().await;
        let asked = Instant::now();
        let response = client.get("/").await;
        took.push(response.at - asked);
        tokio::time::sleep(ms(60)).await;
    }
    took
}

fn first_pays_alone(took: &[Duration], what: &str) -> Result<(), String> {
    let (first, later) = took.split_first().expect("decisions");
    let quick = *first < ms(450) && later.iter().all(|took| *took < ms(60));
    quick
        .then_some(())
        .ok_or_else(|| format!("{what}: {took:?}"))
}

#[tokio::test]
async fn the_first_decision_comes_in_time_and_later_ones_at_once() {
    for on_failure in ["local", "open", "closed"] {
        let keys = format!("timeout = \"300ms\"\non_failure = \"{on_failure}\"");
        let limit = "rate = \"1000r/s\"\nburst = 100\nnodelay = true";
        calmly(on_failure, async || {
            let redis = Redis::start().await;
            let backend = Backend::start();
            let way = Severing::before(redis.address());
            let url = format!("redis://{}", way.address());
            let config = sharing(&store(&url, &keys), limit, &backend, "a");
            for away in [Way::Severed, Way::Hung] {
                let weir = Weir::start(&config).await;
                weir.shows("weir_store_up", 1.0).await;
                way.set(away);
                let took = decisions(&weir, 20).await;
                way.set(Way::Open);
                first_pays_alone(&took, &format!("{away:?}"))?;
            }
            Ok(())
        })
        .await;
    }
}

#[tokio::test]
async fn an_instance_that_starts_without_redis_serves_all_the_same() {
    for (on_failure, status) in [("local", 200), ("open", 200), ("closed", 503)] {
        let keys = format!("timeout = \"300ms\"\non_failure = \"{on_failure}\"");
        let limit = "rate = \"1000r/s\"\nburst = 100\nnodelay = true";
        let (_kept, refused) = free_port();
        let (_socket, _queue, hung) = black_hole();
        for address in [refused, hung] {
            let backend = Backend::start();
            let store = store(&format!("redis://{address}"), &keys);
            let weir = Weir::start(&sharing(&store, limit, &backend, "a")).await;
            calmly(on_failure, async || {
                let took = decisions(&weir, 12).await;
                first_pays_alone(&took, &format!("{address}"))
            })
            .await;
            assert_eq!(weir.get("/").await.status, status, "{on_failure}");
            weir.shows("weir_store_up", 0.0).await;
        }
    }
}

#[tokio::test]
async fn a_line_drains_without_redis_though_nobody_else_comes() {
    let limit = "rate = \"10r/s\"\nburst = 20";
    let (_kept, refused) = free_port();
    let backend = Backend::start();
    let never = store(&format!("redis://{refused}"), "");
    let never = Weir::start(&sharing(&never, limit, &backend, "a")).await;
    let all = come(&never, 8, "never").await;
    let answers = responses(all).await;
    assert!(answers.iter().all(|response| response.status == 200));

    let mut redis = Redis::start().await;
    let weirs = instances(&redis.store(), limit, &backend, 1).await;
    assert_eq!(weirs[0].get("/before").await.status, 200);
    redis.kill();
    let all = come(&weirs[0], 8, "killed").await;
    let answers = responses(all).await;
    assert!(answers.iter().all(|response| response.status == 200));
    let left = Departures::to(&backend);
    assert!(left.most_in(ms(500)) <= 7, "{}", left.most_in(ms(500)));
}
