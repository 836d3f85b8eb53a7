//! For whom does a wait end before it begins?

use std::time::Instant;

use crate::harness::structured::{left, limits};
use crate::harness::{
    Backend, Client, Request, Weir, clients, ms, one_limit, responses, route, soon, together,
};

async fn refused(weir: &Weir, reason: &str) -> f64 {
    let series = format!("weir_refused_total{{limit=\"main\",reason=\"{reason}\"}}");
    weir.metric(&series).await
}

fn is(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() < 1e-9
}

#[tokio::test]
async fn a_client_that_prefers_not_to_wait_so_long_is_refused_on_arrival() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"20r/m\"\nburst = 9", &backend)).await;
    assert_eq!(weir.get("/").await.status, 200);
    let mut waiting = clients(&weir, 3).await;
    for client in &mut waiting {
        client.send(Request::get("/").bytes()).await;
    }
    weir.has_waiting(3).await;
    // The next turn is 12 s away.
    let prefer = |value: &str| Request::get("/").with("Prefer", value);
    for value in ["wait=2", "respond-async, wait=1", "wait=0"] {
        let response = weir.client().await.ask(&prefer(value)).await;
        assert_eq!(response.status, 429, "{value}");
        let retry_after = response.retry_after().expect("seconds");
        assert!((1..=12).contains(&retry_after), "{value}: {retry_after}");
    }
    assert!(is(refused(&weir, "max_wait").await, 3.0));
    for value in ["wait=60", "wait=soon", "respond-async"] {
        let mut client = weir.client().await;
        client.send(prefer(value).bytes()).await;
        assert!(client.is_silent_for(ms(30)).await, "{value}");
    }
    assert_eq!(backend.targets(), ["/"]);
}

#[tokio::test]
async fn nobody_waits_longer_than_max_wait_allows() {
    let backend = Backend::start();
    let limit = "rate = \"5r/s\"\nburst = 50\nmax_wait = \"500ms\"";
    let weir = Weir::start(&one_limit(limit, &backend)).await;
    let mut all = clients(&weir, 20).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    let responses = responses(all).await;
    let (served, turned_away): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|it| it.status == 200);
    assert_eq!((served.len(), turned_away.len()), (3, 17));
    assert!(turned_away.iter().all(|it| it.retry_after() == Some(1)));
    assert!(is(refused(&weir, "max_wait").await, 17.0));
    assert!(is(refused(&weir, "full").await, 0.0));
}

#[tokio::test]
async fn a_dry_run_refuses_and_delays_nobody_and_counts() {
    for (burst, reason, over) in [(0, "quota", 7.0), (3, "full", 4.0)] {
        let backend = Backend::start();
        let limit = format!("rate = \"1r/h\"\nburst = {burst}\ndry_run = true");
        let weir = Weir::start(&one_limit(&limit, &backend)).await;
        let mut client = weir.client().await;
        for _ in 0..8 {
            let response = client.get("/").await;
            assert_eq!(response.status, 200);
            for name in ["retry-after", "ratelimit", "server-timing"] {
                assert_eq!(response.header(name), None, "{name}");
            }
        }
        let metrics = weir.metrics().await;
        let would = format!("weir_would_refuse_total{{limit=\"main\",reason=\"{reason}\"}}");
        assert!(is(metrics.value(&would), over), "{}", metrics.value(&would));
        assert!(is(metrics.sum("weir_refused_total"), 0.0));
        assert!(is(metrics.sum("weir_would_refuse_total"), over));
        let passed = "weir_requests_total{route=\"main\",outcome=\"passed\"}";
        assert!(is(metrics.value(passed), 8.0));
    }
}

fn keyed(more: &str, backend: &Backend) -> String {
    format!(
        "[limits.main]\nkey = \"{{header.x-key}}\"\nrate = \"1r/h\"\n{more}\n{}",
        route("limits = [\"main\"]", backend)
    )
}

