//! Have some keys, and tiers of them, a rule of their own?

use crate::harness::structured::{left, policies};
use crate::harness::{
    Backend, Redis, Request, Response, Weir, clients, know_each_other, responses, together,
    upstream,
};

/// Each algorithm with a limit of two, what makes five and eight of it, and `q` of both
/// two and five.
const ALGORITHMS: [(&str, [&str; 2], [i64; 2]); 5] = [
    (
        "rate = \"1r/h\"\nburst = 1\nnodelay = true",
        ["burst = 4", "burst = 7"],
        [1, 4],
    ),
    (
        "algorithm = \"token_bucket\"\nrate = \"1r/h\"\ncapacity = 2",
        ["capacity = 5", "capacity = 8"],
        [1, 4],
    ),
    (
        "algorithm = \"fixed_window\"\nlimit = 2\nwindow = \"366d\"",
        ["limit = 5", "limit = 8"],
        [2, 5],
    ),
    (
        "algorithm = \"sliding_window_log\"\nlimit = 2\nwindow = \"1d\"",
        ["limit = 5", "limit = 8"],
        [2, 5],
    ),
    (
        "algorithm = \"sliding_window_counter\"\nlimit = 2\nwindow = \"366d\"",
        ["limit = 5", "limit = 8"],
        [2, 5],
    ),
];

const RELOADS: &str = "weir_config_reloads_total{result=\"success\"}";

const BY_PLAN: &str = "overrides_by = \"{header.x-plan}\"";

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
    let cases = ALGORITHMS.map(|(limit, [five, _], quotas)| async move {
        let backend = Backend::start();
        let overrides = format!("[limits.api.overrides]\n\"gold-123\" = {{ {five} }}");
        let weirs = [Weir::start(&by_user(limit, &overrides, &backend)).await];
        assert_eq!(passes(&weirs, &from("gold-123", "")).await, 5, "{limit}");
        assert_eq!(passes(&weirs, &from("other", "")).await, 2, "{limit}");
        let gold = weirs[0].client().await.ask(&from("gold-123", "")).await;
        let other = weirs[0].client().await.ask(&from("new", "")).await;
        let said = [other, gold].map(|answer| policies(&answer)["api"]["q"]);
        assert_eq!(said, quotas, "{limit}");
    });
    together(cases).await;
}

#[tokio::test]
async fn instances_agree_on_a_key_of_its_own() {
    let cases = ALGORITHMS.map(|(limit, [five, _], _)| async move {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let overrides = format!("[limits.api.overrides]\ngold = {{ {five} }}");
        let weirs = two(&redis, &by_user(limit, &overrides, &backend)).await;
        assert_eq!(passes(&weirs, &from("gold", "")).await, 5, "{limit}");
        assert_eq!(passes(&weirs, &from("other", "")).await, 2, "{limit}");
    });
    together(cases).await;
}

#[tokio::test]
async fn instances_agree_on_tiers() {
    let cases = ALGORITHMS.map(|(limit, [five, _], _)| async move {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let overrides = format!("{BY_PLAN}\n[limits.api.overrides]\ngold = {{ {five} }}");
        let weirs = two(&redis, &by_user(limit, &overrides, &backend)).await;
        assert_eq!(passes(&weirs, &from("a", "gold")).await, 5, "{limit}");
        // Each tier of a user is counted by itself.
        assert_eq!(passes(&weirs, &from("a", "")).await, 2, "{limit}");
        assert_eq!(passes(&weirs, &from("b", "tin")).await, 2, "{limit}");
    });
    together(cases).await;
}

/// Two instances that share their limits.
async fn two(redis: &Redis, config: &str) -> [Weir; 2] {
    let config = format!("{}{config}", redis.store());
    let weirs = [Weir::start(&config).await, Weir::start(&config).await];
    know_each_other(&weirs).await;
    weirs
}

/// What a reload makes of a tier whose requests have all passed.
async fn reloaded(store: &str, (limit, [five, eight], _): (&str, [&str; 2], [i64; 2])) {
    let backend = Backend::start();
    let overrides = format!("{BY_PLAN}\n[limits.api.overrides]\ngold = {{ {five} }}");
    let config = format!("{store}{}", by_user(limit, &overrides, &backend));
    let weirs = [Weir::start(&config).await];
    assert_eq!(passes(&weirs, &from("a", "gold")).await, 5, "{limit}");
    assert_eq!(passes(&weirs, &from("a", "")).await, 2, "{limit}");
    weirs[0].rewrite(five, eight);
    weirs[0].reaches(RELOADS, 1.0).await;
    // A larger window has room at once; a larger bucket that is empty fills at its rate.
    let more = if limit.contains("window") { 3 } else { 0 };
    assert_eq!(passes(&weirs, &from("a", "gold")).await, more, "{limit}");
    assert_eq!(passes(&weirs, &from("b", "gold")).await, 8, "{limit}");
    assert_eq!(passes(&weirs, &from("a", "")).await, 0, "{limit}");
    assert_eq!(passes(&weirs, &from("b", "")).await, 2, "{limit}");
}

#[tokio::test]
async fn a_reload_changes_it_for_a_bucket_in_use() {
    together(ALGORITHMS.map(|algorithm| reloaded("", algorithm))).await;
}

#[tokio::test]
async fn a_reload_changes_it_for_a_bucket_that_redis_keeps() {
    let cases = ALGORITHMS.map(|algorithm| async move {
        let redis = Redis::start().await;
        reloaded(&redis.store(), algorithm).await;
    });
    together(cases).await;
}

const LINE: (&str, &str) = (
    "rate = \"1r/h\"",
    "[limits.api.overrides]\ngold = { rate = \"50r/s\", burst = 4 }",
);

/// Eight of a key with a line of four come at once, to these instances in turn.
async fn eight_in_line(weirs: &[Weir], backend: &Backend) {
    let mut all = Vec::new();
    for weir in weirs {
        all.extend(clients(weir, 8 / weirs.len()).await);
    }
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
async fn a_line_of_its_own_is_as_long_and_as_fast_as_its_rule_says() {
    let backend = Backend::start();
    let weir = Weir::start(&by_user(LINE.0, LINE.1, &backend)).await;
    eight_in_line(&[weir], &backend).await;
}

#[tokio::test]
async fn instances_share_a_line_of_its_own() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = two(&redis, &by_user(LINE.0, LINE.1, &backend)).await;
    eight_in_line(&weirs, &backend).await;
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
    let overrides = format!("{BY_PLAN}\n[limits.api.overrides]\ngold = {{ burst = 5 }}");
    let weir = Weir::start(&by_user("rate = \"1r/h\"", &overrides, &backend)).await;
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
