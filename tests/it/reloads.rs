//! What changes with a new config, and what stays?

use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{
    Authority, Backend, Redis, Request, Weir, clients, keeps_pace, ms, one_limit, responses,
    sharing, until,
};

const RELOADED: &str = "weir_config_reloads_total{result=\"success\"}";
const FAILED: &str = "weir_config_reloads_total{result=\"failure\"}";

#[tokio::test]
async fn those_who_wait_drain_at_the_new_rate_and_no_newcomer_overtakes_them() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/s\"\nburst = 9", &backend)).await;
    let mut all = clients(&weir, 5).await;
    for (index, client) in all.iter_mut().take(4).enumerate() {
        let request = Request::get(&format!("/{index}"));
        client.send(request.bytes()).await;
        weir.has_admitted(&backend, index + 1).await;
    }
    weir.rewrite("rate = \"1r/s\"", "rate = \"20r/s\"");
    let begun = Instant::now();
    weir.signal(Signal::HUP);
    weir.reaches(RELOADED, 1.0).await;
    all[4].send(Request::get("/4").bytes()).await;
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert_eq!(backend.targets(), ["/0", "/1", "/2", "/3", "/4"]);
    let arrivals = backend.arrivals(begun);
    assert!(arrivals[4] < ms(900), "at the new rate: {arrivals:?}");
    keeps_pace(&arrivals[1..], ms(50));
}

#[tokio::test]
async fn a_slower_rate_keeps_places_and_debt() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"100r/s\"\nburst = 60", &backend)).await;
    let mut all = clients(&weir, 30).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    weir.rewrite("rate = \"100r/s\"", "rate = \"40r/s\"");
    weir.signal(Signal::HUP);
    weir.reaches(RELOADED, 1.0).await;
    let reloaded = Instant::now();
    let responses = responses(all).await;
    assert!(
        responses.iter().all(|response| response.status == 200),
        "all kept their places"
    );
    let mut after = backend.arrivals(reloaded);
    after.retain(|at| *at > ms(30));
    keeps_pace(&after, ms(25));
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_says_why() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1000r/s\"\nburst = 9", &backend)).await;
    weir.rewrite("rate = \"1000r/s\"", "rate = \"0r/s\"");
    weir.signal(Signal::HUP);
    weir.shows(FAILED, 1.0).await;
    assert_eq!(weir.get("/").await.status, 200);
    let told = weir
        .log()
        .iter()
        .any(|line| line.contains("nothing changed") && line.contains("limits.main.rate"));
    assert!(told, "{:?}", weir.log());
}

const FAST: &str = "rate = \"1000r/s\"\nburst = 9";

/// The rate that a weir has in use, once it has reloaded so often.
async fn rate_after(weir: &Weir, reloads: f64) -> f64 {
    weir.reaches(RELOADED, reloads).await;
    weir.metric("weir_rate{limit=\"main\"}").await
}

#[tokio::test]
async fn a_file_that_changes_is_read_however_it_is_written() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(FAST, &backend)).await;
    let path = weir.config();
    let text = |rate: &str| {
        let text = std::fs::read_to_string(&path).expect("a config");
        let mut lines: Vec<&str> = text.lines().collect();
        let place = lines.iter().position(|line| line.starts_with("rate"));
        let rate = format!("rate = \"{rate}\"");
        lines[place.expect("a rate")] = &rate;
        lines.join("\n")
    };
    std::fs::write(&path, text("500r/s")).expect("written in place");
    assert!((rate_after(&weir, 1.0).await - 500.0).abs() < 1e-9);
    let beside = path.with_extension("new");
    std::fs::write(&beside, text("400r/s")).expect("written beside");
    std::fs::rename(&beside, &path).expect("put in its place");
    assert!((rate_after(&weir, 2.0).await - 400.0).abs() < 1e-9);
    // As Kubernetes does it: a link to a link to a folder, which is exchanged.
    let mounted = path.parent().expect("a folder");
    for (nth, rate) in [(3.0, "300r/s"), (4.0, "200r/s")] {
        let folder = mounted.join(format!("..{rate}").replace('/', "_"));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("weir.toml"), text(rate)).expect("a file");
        let link = mounted.join("..data_new");
        std::os::unix::fs::symlink(&folder, &link).expect("a link");
        std::fs::rename(&link, mounted.join("..data")).expect("exchanged");
        if nth < 3.5 {
            std::os::unix::fs::symlink("..data/weir.toml", &beside).expect("a link");
            std::fs::rename(&beside, &path).expect("put in its place");
        }
        let now = rate_after(&weir, nth).await;
        assert_eq!(format!("{now}r/s"), rate);
    }
    assert!(
        weir.metric(FAILED).await < 0.5,
        "no half of a file was read"
    );
}

