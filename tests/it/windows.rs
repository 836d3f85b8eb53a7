//! Do limits that count in windows let pass what they say, and tell when there is room?

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::structured::{left, limits, policies};
use crate::harness::{
    Backend, Client, Request, Response, Weir, clients, ms, one_limit, responses, together, until,
    upstream,
};

const KINDS: [&str; 3] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
];
const RELOADED: &str = "weir_config_reloads_total{result=\"success\"}";

fn window(kind: &str, limit: u32, span: &str) -> String {
    format!("algorithm = \"{kind}\"\nlimit = {limit}\nwindow = \"{span}\"")
}

/// How many of these passed and were refused; nothing else became of any.
fn passed_and_refused(responses: &[Response]) -> (usize, usize) {
    let of = |status| responses.iter().filter(|it| it.status == status).count();
    assert_eq!(of(200) + of(429), responses.len(), "{responses:?}");
    (of(200), of(429))
}

async fn sent(weir: &Weir, count: usize) -> Vec<Client> {
    let mut all = clients(weir, count).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    all
}

fn utc() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "windows are aligned to it")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).expect("after 1970")
}

/// Not within so many seconds of midnight, when a window of a day ends.
async fn away_from_midnight(seconds: u64) {
    while utc().as_secs() % 86_400 > 86_400 - seconds {
        tokio::time::sleep(ms(500)).await;
    }
}

#[tokio::test]
async fn of_ten_in_parallel_exactly_five_pass_and_the_rest_hear_when() {
    away_from_midnight(20).await;
    let cases = KINDS.map(|kind| async move {
        let backend = Backend::start();
        let weir = Weir::with(
            "legacy_headers = true",
            &one_limit(&window(kind, 5, "1d"), &backend),
        )
        .await;
        let responses = responses(sent(&weir, 10).await).await;
        assert_eq!(passed_and_refused(&responses), (5, 5), "{kind}");
        assert_eq!(backend.seen().len(), 5, "{kind}");
        for response in &responses {
            let policy = &policies(response)["main"];
            assert_eq!((policy["q"], policy["w"]), (5, 86_400), "{kind}");
        }
        let refused = weir.get("/").await;
        let told = refused.retry_after().expect("seconds");
        let limits = limits(&refused);
        let reset = u64::try_from(limits["main"]["t"]).expect("seconds");
        assert_eq!((limits["main"]["r"], reset), (0, told), "{kind}");
        let numbers = ["limit", "remaining", "reset"].map(|name| {
            let field = refused.header(&format!("ratelimit-{name}"));
            field
                .and_then(|it| it.parse::<u64>().ok())
                .expect("a number")
        });
        assert_eq!(numbers, [5, 0, told], "{kind}");
        assert_eq!(refused.json()["violated-policies"], json!(["main"]));
        if kind == "fixed_window" {
            let midnight = 86_400 - utc().as_secs() % 86_400;
            assert!((midnight..=midnight + 1).contains(&told), "{told}");
        }
        let quota = "weir_refused_total{limit=\"main\",reason=\"quota\"}";
        weir.shows(quota, 6.0).await;
        assert_eq!(weir.get("/").await.status, 429, "{kind}");
    });
    together(cases).await;
}

#[tokio::test]
async fn whoever_comes_back_when_told_passes_and_no_second_earlier() {
    let cases = KINDS.map(|kind| async move {
        let backend = Backend::start();
        let weir = Weir::start(&one_limit(&window(kind, 2, "3s"), &backend)).await;
        let mut client = weir.client().await;
        let mut refused = client.get("/").await;
        while refused.status == 200 {
            refused = client.get("/").await;
        }
        let told = refused.retry_after().expect("seconds");
        assert!((1..=6).contains(&told), "{kind}: {told}");
        if told > 1 {
            let earlier = refused.at + Duration::from_secs(told - 1);
            tokio::time::sleep_until(earlier.into()).await;
            assert_eq!(client.get("/").await.status, 429, "{kind}: of {told}");
        }
        let when = refused.at + Duration::from_secs(told);
        tokio::time::sleep_until(when.into()).await;
        assert_eq!(client.get("/").await.status, 200, "{kind}: of {told}");
    });
    together(cases).await;
}

