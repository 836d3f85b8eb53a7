//! What does one who is refused learn?

use std::time::Instant;

use crate::harness::structured::{left, limits, policies, proxy_error};
use crate::harness::{
    Answer, Backend, Request, Weir, calmly, clients, ms, one_limit, route, together,
};

const QUOTA: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

#[tokio::test]
async fn a_refusal_is_a_problem_that_names_the_limit() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/m\"", &backend)).await;
    let mut client = weir.client().await;
    assert_eq!(client.get("/").await.status, 200);
    let refused = client.get("/").await;
    assert_eq!(refused.status, 429);
    let type_ = refused.header("content-type");
    assert_eq!(type_, Some("application/problem+json"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert_eq!(refused.retry_after(), Some(60));
    assert_eq!(proxy_error(&refused), "http_request_denied");
    let problem = refused.json();
    assert_eq!(problem["type"], QUOTA);
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"], serde_json::json!(["main"]));
    assert!(problem["title"].as_str().is_some_and(|it| !it.is_empty()));
    assert_eq!(problem.get("upstream_may_have_seen"), None);
    // The connection goes on, and a HEAD gets the same without a body.
    let head = client.head("/").await;
    assert_eq!((head.status, head.body.len()), (429, 0));
    assert_eq!(client.get("/").await.status, 429);
}

/// A limit, how many it admits at once, and when there is room for one more.
const FULL: [(&str, usize, f64); 9] = [
    ("rate = \"1r/m\"", 1, 60.0),
    ("rate = \"7r/m\"", 1, 60.0 / 7.0),
    ("rate = \"0.5r/s\"", 1, 2.0),
    ("rate = \"1r/h\"", 1, 3_600.0),
    ("rate = \"1r/d\"", 1, 86_400.0),
    ("rate = \"5r/m\"\nburst = 1\nnodelay = true", 2, 12.0),
    ("rate = \"1r/m\"\nburst = 2", 3, 60.0),
    ("rate = \"1r/m\"\nburst = 2\nmax_wait = \"30s\"", 1, 30.0),
    (
        "rate = \"1r/m\"\nalgorithm = \"token_bucket\"\ncapacity = 3",
        3,
        60.0,
    ),
];

#[tokio::test]
async fn retry_after_is_the_ceiling_of_the_true_wait() {
    let cases = FULL.map(|(limit, fit, wait)| async move {
        let backend = Backend::start();
        let weir = Weir::start(&one_limit(limit, &backend)).await;
        let begun = Instant::now();
        let mut all = clients(&weir, fit).await;
        for client in &mut all {
            client.send(Request::get("/").bytes()).await;
        }
        weir.has_admitted(&backend, fit).await;
        let refused = weir.get("/").await;
        assert_eq!(refused.status, 429, "{limit}");
        let seconds = refused.retry_after().expect("seconds");
        let told = f64::from(u32::try_from(seconds).expect("a day at most"));
        let passed = (refused.at - begun).as_secs_f64();
        assert!(told <= wait.ceil(), "{limit}: {told}");
        assert!(told >= (wait - passed).ceil(), "{limit}: {told}");
        assert_eq!(left(&refused, "main"), 0, "{limit}");
        let reset = limits(&refused)["main"]["t"];
        assert_eq!(u64::try_from(reset), Ok(seconds), "{limit}");
    });
    together(cases).await;
}

#[tokio::test]
async fn coming_back_when_told_succeeds() {
    let cases = [
        ("rate = \"2r/s\"\nburst = 1\nnodelay = true", 2),
        ("rate = \"1r/s\"", 1),
        ("rate = \"1r/s\"\nburst = 1", 2),
    ];
    let cases = cases.map(|(limit, fit)| async move {
        calmly(limit, async || {
            let backend = Backend::start();
            let weir = Weir::start(&one_limit(limit, &backend)).await;
            let mut all = clients(&weir, fit).await;
            for client in &mut all {
                client.send(Request::get("/").bytes()).await;
            }
            weir.has_admitted(&backend, fit).await;
            let mut client = weir.client().await;
            let refused = client.get("/").await;
            if refused.status == 200 {
                return Err("its slot had come".to_owned());
            }
            assert_eq!(refused.retry_after(), Some(1), "{limit}");
            tokio::time::sleep_until((refused.at + ms(1_000)).into()).await;
            assert_eq!(client.get("/").await.status, 200, "{limit}");
            Ok(())
        })
        .await;
    });
    together(cases).await;
}

#[tokio::test]
async fn what_is_announced_counts_down_and_is_never_zero() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"20r/m\"", &backend)).await;
    let mut client = weir.client().await;
    assert_eq!(client.get("/").await.status, 200);
    let begun = Instant::now();
    let mut announced = Vec::new();
    while begun.elapsed() < ms(2_900) {
        let response = client.get("/").await;
        if response.status == 200 {
            break;
        }
        let seconds = response.retry_after().expect("seconds");
        assert_eq!(
            u64::try_from(limits(&response)["main"]["t"]),
            Ok(seconds),
            "both fields say the same"
        );
        announced.push(seconds);
        tokio::time::sleep(ms(450)).await;
    }
    assert!(
        announced.is_sorted_by(|one, next| one >= next),
        "{announced:?}"
    );
    assert!(
        announced.contains(&3) && announced.contains(&1),
        "{announced:?}"
    );
}

