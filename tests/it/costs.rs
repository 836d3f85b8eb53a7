//! Does a request pay what it costs, in every algorithm, and get it back?

use serde_json::json;

use crate::harness::structured::{left, limits};
use crate::harness::{
    Backend, Departures, Redis, Request, Response, Weir, at_once, clients, instances, ms,
    one_limit, responses, together, upstream,
};

const TOKENS: &str = "algorithm = \"token_bucket\"\nrate = \"10r/m\"\ncapacity = 20";
const WINDOWS: [&str; 3] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
];

fn costing(cost: &str) -> Request {
    Request::get("/").with("X-Cost", cost)
}

async fn one_by_one(weir: &Weir, count: usize) -> Vec<Response> {
    let mut client = weir.client().await;
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(client.get("/").await);
    }
    all
}

fn passed(responses: &[Response]) -> usize {
    let of = |status| responses.iter().filter(|it| it.status == status).count();
    assert_eq!(of(200) + of(429), responses.len(), "{responses:?}");
    of(200)
}

#[tokio::test]
async fn several_tokens_a_request_let_so_many_fewer_pass() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(&format!("{TOKENS}\ncost = 3"), &backend)).await;
    let all = one_by_one(&weir, 8).await;
    assert_eq!(passed(&all), 6);
    assert_eq!(left(&all[0], "main"), 17);
    // Two are left, and the third comes six seconds after them.
    assert_eq!(left(&all[7], "main"), 2);
    assert_eq!(all[7].retry_after(), Some(6));
    weir.shows("weir_slots_total{limit=\"main\",fate=\"used\"}", 18.0)
        .await;
}

#[tokio::test]
async fn a_window_counts_what_requests_cost() {
    let cases = WINDOWS.map(|kind| async move {
        let backend = Backend::start();
        let limit = format!("algorithm = \"{kind}\"\nlimit = 5\nwindow = \"366d\"\ncost = 2");
        let weir = Weir::start(&one_limit(&limit, &backend)).await;
        let all = one_by_one(&weir, 4).await;
        assert_eq!(passed(&all), 2, "{kind}");
        assert_eq!(left(&all[3], "main"), 1, "{kind}");
    });
    together(cases).await;
}

#[tokio::test]
async fn a_header_says_what_a_request_costs_within_a_bound() {
    let backend = Backend::start();
    let cost = "cost = { header = \"X-Cost\", max = 15, default = 2 }";
    let weir = Weir::start(&one_limit(&format!("{TOKENS}\n{cost}"), &backend)).await;
    let mut client = weir.client().await;
    for (request, rest) in [
        (costing("15"), 5),
        (Request::get("/"), 3),
        (costing("1"), 2),
    ] {
        let answer = client.ask(&request).await;
        assert_eq!((answer.status, left(&answer, "main")), (200, rest));
    }
    let refused = client.ask(&costing("3")).await;
    assert_eq!((refused.status, left(&refused, "main")), (429, 2));
    // What it can't read it does not guess, and charges nobody for.
    for odd in ["0", "16", "-1", "1.5", "many", "1, 1"] {
        let answer = client.ask(&costing(odd)).await;
        assert_eq!(answer.status, 400, "{odd}");
        let problem = answer.json();
        assert_eq!(problem["status"], json!(400), "{odd}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(
            detail.contains("x-cost") && detail.contains("from 1 to 15"),
            "{problem}"
        );
    }
    weir.shows("weir_refused_total{limit=\"main\",reason=\"cost\"}", 6.0)
        .await;
    assert_eq!(left(&client.ask(&costing("2")).await, "main"), 0);
    assert_eq!(backend.seen().len(), 4);
}

#[tokio::test]
async fn in_a_line_a_request_goes_with_the_last_of_its_slots() {
    let backend = Backend::start();
    let limit = "rate = \"20r/s\"\nburst = 9\ncost = 5";
    let weir = Weir::start(&one_limit(limit, &backend)).await;
    let mut all = clients(&weir, 3).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    let responses = responses(all).await;
    assert_eq!(passed(&responses), 2);
    let mut waits: Vec<f64> = responses
        .iter()
        .filter_map(|it| it.header("server-timing")?.strip_prefix("queue;dur="))
        .filter_map(|millis| millis.parse().ok())
        .collect();
    waits.sort_by(f64::total_cmp);
    // Of slots every 50 ms these are the fifth and the tenth.
    assert!((195.0..300.0).contains(&waits[0]), "{waits:?}");
    assert!((445.0..550.0).contains(&waits[1]), "{waits:?}");
}

#[tokio::test]
async fn what_a_later_limit_refuses_costs_nothing() {
    let backend = Backend::start();
    let limits_of = format!(
        "[limits.main]\nkey = \"all\"\ncost = 4\n{TOKENS}\n\
         [limits.second]\nkey = \"all\"\nrate = \"1r/h\"\n{}",
        upstream("", "limits = [\"main\", \"second\"]", &backend)
    );
    let weir = Weir::start(&limits_of).await;
    let all = one_by_one(&weir, 9).await;
    assert_eq!(passed(&all), 1);
    assert!((16..=17).contains(&limits(&all[8])["main"]["r"]), "{all:?}");
}

#[tokio::test]
async fn instances_share_what_requests_cost() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = format!("{}\ncost = 3", TOKENS.replace("10r/m", "1r/h"));
    let weirs = instances(&redis.store(), &limit, &backend, 3).await;
    assert_eq!(passed(&at_once(&weirs, 24, "k").await), 6);
}

#[tokio::test]
async fn instances_share_a_line_in_which_requests_need_several_slots() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"50r/s\"\nburst = 60\ncost = 4";
    let weirs = instances(&redis.store(), limit, &backend, 3).await;
    let responses = at_once(&weirs, 20, "k").await;
    // 61 slots are for fifteen of them, with one to spare.
    assert_eq!(passed(&responses), 15);
    let left = Departures::to(&backend);
    // One leaves every 80 ms; two in any shorter span but for what is late.
    assert!(left.most_in(ms(150)) <= 3, "{left:?}");
    assert!(left.most_in(ms(400)) <= 6, "{left:?}");
}