#[tokio::test]
async fn what_a_later_limit_refuses_and_who_leaves_gets_it_back() {
    away_from_midnight(20).await;
    let cases = KINDS.map(|kind| async move {
        let backend = Backend::start();
        let limits = format!(
            "[limits.main]\nkey = \"all\"\n{}\n\
             [limits.line]\nkey = \"all\"\nrate = \"1r/m\"\nburst = 1\n{}",
            window(kind, 5, "1d"),
            upstream("", "limits = [\"main\", \"line\"]", &backend)
        );
        let weir = Weir::start(&limits).await;
        assert_eq!(left(&weir.get("/").await, "main"), 4, "{kind}");
        let mut waits = weir.client().await;
        waits.send(Request::get("/").bytes()).await;
        let waiting = "weir_waiting{limit=\"line\"}";
        weir.shows(waiting, 1.0).await;
        for _ in 0..3 {
            let refused = weir.get("/").await;
            assert_eq!((refused.status, left(&refused, "main")), (429, 3), "{kind}");
        }
        waits.reset();
        weir.shows(waiting, 0.0).await;
        weir.rewrite("burst = 1", "burst = 0");
        weir.signal(Signal::HUP);
        weir.reaches(RELOADED, 1.0).await;
        assert_eq!(left(&weir.get("/").await, "main"), 4, "{kind}");
    });
    together(cases).await;
}

#[tokio::test]
async fn a_reload_keeps_what_was_counted_under_another_limit_and_window() {
    away_from_midnight(20).await;
    let cases = KINDS.map(|kind| async move {
        let backend = Backend::start();
        let weir = Weir::start(&one_limit(&window(kind, 3, "1d"), &backend)).await;
        let mut client = weir.client().await;
        for status in [200, 200, 200, 429] {
            assert_eq!(client.get("/").await.status, status, "{kind}");
        }
        weir.rewrite("limit = 3", "limit = 5");
        weir.signal(Signal::HUP);
        weir.reaches(RELOADED, 1.0).await;
        for status in [200, 200, 429] {
            assert_eq!(client.get("/").await.status, status, "{kind}");
        }
        weir.rewrite("window = \"1d\"", "window = \"2d\"");
        weir.signal(Signal::HUP);
        weir.reaches(RELOADED, 2.0).await;
        assert_eq!(client.get("/").await.status, 429, "{kind}");
        // From a window to a bucket, and back, nothing is taken along.
        weir.rewrite(
            &window(kind, 5, "2d"),
            "rate = \"1r/d\"\nburst = 1\nnodelay = true",
        );
        weir.signal(Signal::HUP);
        weir.reaches(RELOADED, 3.0).await;
        for status in [200, 200, 429] {
            assert_eq!(client.get("/").await.status, status, "{kind}");
        }
    });
    together(cases).await;
}

#[tokio::test]
async fn pauses_hold_through_another_algorithm() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"10r/s\"\nburst = 9", &backend)).await;
    let paused = weir.api("POST", "/api/limits/main/pause?for=1h").await;
    assert_eq!(paused.status, 200, "{paused:?}");
    weir.rewrite(
        "rate = \"10r/s\"\nburst = 9",
        &window("fixed_window", 5, "1h"),
    );
    weir.signal(Signal::HUP);
    weir.reaches(RELOADED, 1.0).await;
    let refused = weir.get("/").await;
    assert_eq!(refused.status, 503);
    assert!(refused.retry_after().is_some_and(|seconds| seconds > 3_000));
    weir.shows("weir_paused{limit=\"main\"}", 1.0).await;
    assert_eq!(
        weir.api("POST", "/api/limits/main/resume").await.status,
        200
    );
    assert_eq!(weir.get("/").await.status, 200);
}

#[tokio::test]
async fn people_see_a_window_as_it_was_written() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(&window("sliding_window_log", 4, "1h"), &backend)).await;
    assert_eq!(weir.get("/").await.status, 200);
    let limit = weir.api("GET", "/api/limits/main").await.json();
    for (name, value) in [
        ("algorithm", json!("sliding_window_log")),
        ("rate", json!("4 per 1h")),
        ("limit", json!(4)),
        ("window_seconds", json!(3_600.0)),
        ("admitted", json!(1)),
        ("buckets", json!(1)),
    ] {
        assert_eq!(limit[name], value, "{name}: {limit}");
    }
    let deepest = weir.api("GET", "/api/limits/main/buckets").await.json();
    assert_eq!(deepest["total"], json!(1), "{deepest}");
    let page = weir.page("/").await;
    assert!(page.text().contains("4 per 1h"), "{}", page.text());
    until("a fourth is taken", async || {
        let fullness = weir.metric("weir_fullness_ratio{limit=\"main\"}").await;
        ((fullness - 0.25).abs() < 1e-9)
            .then_some(())
            .ok_or_else(|| fullness.to_string())
    })
    .await;
    for (series, value) in [
        ("weir_rate{limit=\"main\"}", 4.0 / 3_600.0),
        ("weir_burst{limit=\"main\"}", 3.0),
    ] {
        assert!((weir.metric(series).await - value).abs() < 1e-9, "{series}");
    }
}
