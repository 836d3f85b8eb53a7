//! What changes with a new config, and what stays?

use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{Backend, Request, Weir, clients, ms, one_limit, responses};

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
    weir.shows(RELOADED, 1.0).await;
    all[4].send(Request::get("/4").bytes()).await;
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert_eq!(backend.targets(), ["/0", "/1", "/2", "/3", "/4"]);
    let arrivals = backend.arrivals(begun);
    assert!(arrivals[4] < ms(900), "at the new rate: {arrivals:?}");
    for pair in arrivals[1..].windows(2) {
        assert!(pair[1] >= pair[0] + ms(46), "evenly: {arrivals:?}");
    }
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
    weir.shows(RELOADED, 1.0).await;
    let reloaded = Instant::now();
    let responses = responses(all).await;
    assert!(
        responses.iter().all(|response| response.status == 200),
        "all kept their places"
    );
    let seen = backend.seen();
    let after: Vec<_> = seen
        .iter()
        .filter(|seen| seen.at > reloaded + ms(30))
        .collect();
    for pair in after.windows(2) {
        assert!(
            pair[1].at - pair[0].at >= ms(15),
            "no burst at 25 ms a slot"
        );
    }
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
