//! Do dashboards and alerts speak of what weir exports, and of all of it?

mod page;
mod query;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Backend, Redis, Weir, upstream};
use page::{Page, pages};
use rules::{Alert, Rules};

type Labels = BTreeSet<String>;

/// What Prometheus adds of its own, with the labels that matter here.
const OF_PROMETHEUS: &[(&str, &[&str])] = &[
    ("up", &[]),
    (
        "ALERTS",
        &[
            "alertname",
            "alertstate",
            "severity",
            "limit",
            "route",
            "upstream",
        ],
    ),
];

/// What no panel asks for by name, and why that is right.
const UNSHOWN: &[(&str, &str, &str)] = &[
    (
        "weir_store_call_seconds",
        "script",
        "the panel is about the way to Redis; which script runs matters where calls fail",
    ),
    (
        "weir_config_reloads_total",
        "result",
        "failures are counted; that a config was loaded is a mark on every panel",
    ),
];

/// Ranges that are not Grafana's: a failed reload must not vanish with the next step.
const FIXED_RANGES: &[&str] = &["[10m]"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana")
}

/// The page of a weir that has everything.
async fn everything() -> String {
    let (redis, backend) = (Redis::start().await, Backend::start());
    let weir = Weir::start(&format!(
        "[store]\nkind = \"redis\"\nurl = \"{}\"\n\
         [limits.main]\nkey = \"all\"\nrate = \"10r/s\"\nburst = 5\n{}",
        redis.url(),
        upstream("max_in_flight = 5", "limits = [\"main\"]", &backend)
    ))
    .await;
    assert_eq!(weir.get("/").await.status, 200);
    weir.page("/metrics").await.text().to_owned()
}

