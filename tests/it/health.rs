//! What happens while an upstream is down?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::harness::{Answer, Backend, Request, Weir, clients, ms, responses, upstream};

const UP: &str = "weir_upstream_up{upstream=\"main\"}";

/// A backend that is well while the switch is on.
fn switched() -> (Arc<AtomicBool>, Backend) {
    let well = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&well);
    let backend = Backend::answering(move |seen| {
        if seen.target() != "/health" || switch.load(Ordering::SeqCst) {
            Answer::ok()
        } else {
            Answer::with("503 Service Unavailable", &[], "")
        }
    });
    (well, backend)
}

fn served(backend: &Backend) -> Vec<String> {
    let mut targets = backend.targets();
    targets.retain(|target| target != "/health");
    targets
}

fn config(backend: &Backend) -> String {
    format!(
        "[limits.main]\nkey = \"all\"\nrate = \"20r/s\"\nburst = 20\n{}\
         [[routes]]\npath = \"/free\"\nupstream = \"main\"\n",
        upstream(
            "health = \"/health\"\nhealth_interval = \"100ms\"",
            "limits = [\"main\"]",
            backend
        )
    )
}

#[tokio::test]
async fn while_an_upstream_is_down_lines_wait_and_others_hear_503() {
    let (well, backend) = switched();
    let weir = Weir::start(&config(&backend)).await;
    assert_eq!(weir.get("/first").await.status, 200);
    well.store(false, Ordering::SeqCst);
    weir.shows(UP, 0.0).await;
    let mut all = clients(&weir, 5).await;
    for (index, client) in (0..).zip(&mut all) {
        client
            .send(Request::get(&format!("/{index}")).bytes())
            .await;
        weir.has_waiting(index + 1).await;
    }
    let refused = weir.get("/free").await;
    assert_eq!(refused.status, 503);
    assert!(refused.retry_after().is_some_and(|seconds| seconds > 0));
    // Several slots go by, and nobody goes.
    tokio::time::sleep(ms(200)).await;
    assert_eq!(served(&backend), ["/first"]);
    weir.has_waiting(5).await;
    let begun = Instant::now();
    well.store(true, Ordering::SeqCst);
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert_eq!(served(&backend), ["/first", "/0", "/1", "/2", "/3", "/4"]);
    let seen = backend.seen();
    let stamps = seen.iter().filter(|seen| {
        let target = seen.target();
        target != "/health" && target != "/first"
    });
    for (slot, seen) in (0_u32..).zip(stamps) {
        let at = seen.at - begun;
        assert!(
            at + ms(2) >= ms(50) * slot,
            "no burst after the stop: {at:?}"
        );
    }
    assert_eq!(weir.get("/free").await.status, 200);
    weir.shows(UP, 1.0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn whoever_leaves_a_stopped_line_is_forgotten() {
    let (well, backend) = switched();
    let weir = Weir::start(&config(&backend)).await;
    well.store(false, Ordering::SeqCst);
    weir.shows(UP, 0.0).await;
    let mut all = clients(&weir, 5).await;
    for client in &mut all {
        client.send(Request::get("/left").bytes()).await;
    }
    weir.has_waiting(5).await;
    all.into_iter().for_each(crate::harness::Client::reset);
    weir.has_waiting(0).await;
    well.store(true, Ordering::SeqCst);
    weir.shows(UP, 1.0).await;
    assert_eq!(weir.get("/next").await.status, 200);
    assert_eq!(served(&backend), ["/next"]);
}

#[tokio::test]
async fn one_probe_that_fails_is_no_outage() {
    let (well, backend) = switched();
    let weir = Weir::start(&config(&backend)).await;
    let probes = || {
        backend
            .targets()
            .iter()
            .filter(|it| *it == "/health")
            .count()
    };
    let errors = "weir_upstream_errors_total{upstream=\"main\",kind=\"health\"}";
    for _ in 0..3 {
        let before = probes();
        well.store(false, Ordering::SeqCst);
        backend.has_seen(before + 1).await;
        well.store(true, Ordering::SeqCst);
        backend.has_seen(before + 3).await;
    }
    // A busy machine may have failed two in a row.
    if weir.metric(errors).await < 4.0 {
        assert!((weir.metric(UP).await - 1.0).abs() < 1e-9);
    }
    assert_eq!(weir.get("/free").await.status, 200);
}