#[tokio::test]
async fn of_two_that_refuse_the_larger_wait_is_announced() {
    let backend = Backend::start();
    for order in ["[\"short\", \"long\"]", "[\"long\", \"short\"]"] {
        let config = format!(
            "[limits.short]\nkey = \"a\"\nrate = \"1r/m\"\n\
             [limits.long]\nkey = \"a\"\nrate = \"1r/h\"\n\
             [limits.dry]\nkey = \"a\"\nrate = \"1r/d\"\ndry_run = true\n{}",
            route(
                &format!("limits = {}", order.replace(']', ", \"dry\"]")),
                &backend
            )
        );
        let weir = Weir::start(&config).await;
        let mut client = weir.client().await;
        assert_eq!(client.get("/").await.status, 200);
        let refused = client.get("/").await;
        assert_eq!(refused.retry_after(), Some(3_600), "{order}");
        let mut violated: Vec<String> =
            serde_json::from_value(refused.json()["violated-policies"].clone()).expect("names");
        violated.sort();
        assert_eq!(violated, ["long", "short"], "{order}");
        let named: Vec<_> = limits(&refused).into_keys().collect();
        assert_eq!(named, ["long", "short"], "{order}");
    }
}

#[tokio::test]
async fn every_answer_says_what_its_limits_are() {
    let backend = Backend::start();
    let config = format!(
        "[limits.line]\nkey = \"a\"\nrate = \"10r/s\"\nburst = 20\n\
         [limits.tokens]\nalgorithm = \"token_bucket\"\nkey = \"a\"\nrate = \"5r/m\"\ncapacity = 6\n\
         [limits.plain]\nkey = \"b\"\nrate = \"1000r/s\"\n{}",
        route("limits = [\"tokens\", \"plain\", \"line\"]", &backend)
    );
    let weir = Weir::start(&config).await;
    let response = weir.get("/").await;
    assert_eq!(response.status, 200);
    let policies = policies(&response);
    let policy = |name: &str| (policies[name]["q"], policies[name]["w"]);
    assert_eq!(policy("line"), (20, 2));
    assert_eq!(policy("tokens"), (5, 60));
    assert_eq!(policy("plain"), (1_000, 1));
    let limits = limits(&response);
    assert_eq!(left(&response, "line"), 20);
    assert_eq!((left(&response, "tokens"), limits["tokens"]["t"]), (5, 12));
    assert_eq!(limits.len(), 3);
}

#[tokio::test]
async fn an_upstreams_own_fields_are_kept() {
    let backend = Backend::answering(|_| {
        let fields = [
            ("RateLimit", "\"theirs\";r=1;t=9"),
            ("RateLimit-Policy", "\"theirs\";q=2;w=9"),
            ("Server-Timing", "db;dur=5"),
        ];
        Answer::with("200 OK", &fields, "ok")
    });
    let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 9", &backend)).await;
    let mut client = weir.client().await;
    assert_eq!(client.get("/").await.status, 200);
    let response = client.get("/").await;
    assert_eq!(limits(&response)["theirs"]["r"], 1);
    assert_eq!(policies(&response)["theirs"]["q"], 2);
    assert!(limits(&response).contains_key("main"));
    let timings = response.headers("server-timing");
    assert!(timings.contains(&"db;dur=5"), "{timings:?}");
}

#[tokio::test]
async fn legacy_fields_are_the_tightest_limits() {
    let legacy = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    let backend = Backend::start();
    let config = format!(
        "[limits.wide]\nkey = \"a\"\nrate = \"100r/s\"\nburst = 50\nnodelay = true\n\
         [limits.tight]\nkey = \"a\"\nrate = \"3r/m\"\nburst = 2\nnodelay = true\n{}",
        route("limits = [\"wide\", \"tight\"]", &backend)
    );
    let weir = Weir::with("legacy_headers = true", &config).await;
    let mut client = weir.client().await;
    for remaining in ["2", "1", "0"] {
        let response = client.get("/").await;
        let [limit, left, reset] = legacy.map(|name| response.header(name).expect("a field"));
        assert_eq!((limit, left), ("2", remaining));
        assert!(reset.parse::<u32>().is_ok_and(|seconds| seconds > 0));
    }
    let refused = client.get("/").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("ratelimit-remaining"), Some("0"));
    assert_eq!(refused.header("ratelimit-reset"), Some("20"));
    let weir = Weir::start(&config).await;
    let response = weir.get("/").await;
    assert!(legacy.iter().all(|name| response.header(name).is_none()));
}