/// All metrics, each with its labels.
async fn exported() -> BTreeMap<String, Labels> {
    let page = everything().await;
    let mut all = BTreeMap::<String, Labels>::new();
    let samples = page
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for series in samples.filter_map(|line| line.rsplit_once(' ')) {
        let (name, labels) = series.0.split_once('{').unwrap_or((series.0, ""));
        let labels = labels.split("\",").filter_map(|it| it.split_once("=\""));
        let entry = all.entry(name.to_owned()).or_default();
        entry.extend(labels.map(|(label, _)| label.to_owned()));
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

/// The metric that a series of a histogram belongs to.
fn bare(name: &str) -> &str {
    ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|part| name.strip_suffix(part))
        .unwrap_or(name)
}

/// What a query may name: the exported, what Prometheus adds, what rules record.
fn known(exported: &BTreeMap<String, Labels>, rules: &Rules) -> BTreeMap<String, Labels> {
    let mut known = exported.clone();
    for (name, labels) in OF_PROMETHEUS {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        known.insert((*name).to_owned(), labels);
    }
    for (name, query) in &rules.records {
        known.insert(name.clone(), query.labels());
    }
    for labels in known.values_mut() {
        labels.extend(["job", "instance"].map(str::to_owned));
    }
    known
}

#[tokio::test]
async fn every_query_names_what_weir_exports() {
    let rules = Rules::read(&folder());
    let known = known(&exported().await, &rules);
    let of_pages = pages(&folder()).into_iter().flat_map(|page| {
        let name = page.uid.clone();
        page.queries()
            .map(move |query| (name.clone(), query.clone()))
            .collect::<Vec<_>>()
    });
    let of_rules = rules
        .queries()
        .map(|(name, query)| (name.to_owned(), query.clone()));
    let mut count = 0;
    for (place, query) in of_pages.chain(of_rules) {
        count += 1;
        let faults = query.faults(&known);
        assert!(faults.is_empty(), "{place}: {}\n{faults:#?}", query.text);
    }
    assert!(count > 100, "the queries were found, not {count}");
}

#[tokio::test]
async fn a_panel_shows_every_metric_and_label() {
    let exported = exported().await;
    let mut shown = BTreeMap::<String, Labels>::new();
    for query in pages(&folder()).iter().flat_map(Page::panel_queries) {
        for (name, labels) in query.shows() {
            shown
                .entry(bare(&name).to_owned())
                .or_default()
                .extend(labels);
        }
    }
    for (name, labels) in &exported {
        let name = bare(name);
        let there = shown.get(name);
        assert!(there.is_some(), "no panel shows {name}");
        for label in labels.iter().filter(|label| *label != "le") {
            let excused = UNSHOWN.iter().any(|it| (it.0, it.1) == (name, label));
            let there = there.is_some_and(|it| it.contains(label));
            assert!(there != excused, "{name}: {label}, shown: {there}");
        }
    }
}

#[test]
fn every_panel_says_what_it_shows_and_in_which_unit() {
    for panel in pages(&folder()).iter().flat_map(|page| &page.panels) {
        let title = &panel.title;
        assert!(panel.description.ends_with('.'), "{title}: a description");
        assert!(!panel.unit.is_empty(), "{title}: a unit");
        assert!(!panel.queries.is_empty(), "{title}: a query");
        for query in &panel.queries {
            for range in query.raw.split('[').skip(1) {
                let range = format!("[{}]", range.split(']').next().unwrap_or_default());
                assert!(
                    range == "[$__rate_interval]" || FIXED_RANGES.contains(&range.as_str()),
                    "{title}: {range}"
                );
            }
        }
    }
}

#[test]
fn thresholds_are_those_of_the_alerts() {
    let rules = Rules::read(&folder());
    let number = |name: &str| {
        let alert = rules.alerts.iter().find(|alert| alert.name == name);
        alert.expect("an alert that there is").threshold()
    };
    let mut linked = BTreeSet::new();
    for panel in pages(&folder()).iter().flat_map(|page| &page.panels) {
        let numbers: Vec<f64> = panel.alerts.iter().map(|name| number(name)).collect();
        let same = |a: f64| move |b: &f64| (a - b).abs() < 1e-12;
        for step in &panel.steps {
            assert!(
                numbers.iter().any(same(*step)),
                "{}: {step}, not of {numbers:?}",
                panel.title
            );
        }
        for number in &numbers {
            assert!(
                panel.steps.iter().any(same(*number)),
                "{} does not show {number}",
                panel.title
            );
        }
        linked.extend(panel.alerts.iter().cloned());
    }
    let all: BTreeSet<_> = rules.alerts.iter().map(|it| it.name.clone()).collect();
    assert_eq!(linked, all, "every alert is seen on a panel");
}

#[test]
fn an_alert_leads_to_what_to_do_and_where_to_look() {
    let runbook = std::fs::read_to_string(folder().join("RUNBOOK.md")).expect("a runbook");
    let anchors: BTreeSet<_> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| title.to_lowercase().replace(' ', "-"))
        .collect();
    let pages = pages(&folder());
    let rules = Rules::read(&folder());
    assert!(rules.alerts.len() > 10, "the alerts were found");
    for alert in &rules.alerts {
        let Alert { name, .. } = alert;
        assert!(!alert.note("summary").is_empty(), "{name}");
        assert!(!alert.note("description").is_empty(), "{name}");
        let anchor = alert.note("runbook_url").rsplit_once('#');
        let anchor = anchor.expect("an anchor").1;
        assert!(
            anchors.contains(anchor),
            "{name}: no {anchor} in RUNBOOK.md"
        );
        let (_, link) = alert.note("dashboard_url").split_once("/d/").expect("one");
        let (uid, variables) = link.split_once('?').expect("variables");
        let page = pages.iter().find(|page| page.uid == uid);
        let page = page.unwrap_or_else(|| unreachable!("{name}: no dashboard {uid}"));
        for variable in variables.split('&') {
            let variable = variable.split('=').next().unwrap_or_default();
            let variable = variable.strip_prefix("var-").expect("a variable");
            assert!(
                page.variables.contains(variable),
                "{name}: no {variable} on {uid}"
            );
        }
    }
}

/// Runs Debian's promtool, which `tests/run` installs with Prometheus.
fn promtool(what: &[&str]) {
    promtool_reads(what, "");
}

/// The same, with something to read.
fn promtool_reads(what: &[&str], text: &str) {
    let mut child = Command::new("promtool")
        .args(what)
        .current_dir(folder().join("prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, of Debian's package prometheus");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("a reader");
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    assert!(
        output.status.success(),
        "promtool {}\n{}{}",
        what.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn prometheus_takes_the_rules_and_the_config() {
    promtool(&["check", "rules", "weir.rules.yml"]);
    promtool(&["check", "config", "prometheus.yml"]);
}

#[tokio::test]
async fn every_metric_has_a_help_and_a_name_as_prometheus_wants_it() {
    promtool_reads(&["check", "metrics"], &everything().await);
}

#[test]
fn alerts_call_when_they_should_and_for_nothing_that_looks_alike() {
    promtool(&["test", "rules", "weir.test.yml"]);
    let cases = std::fs::read_to_string(folder().join("prometheus/weir.test.yml"));
    let cases = cases.expect("the cases");
    for Alert { name, .. } in &Rules::read(&folder()).alerts {
        let has_one = cases.contains(&format!("- name: \"{name}: "));
        assert!(has_one, "{name} has no case in weir.test.yml");
    }
}
