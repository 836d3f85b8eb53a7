//! How does weir end?

use std::time::Instant;

use rustix::process::Signal;
use tokio::net::TcpStream;

use crate::harness::{
    Answer, Backend, Client, Request, Weir, clients, ms, one_limit, responses, route, together,
    until,
};

const SIGNALS: [Signal; 2] = [Signal::TERM, Signal::INT];

/// It says that it is not ready, and takes no connection.
async fn is_closing(weir: &Weir) {
    until("readyz says that weir drains", async || {
        let ready = weir.page("/readyz").await.status;
        (ready == 503).then_some(()).ok_or(ready.to_string())
    })
    .await;
    until("the listener is closed", async || {
        let connected = TcpStream::connect(weir.listen()).await;
        connected.map_or(Ok(()), |_open| Err("it takes connections".to_owned()))
    })
    .await;
}

fn two_routes(rate: &str, backend: &Backend) -> String {
    format!(
        "[limits.main]\nkey = \"all\"\nrate = \"{rate}\"\nburst = 30\n{}\
        [[routes]]\nname = \"free\"\npath = \"/free\"\nupstream = \"main\"\n",
        route("limits = [\"main\"]", backend)
    )
}

fn held_if_free(seen: &crate::harness::Seen) -> Answer {
    if seen.target().starts_with("/free") {
        Answer::held()
    } else {
        Answer::ok()
    }
}

async fn send(weir: &Weir, target: &str, count: usize) -> Vec<Client> {
    let mut all = clients(weir, count).await;
    for client in &mut all {
        client.send(Request::get(target).bytes()).await;
    }
    all
}

#[tokio::test]
async fn at_a_signal_those_who_wait_are_served_until_the_deadline_and_the_rest_hear_503() {
    let cases = SIGNALS.map(|signal| async move {
        let backend = Backend::answering(held_if_free);
        let server = "shutdown_grace = \"600ms\"";
        let mut weir = Weir::with(server, &two_routes("10r/s", &backend)).await;
        assert_eq!(weir.page("/readyz").await.status, 200);
        let running = send(&weir, "/free", 5).await;
        backend.has_seen(5).await;
        assert_eq!(weir.get("/").await.status, 200);
        let waiting = send(&weir, "/", 20).await;
        weir.has_admitted(&backend, 26).await;
        let begun = Instant::now();
        weir.signal(signal);
        is_closing(&weir).await;
        assert_eq!(weir.page("/healthz").await.status, 200);
        backend.let_go(5);
        let served = responses(running).await;
        assert!(served.iter().all(|response| response.status == 200));
        let ended = responses(waiting).await;
        let late: Vec<_> = ended.iter().filter(|it| it.status == 503).collect();
        let in_time = ended.iter().filter(|it| it.status == 200).count();
        assert_eq!(late.len() + in_time, 20, "{signal:?}");
        let after = backend.seen().iter().filter(|it| it.at > begun).count();
        assert!((1..=10).contains(&after), "{signal:?}: {after} in time");
        assert!(
            !late.is_empty(),
            "{signal:?}: the line was longer than the grace"
        );
        for response in late {
            assert!(response.at >= begun + ms(600), "{signal:?}");
            assert!(response.retry_after().is_some_and(|seconds| seconds > 0));
            assert_eq!(response.json()["status"], 503);
        }
        assert_eq!(weir.ended().await, Some(0), "{signal:?}");
    });
    together(cases).await;
}

#[tokio::test]
async fn it_ends_as_soon_as_all_have_been_served() {
    let backend = Backend::answering(held_if_free);
    let server = "shutdown_grace = \"1h\"";
    let mut weir = Weir::with(server, &two_routes("20r/s", &backend)).await;
    let running = send(&weir, "/free", 2).await;
    backend.has_seen(2).await;
    let waiting = send(&weir, "/", 5).await;
    backend.has_seen(3).await;
    weir.signal(Signal::TERM);
    is_closing(&weir).await;
    let served = responses(waiting).await;
    assert!(served.iter().all(|response| response.status == 200));
    assert!(weir.runs(), "two are still under way");
    backend.let_go(2);
    let served = responses(running).await;
    assert!(served.iter().all(|response| response.status == 200));
    assert_eq!(weir.ended().await, Some(0));
}

#[tokio::test]
async fn idle_connections_are_closed_and_do_not_delay_the_end() {
    let backend = Backend::start();
    let server = "shutdown_grace = \"1h\"";
    let mut weir = Weir::with(server, &route("", &backend)).await;
    let mut used = weir.client().await;
    assert_eq!(used.get("/").await.status, 200);
    let mut unused = weir.client().await;
    weir.has_connections(2).await;
    weir.signal(Signal::TERM);
    assert_eq!(used.rest().await, b"");
    assert_eq!(unused.rest().await, b"");
    assert_eq!(weir.ended().await, Some(0));
}

#[tokio::test]
async fn an_answer_that_ends_after_the_signal_closes_its_connection() {
    let backend = Backend::answering(held_if_free);
    let server = "shutdown_grace = \"1h\"";
    let mut weir = Weir::with(server, &two_routes("10r/s", &backend)).await;
    let mut client = weir.client().await;
    client.send(Request::get("/free").bytes()).await;
    backend.has_seen(1).await;
    weir.signal(Signal::TERM);
    is_closing(&weir).await;
    backend.let_go(1);
    let response = client.response().await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("connection"), Some("close"));
    assert_eq!(client.rest().await, b"");
    assert_eq!(weir.ended().await, Some(0));
}

#[tokio::test]
async fn a_second_signal_cuts_the_grace_short() {
    let cases = SIGNALS.map(|signal| async move {
        let backend = Backend::start();
        let server = "shutdown_grace = \"1h\"";
        let mut weir = Weir::with(server, &one_limit("rate = \"1r/h\"\nburst = 9", &backend)).await;
        assert_eq!(weir.get("/").await.status, 200);
        let waiting = send(&weir, "/", 3).await;
        weir.has_waiting(3).await;
        weir.signal(Signal::TERM);
        is_closing(&weir).await;
        weir.signal(signal);
        let statuses: Vec<_> = responses(waiting)
            .await
            .iter()
            .map(|it| it.status)
            .collect();
        assert_eq!(statuses, [503; 3]);
        assert_eq!(weir.ended().await, Some(0));
    });
    together(cases).await;
}

#[tokio::test]
async fn an_upstream_that_never_answers_does_not_keep_weir_alive() {
    let backend = Backend::answering(|_| Answer::never());
    let server = "shutdown_grace = \"100ms\"";
    let mut weir = Weir::with(server, &route("", &backend)).await;
    let _running = send(&weir, "/", 3).await;
    backend.has_seen(3).await;
    weir.signal(Signal::TERM);
    assert_eq!(weir.ended().await, Some(0));
    backend.has_open(0).await;
}