#[tokio::test]
async fn a_key_that_is_absent_empty_or_doubled_is_refused_and_counted() {
    let backend = Backend::start();
    let weir = Weir::start(&keyed("", &backend)).await;
    let odd = [
        Request::get("/absent"),
        Request::get("/empty").with("X-Key", ""),
        Request::get("/blank").with("X-Key", "   "),
        Request::get("/twice").with("X-Key", "a").with("X-Key", "a"),
        Request::get("/two").with("X-Key", "a").with("x-key", "b"),
    ];
    let mut client = weir.client().await;
    for request in &odd {
        let response = client.ask(request).await;
        assert_eq!(response.status, 400, "{request:?}");
        let problem = response.json();
        assert_eq!(problem["status"], 400, "{request:?}");
        assert_eq!(response.retry_after(), None, "{request:?}");
    }
    assert!(is(refused(&weir, "missing_key").await, 5.0));
    assert_eq!(backend.seen().len(), 0);
    // The refusals took nothing from the buckets `a` and `b`.
    for key in ["a", "b"] {
        let request = Request::get("/").with("X-Key", key);
        assert_eq!(client.ask(&request).await.status, 200, "{key}");
    }
}

#[tokio::test]
async fn a_missing_key_may_be_skipped() {
    let backend = Backend::start();
    let weir = Weir::start(&keyed("on_missing_key = \"skip\"", &backend)).await;
    let mut client = weir.client().await;
    for _ in 0..5 {
        let response = client.get("/").await;
        assert_eq!((response.status, response.header("ratelimit")), (200, None));
    }
    let keyed = Request::get("/").with("X-Key", "a");
    assert_eq!(client.ask(&keyed).await.status, 200);
    assert_eq!(client.ask(&keyed).await.status, 429);
    assert!(is(refused(&weir, "missing_key").await, 0.0));
}

#[tokio::test]
async fn a_limit_may_refuse_with_another_status() {
    let cases = [503, 418, 429];
    let cases = cases.map(|status| async move {
        let backend = Backend::start();
        let limit = format!("rate = \"1r/m\"\nstatus = {status}");
        let weir = Weir::start(&one_limit(&limit, &backend)).await;
        assert_eq!(weir.get("/").await.status, 200);
        let response = weir.get("/").await;
        assert_eq!(response.status, status);
        assert_eq!(response.retry_after(), Some(60));
        assert_eq!(response.json()["status"], status);
        let refused = "weir_requests_total{route=\"main\",outcome=\"refused\"}";
        weir.shows(refused, 1.0).await;
    });
    together(cases).await;
}

#[tokio::test]
async fn what_is_left_counts_down_and_comes_back() {
    let backend = Backend::start();
    let limit = "rate = \"20r/s\"\nburst = 4\nnodelay = true";
    let weir = Weir::start(&one_limit(limit, &backend)).await;
    let mut client = weir.client().await;
    let begun = Instant::now();
    let mut counts = Vec::new();
    for _ in 0..5 {
        counts.push(left(&client.get("/").await, "main"));
    }
    if begun.elapsed() < ms(50) {
        assert_eq!(counts, [4, 3, 2, 1, 0]);
    }
    let empty = client.get("/").await;
    assert!(empty.status == 429 || begun.elapsed() > ms(45));
    // Within 250 ms all is as if nobody had come.
    tokio::time::sleep(ms(260)).await;
    let full = client.get("/").await;
    assert_eq!((full.status, left(&full, "main")), (200, 4));
    assert_eq!(limits(&full)["main"]["t"], 1);
}

#[tokio::test]
async fn whoever_waits_hears_nothing_until_its_turn() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"5r/s\"\nburst = 1", &backend)).await;
    assert_eq!(weir.get("/").await.status, 200);
    let mut client: Client = weir.client().await;
    client.send(Request::get("/").bytes()).await;
    weir.has_waiting(1).await;
    assert!(client.is_silent_for(ms(40)).await);
    let response = soon("its turn", client.response()).await;
    assert_eq!(response.status, 200);
    weir.has_waiting(0).await;
}
