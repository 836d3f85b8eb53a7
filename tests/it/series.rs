//! Which metrics are there, from the start?

use std::collections::BTreeSet;

use rustix::process::Signal;

use crate::harness::{Answer, Backend, Request, Weir, clients, ms, responses, upstream};

fn config(backend: &Backend) -> String {
    format!(
        "[limits.main]\nkey = \"all\"\nrate = \"30r/s\"\nburst = 3\n\
         [limits.dry]\nkey = \"all\"\nrate = \"0.5r/s\"\ndry_run = true\n{}",
        upstream(
            "timeout = \"300ms\"",
            "limits = [\"dry\", \"main\"]",
            backend
        )
    )
}

const REASONS: [&str; 9] = [
    "full",
    "max_wait",
    "quota",
    "missing_key",
    "paused",
    "purged",
    "store",
    "draining",
    "keys",
];
const OUTCOMES: [&str; 6] = ["passed", "delayed", "refused", "left", "failed", "shed"];
const WAITS: &str = "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 120 +Inf";
const LATENESS: &str = "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.05 +Inf";
const ANSWERS: &str = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 +Inf";

fn promised() -> BTreeSet<String> {
    let mut series = BTreeSet::new();
    let mut add = |name: String| assert!(series.insert(name));
    for route in ["main", "none"] {
        for outcome in OUTCOMES {
            add(format!(
                "weir_requests_total{{route=\"{route}\",outcome=\"{outcome}\"}}"
            ));
        }
        add(format!("weir_bodies_refused_total{{route=\"{route}\"}}"));
        for class in 1..=5 {
            let labels = format!("route=\"{route}\",code=\"{class}xx\"");
            for bound in ANSWERS.split(' ') {
                add(format!(
                    "weir_request_seconds_bucket{{{labels},le=\"{bound}\"}}"
                ));
            }
        }
    }
    for limit in ["main", "dry"] {
        for reason in REASONS {
            for name in ["refused_total", "would_refuse_total"] {
                add(format!(
                    "weir_{name}{{limit=\"{limit}\",reason=\"{reason}\"}}"
                ));
            }
        }
        for fate in ["used", "missed", "spare"] {
            add(format!(
                "weir_slots_total{{limit=\"{limit}\",fate=\"{fate}\"}}"
            ));
        }
        for gauge in [
            "waiting",
            "line_length",
            "oldest_wait_seconds",
            "paused",
            "buckets",
            "fullness_ratio",
            "rate",
            "burst",
        ] {
            add(format!("weir_{gauge}{{limit=\"{limit}\"}}"));
        }
        for bound in WAITS.split(' ') {
            add(format!(
                "weir_wait_seconds_bucket{{limit=\"{limit}\",le=\"{bound}\"}}"
            ));
        }
        for bound in LATENESS.split(' ') {
            add(format!(
                "weir_slot_lateness_seconds_bucket{{limit=\"{limit}\",le=\"{bound}\"}}"
            ));
        }
    }
    for class in 1..=5 {
        for bound in ANSWERS.split(' ') {
            add(format!(
                "weir_upstream_seconds_bucket{{upstream=\"main\",code=\"{class}xx\",le=\"{bound}\"}}"
            ));
        }
    }
    for kind in ["connect", "timeout", "broken", "health"] {
        add(format!(
            "weir_upstream_errors_total{{upstream=\"main\",kind=\"{kind}\"}}"
        ));
    }
    for gauge in ["in_flight", "max_in_flight", "upstream_up"] {
        add(format!("weir_{gauge}{{upstream=\"main\"}}"));
    }
    series
}

#[tokio::test]
async fn every_series_that_is_promised_is_there_from_the_start() {
    let backend = Backend::start();
    let weir = Weir::start(&config(&backend)).await;
    let metrics = weir.metrics().await;
    let there: BTreeSet<_> = metrics.names().into_iter().map(str::to_owned).collect();
    let missing: Vec<_> = promised().difference(&there).cloned().collect();
    assert!(missing.is_empty(), "{missing:#?}");
    for name in ["weir_instances", "weir_store_up", "weir_store_degraded"] {
        assert!(there.contains(name), "{name}");
    }
    let build = there.iter().find(|it| it.starts_with("weir_build_info{"));
    let build = build.expect("weir_build_info");
    assert!(build.contains("version=") && build.contains("revision="));
    for (name, kind) in [
        ("weir_requests_total", "counter"),
        ("weir_waiting", "gauge"),
        ("weir_wait_seconds", "histogram"),
        ("weir_request_seconds", "histogram"),
    ] {
        assert_eq!(metrics.kind(name), Some(kind), "{name}");
    }
    assert!((metrics.value("weir_rate{limit=\"main\"}") - 30.0).abs() < 1e-9);
    assert!((metrics.value("weir_rate{limit=\"dry\"}") - 0.5).abs() < 1e-9);
    assert!((metrics.value("weir_burst{limit=\"main\"}") - 3.0).abs() < 1e-9);
}

#[tokio::test]
async fn no_request_adds_a_series() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/broken" => Answer::nothing().read().close(),
        "/late" => Answer::never(),
        _ => Answer::ok(),
    });
    let weir = Weir::start(&config(&backend)).await;
    let names = |metrics: &crate::harness::Metrics| {
        let names = metrics.names().into_iter().map(str::to_owned);
        names.collect::<BTreeSet<_>>()
    };
    let before = names(&weir.metrics().await);
    let mut all = clients(&weir, 30).await;
    for (index, client) in all.iter_mut().enumerate() {
        let target = ["/broken", "/late", "/a\"b\\", "/ok", "/../x"][index % 5];
        let request = Request::new(["GET", "ODD"][index % 2], target);
        client.send(request.bytes()).await;
    }
    responses(all).await;
    let after = names(&weir.metrics().await);
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.is_empty(), "{new:?}");
}