#[tokio::test]
async fn a_file_is_read_when_it_is_still_and_says_something_else() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(FAST, &backend)).await;
    let path = weir.config();
    let text = std::fs::read_to_string(&path).expect("a config");
    // Written again as it was, and then bit by bit: a half would be a fault.
    std::fs::write(&path, &text).expect("a config");
    tokio::time::sleep(ms(1_000)).await;
    let changed = text.replace("1000r/s", "700r/s");
    for part in 1..=8 {
        let end = changed.len() * part / 8;
        std::fs::write(&path, &changed[..end]).expect("a part");
        tokio::time::sleep(ms(90)).await;
    }
    assert!((rate_after(&weir, 1.0).await - 700.0).abs() < 1e-9);
    assert!(weir.metric(FAILED).await < 0.5);
    // A bad one is told once.
    weir.rewrite("700r/s", "0r/s");
    weir.shows(FAILED, 1.0).await;
    tokio::time::sleep(ms(1_500)).await;
    assert!((weir.metric(FAILED).await - 1.0).abs() < 1e-9);
}

#[tokio::test]
async fn a_certificate_that_changes_is_a_change_of_the_config() {
    let backend = Backend::start();
    let config = one_limit(FAST, &backend).replace(
        "[upstreams.main]\n",
        "[upstreams.other]\nurl = \"https://other.test\"\nca = \"ca.pem\"\n[upstreams.main]\n",
    );
    let weir = Weir::beside(&[("ca.pem", &Authority::new().pem)], "", &config).await;
    let ca = weir.config().with_file_name("ca.pem");
    std::fs::write(&ca, Authority::new().pem).expect("a certificate");
    weir.reaches(RELOADED, 1.0).await;
    let log = weir.log().join("\n");
    assert!(
        log.contains("config reloaded") && log.contains("ca.pem"),
        "{log}"
    );
    std::fs::write(&ca, "nothing").expect("no certificate");
    weir.shows(FAILED, 1.0).await;
}

#[tokio::test]
async fn who_asks_for_a_reload_hears_what_came_of_it() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/s\"\nburst = 9", &backend)).await;
    let mut all = clients(&weir, 4).await;
    for (index, client) in all.iter_mut().enumerate() {
        client
            .send(Request::get(&format!("/{index}")).bytes())
            .await;
        weir.has_admitted(&backend, index + 1).await;
    }
    weir.rewrite("rate = \"1r/s\"", "rate = \"20r/s\"");
    weir.rewrite("threads = 2", "threads = 3");
    let said = weir.api("POST", "/api/reload").await;
    assert_eq!(said.status, 200, "{}", said.text());
    assert_eq!(
        said.json(),
        serde_json::json!({
            "changed": ["limits.main.rate", "server.threads"],
            "needs_restart": ["threads"],
        })
    );
    let served = responses(all).await;
    assert!(served.iter().all(|response| response.status == 200));
    assert_eq!(backend.targets(), ["/0", "/1", "/2", "/3"]);
    weir.rewrite("20r/s", "0r/s");
    weir.rewrite("burst", "brust");
    let said = weir.api("POST", "/api/reload").await;
    assert_eq!((said.status, said.problem_status()), (422, 422));
    let faults = said.json()["faults"].as_array().map_or(0, Vec::len);
    assert_eq!(faults, 2, "{}", said.text());
    tokio::time::sleep(ms(1_000)).await;
    assert!(
        (weir.metric(FAILED).await - 1.0).abs() < 1e-9,
        "nor is it read again"
    );
}

#[tokio::test]
async fn five_hundred_reloads_leave_nothing_behind() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weir = Weir::start(&sharing(&redis.store(), FAST, &backend, "a")).await;
    let reload = async |count: usize| {
        for nth in 0..count {
            let (from, to) = if nth % 2 == 0 {
                ("burst = 9", "burst = 8")
            } else {
                ("burst = 8", "burst = 9")
            };
            weir.rewrite(from, to);
            assert_eq!(weir.api("POST", "/api/reload").await.status, 200);
            assert_eq!(weir.get("/").await.status, 200);
        }
    };
    let tasks = async || weir.api("GET", "/api/status").await.json()["tasks"].as_u64();
    let quiet = async || {
        until("nobody connected", async || {
            let open = weir.metric("weir_connections{listener=\"requests\"}").await;
            (open < 0.5).then_some(()).ok_or_else(|| open.to_string())
        })
        .await;
        let clients = redis.info("connected_clients").await;
        (weir.descriptors(), tasks().await, clients, weir.memory())
    };
    reload(50).await;
    let before = quiet().await;
    reload(500).await;
    let after = quiet().await;
    assert!(after.0 <= before.0 + 4, "descriptors: {before:?} {after:?}");
    assert!(
        after.1 <= before.1.map(|tasks| tasks + 3),
        "tasks: {before:?} {after:?}"
    );
    assert!(
        after.2 <= before.2 + 1.5,
        "Redis clients: {before:?} {after:?}"
    );
    assert!(
        after.3 <= before.3 + 3_000,
        "memory in KiB: {before:?} {after:?}"
    );
}
