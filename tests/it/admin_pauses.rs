//! What does a pause keep back, and what after it?

use std::time::Instant;

use serde_json::json;

use crate::harness::{Backend, Request, Weir, clients, keeps_pace, ms, one_limit, responses};

async fn ask(weir: &Weir, count: usize) -> Vec<crate::harness::Client> {
    let mut all = clients(weir, count).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    all
}

#[tokio::test]
async fn those_who_wait_go_at_the_rate_when_it_is_over() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 9", &backend)).await;
    let begun = Instant::now();
    let paused = weir.api("POST", "/api/limits/main/pause?for=1s").await;
    assert_eq!(paused.status, 200, "{}", paused.text());
    assert_eq!(paused.json()["paused"], json!(true));
    assert_eq!(paused.json()["shared"], json!(true));
    let until = paused.json()["paused_until"].as_str().map(str::len);
    assert_eq!(
        until,
        Some("2026-11-30T18:00:00Z".len()),
        "{}",
        paused.text()
    );
    let all = ask(&weir, 12).await;
    weir.has_waiting(10).await;
    assert!((weir.metric("weir_paused{limit=\"main\"}").await - 1.0).abs() < 1e-9);
    let responses = responses(all).await;
    let served = responses.iter().filter(|one| one.status == 200).count();
    let full = responses.iter().filter(|one| one.status == 429).count();
    assert_eq!((served, full), (10, 2));
    let arrivals = backend.arrivals(begun);
    assert!(arrivals[0] >= ms(990), "{arrivals:?}");
    keeps_pace(&arrivals, ms(50));
    weir.shows("weir_paused{limit=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn a_pause_ends_when_somebody_says_so() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 9", &backend)).await;
    assert_eq!(weir.api("POST", "/api/limits/main/pause").await.status, 200);
    let all = ask(&weir, 3).await;
    weir.has_waiting(3).await;
    let limit = weir.api("GET", "/api/limits/main").await.json();
    let left = limit["paused_for_seconds"].as_f64().expect("a number");
    assert!(left > 3_590.0 && left <= 3_600.0, "an hour: {left}");
    let resumed = weir.api("POST", "/api/limits/main/resume").await;
    assert_eq!(resumed.json()["paused"], json!(false));
    let begun = Instant::now();
    let responses = responses(all).await;
    assert!(responses.iter().all(|one| one.status == 200));
    assert!(begun.elapsed() < ms(1_000), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_limit_without_a_line_answers_when_to_come_back() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(
        "rate = \"20r/s\"\nburst = 9\nnodelay = true",
        &backend,
    ))
    .await;
    assert_eq!(
        weir.api("POST", "/api/limits/main/pause?for=90s")
            .await
            .status,
        200
    );
    let refused = weir.get("/").await;
    assert_eq!((refused.status, refused.problem_status()), (503, 503));
    assert_eq!(refused.retry_after(), Some(90));
    assert!(refused.text().contains("paused"), "{}", refused.text());
    weir.shows("weir_refused_total{limit=\"main\",reason=\"paused\"}", 1.0)
        .await;
    weir.api("POST", "/api/limits/main/resume").await;
    assert_eq!(weir.get("/").await.status, 200);
}

#[tokio::test]
async fn one_key_is_paused_and_others_go() {
    let backend = Backend::start();
    let config = one_limit("rate = \"20r/s\"\nburst = 9", &backend);
    let weir = Weir::start(&config.replace("\"all\"", "\"{query.k}\"")).await;
    let paused = weir
        .api("POST", "/api/limits/main/buckets/a%20b/pause")
        .await;
    assert_eq!(paused.status, 200, "{}", paused.text());
    let mut held = weir.client().await;
    held.send(Request::get("/?k=a+b").bytes()).await;
    weir.has_waiting(1).await;
    assert_eq!(weir.get("/?k=c").await.status, 200);
    weir.has_waiting(1).await;
    weir.api("POST", "/api/limits/main/buckets/a%20b/resume")
        .await;
    assert_eq!(held.response().await.status, 200);
}

#[tokio::test]
async fn who_was_admitted_for_less_is_ended_at_its_max_wait() {
    let backend = Backend::start();
    let limit = "rate = \"5r/s\"\nburst = 9\nmax_wait = \"1s\"";
    let weir = Weir::start(&one_limit(limit, &backend)).await;
    let all = ask(&weir, 3).await;
    weir.has_admitted(&backend, 3).await;
    weir.api("POST", "/api/limits/main/pause?for=1m").await;
    let refused = weir.get("/").await;
    assert_eq!(
        refused.status,
        429,
        "it can't come in time: {}",
        refused.text()
    );
    assert!(
        refused.retry_after() >= Some(58),
        "{:?}",
        refused.retry_after()
    );
    let ends = responses(all).await;
    let ended: Vec<_> = ends.iter().filter(|one| one.status == 503).collect();
    assert!(!ended.is_empty());
    for one in ended {
        assert!(one.text().contains("paused"), "{}", one.text());
        assert!(one.retry_after() >= Some(50), "{:?}", one.retry_after());
    }
    weir.has_waiting(0).await;
}
