//! Have some keys, and tiers of them, a rule of their own?

use crate::harness::structured::{left, policies};
use crate::harness::{
    Backend, Redis, Request, Response, Weir, clients, know_each_other, responses, together,
    upstream,
};

/// Each algorithm with a limit of two, and what makes five of it.
const ALGORITHMS: [(&str, &str); 5] = [
    ("rate = \"1r/h\"\nburst = 1\nnodelay = true", "burst = 4"),
    (
        "algorithm = \"token_bucket\"\nrate = \"1r/h\"\ncapacity = 2",
        "capacity = 5",
    ),
    (
        "algorithm = \"fixed_window\"\nlimit = 2\nwindow = \"366d\"",
        "limit = 5",
    ),
    (
        "algorithm = \"sliding_window_log\"\nlimit = 2\nwindow = \"1d\"",
        "limit = 5",
    ),
    (
        "algorithm = \"sliding_window_counter\"\nlimit = 2\nwindow = \"366d\"",
        "limit = 5",
    ),
];

const RELOADS: &str = "weir_config_reloads_total{result=\"success\"}";

fn by_user(limit: &str, overrides: &str, backend: &Backend) -> String {
    format!(
        "[limits.api]\nkey = \"{{header.x-user}}\"\n{limit}\n{overrides}\n{}",
        upstream("", "limits = [\"api\"]", backend)
    )
}

fn from(user: &str, plan: &str) -> Request {
    let request = Request::get("/").with("X-User", user);
    if plan.is_empty() {
        request
    } else {
        request.with("X-Plan", plan)
    }
}

/// How many of nine pass that come one after the other, to these instances in turn.
async fn passes(weirs: &[Weir], request: &Request) -> usize {
    let mut passed = 0;
    for weir in weirs.iter().cycle().take(9) {
        let answer = weir.client().await.ask(request).await;
        assert!([200, 429].contains(&answer.status), "{answer:?}");
        passed += usize::from(answer.status == 200);
    }
    passed
}

#[tokio::test]
async fn a_key_has_a_rule_of_its_own_in_every_algorithm() {
    let cases = ALGORITHMS.map(|(limit, more)| async move {
        let backend = Backend::start();
        let overrides = format!("[limits.api.overrides]\n\"gold-123\" = {{ {more} }}");
        let weirs = [Weir::start(&by_user(limit, &overrides, &backend)).await];
        assert_eq!(passes(&weirs, &from("gold-123", "")).await, 5, "{limit}");
        assert_eq!(passes(&weirs, &from("other", "")).await, 2, "{limit}");
        let answer = weirs[0].client().await.ask(&from("gold-123", "")).await;
        let [gold, other] = [answer, weirs[0].client().await.ask(&from("new", "")).await]
            .map(|answer| policies(&answer)["api"]["q"]);
        assert!(gold > other, "{limit}: {gold} and {other}");
    });
    together(cases).await;
}

#[tokio::test]
async fn instances_agree_on_it() {
    for (limit, more) in ALGORITHMS {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let overrides = format!(
            "overrides_by = \"{{header.x-plan}}\"\n[limits.api.overrides]\ngold = {{ {more} }}"
        );
        let config = format!("{}{}", redis.store(), by_user(limit, &overrides, &backend));
        let weirs = [Weir::start(&config).await, Weir::start(&config).await];
        know_each_other(&weirs).await;
        assert_eq!(passes(&weirs, &from("a", "gold")).await, 5, "{limit}");
        // Each tier of a user is counted by itself.
        assert_eq!(passes(&weirs, &from("a", "")).await, 2, "{limit}");
        assert_eq!(passes(&weirs, &from("b", "tin")).await, 2, "{limit}");
    }
}

#[tokio::test]
async fn a_line_of_its_own_is_as_long_and_as_fast_as_its_rule_says() {
    let backend = Backend::start();
    let limit = "rate = \"1r/h\"";
    let overrides = "[limits.api.overrides]\ngold = { rate = \"50r/s\", burst = 4 }";
    let weir = Weir::start(&by_user(limit, overrides, &backend)).await;
    let mut all = clients(&weir, 8).await;
    for client in &mut all {
        client.send(from("gold", "").bytes()).await;
    }
    let answers = responses(all).await;
    let passed: Vec<&Response> = answers.iter().filter(|it| it.status == 200).collect();
    assert_eq!(passed.len(), 5);
    let waited = passed
        .iter()
        .filter(|it| it.header("server-timing").is_some());
    assert_eq!(waited.count(), 4);
    assert_eq!(backend.seen().len(), 5);
}

#[tokio::test]
async fn a_reload_changes_it_for_those_who_wait() {
    let backend = Backend::start();
    let limit = "rate = \"1r/h\"\nburst = 9";
    let overrides = |rate: &str| format!("[limits.api.overrides]\ngold = {{ rate = \"{rate}\" }}");
    let weir = Weir::start(&by_user(limit, &overrides("1r/d"), &backend)).await;
    let mut all = clients(&weir, 4).await;
    for client in &mut all {
        client.send(from("gold", "").bytes()).await;
    }
    weir.shows("weir_waiting{limit=\"api\"}", 3.0).await;
    weir.rewrite("1r/d", "50r/s");
    let answers = responses(all).await;
    assert!(answers.iter().all(|it| it.status == 200), "{answers:?}");
    // Those who waited were served at 50r/s, so that reload is over: this is the next.
    let before = weir.metric(RELOADS).await;
    weir.rewrite(&overrides("50r/s"), "");
    weir.reaches(RELOADS, before + 1.0).await;
    let gold = weir.client().await.ask(&from("gold", "")).await;
    assert_eq!(policies(&gold)["api"]["q"], 9);
}

#[tokio::test]
async fn the_admin_api_finds_a_key_in_its_tier() {
    let backend = Backend::start();
    let overrides =
        "overrides_by = \"{header.x-plan}\"\n[limits.api.overrides]\ngold = { burst = 5 }";
    let weir = Weir::start(&by_user("rate = \"1r/h\"", overrides, &backend)).await;
    let mut waits = weir.client().await;
    let passed = waits.ask(&from("alice", "gold")).await;
    assert_eq!((passed.status, left(&passed, "api")), (200, 5));
    waits.send(from("alice", "gold").bytes()).await;
    weir.shows("weir_waiting{limit=\"api\"}", 1.0).await;
    let purged = weir
        .api("DELETE", "/api/limits/api/buckets/alice/line")
        .await;
    assert_eq!(purged.status, 200, "{}", purged.text());
    assert_eq!(waits.response().await.status, 503);
}