#[tokio::test]
async fn what_is_counted_adds_up() {
    let backend = Backend::start();
    let weir = Weir::start(&config(&backend)).await;
    let mut all = clients(&weir, 8).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    let responses = responses(all).await;
    let served = responses.iter().filter(|it| it.status == 200).count();
    let served = f64::from(u32::try_from(served).expect("few"));
    let refused = 8.0 - served;
    let waited = responses
        .iter()
        .filter(|it| it.header("server-timing").is_some());
    let waited = f64::from(u32::try_from(waited.count()).expect("few"));
    weir.shows(
        "weir_requests_total{route=\"main\",outcome=\"delayed\"}",
        waited,
    )
    .await;
    let metrics = weir.metrics().await;
    for (series, value) in [
        (
            "weir_requests_total{route=\"main\",outcome=\"passed\"}",
            served - waited,
        ),
        (
            "weir_requests_total{route=\"main\",outcome=\"refused\"}",
            refused,
        ),
        (
            "weir_refused_total{limit=\"main\",reason=\"full\"}",
            refused,
        ),
        ("weir_slots_total{limit=\"main\",fate=\"used\"}", served),
        ("weir_slots_total{limit=\"main\",fate=\"spare\"}", 0.0),
        ("weir_wait_seconds_count{limit=\"main\"}", served),
        (
            "weir_request_seconds_count{route=\"main\",code=\"2xx\"}",
            served,
        ),
        (
            "weir_request_seconds_count{route=\"main\",code=\"4xx\"}",
            refused,
        ),
        (
            "weir_upstream_seconds_count{upstream=\"main\",code=\"2xx\"}",
            served,
        ),
        ("weir_waiting{limit=\"main\"}", 0.0),
        ("weir_in_flight{upstream=\"main\"}", 0.0),
    ] {
        let counted = metrics.value(series);
        assert!(
            (counted - value).abs() < 1e-9,
            "{series}: {counted}, not {value}"
        );
    }
}

#[tokio::test]
async fn a_limit_says_how_full_its_fullest_bucket_is() {
    let backend = Backend::start();
    let weir = Weir::start(&format!(
        "[limits.line]\nkey = \"{{query.key}}\"\nrate = \"1r/h\"\nburst = 3\n\
         [limits.quota]\nkey = \"all\"\nrate = \"1r/h\"\nburst = 7\nnodelay = true\n{}",
        upstream(
            "max_in_flight = 5",
            "limits = [\"quota\", \"line\"]",
            &backend
        )
    ))
    .await;
    let fullness = async |limit: &str| {
        let series = format!("weir_fullness_ratio{{limit=\"{limit}\"}}");
        weir.metric(&series).await
    };
    assert!(fullness("line").await.abs() < 1e-9, "nobody came");
    assert_eq!(weir.get("/?key=a").await.status, 200);
    assert_eq!(weir.get("/?key=b").await.status, 200);
    let mut waiting = weir.client().await;
    waiting.send(Request::get("/?key=b").bytes()).await;
    weir.shows("weir_waiting{limit=\"line\"}", 1.0).await;
    assert!((fullness("line").await - 0.5).abs() < 1e-9, "b has 2 of 4");
    assert!((fullness("quota").await - 3.0 / 8.0).abs() < 1e-9);
    let bound = weir.metric("weir_max_in_flight{upstream=\"main\"}").await;
    assert!((bound - 5.0).abs() < 1e-9);
}

#[tokio::test]
async fn a_limit_that_is_gone_is_not_full_for_ever() {
    let backend = Backend::start();
    let weir = Weir::start(&format!(
        "[limits.gone]\nkey = \"all\"\nrate = \"1r/h\"\nburst = 1\nnodelay = true\n{}",
        upstream("", "limits = [\"gone\"]", &backend)
    ))
    .await;
    for _ in 0..2 {
        assert_eq!(weir.get("/").await.status, 200);
    }
    let fullness = "weir_fullness_ratio{limit=\"gone\"}";
    weir.shows(fullness, 1.0).await;
    weir.shows("weir_buckets{limit=\"gone\"}", 1.0).await;
    weir.rewrite("limits = [\"gone\"]", "");
    weir.rewrite("[limits.gone]", "[limits.other]");
    weir.signal(Signal::HUP);
    weir.reaches("weir_config_reloads_total{result=\"success\"}", 1.0)
        .await;
    weir.shows(fullness, 0.0).await;
    weir.shows("weir_buckets{limit=\"gone\"}", 0.0).await;
}

#[tokio::test]
async fn a_request_that_waits_for_its_upstream_has_waited_once() {
    let backend = Backend::answering(|_| Answer::ok().after(ms(50)));
    let weir = Weir::start(&format!(
        "[limits.main]\nkey = \"all\"\nrate = \"200r/s\"\nburst = 9\n{}",
        upstream("max_in_flight = 1", "limits = [\"main\"]", &backend)
    ))
    .await;
    let mut all = clients(&weir, 5).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    let served = responses(all).await;
    assert!(served.iter().all(|response| response.status == 200));
    weir.shows("weir_slots_total{limit=\"main\",fate=\"used\"}", 5.0)
        .await;
    let waited = weir.metric("weir_wait_seconds_count{limit=\"main\"}").await;
    assert!((waited - 5.0).abs() < 1e-9, "{waited} waits of 5 requests");
}
