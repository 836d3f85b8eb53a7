//! How long does weir put up with someone who makes no progress?

use std::time::{Duration, Instant};

use crate::harness::{
    Answer, Backend, Client, Request, Weir, ms, one_limit, route, together, upstream,
};

/// Connections are looked over twice a second: so much later one may be cut.
const ROUND: Duration = ms(500);

/// On a machine that has more to do.
const BUSY: Duration = ms(1_500);

/// Waits for the connection's end, which must come after `least` and not much later.
async fn ends_after(client: &mut Client, begun: Instant, least: Duration) -> Vec<u8> {
    let rest = client.rest().await;
    let took = begun.elapsed();
    assert!(took >= least, "{took:?}, not {least:?}");
    assert!(took < least + ROUND + BUSY, "{took:?}, not {least:?}");
    rest
}

#[tokio::test]
async fn a_head_that_is_not_whole_in_time_ends_its_connection() {
    let backend = Backend::start();
    let server = "header_timeout = \"300ms\"\nidle_timeout = \"1m\"";
    let weir = Weir::with(server, &route("", &backend)).await;
    let half = "GET / HTTP/1.1\r\nHost: weir.test\r\nX-Sl";
    let mut stalled = weir.client().await;
    let mut second = weir.client().await;
    let mut dripping = weir.client().await;
    assert_eq!(second.get("/").await.status, 200);
    let begun = Instant::now();
    stalled.send(half).await;
    second.send(half).await;
    dripping.send(half).await;
    for _ in 0..200 {
        // Each byte is progress; the head is late all the same.
        if dripping.try_send("o").await.is_err() || !dripping.is_silent_for(ms(40)).await {
            break;
        }
    }
    dripping.rest().await;
    let dripped = begun.elapsed();
    assert!(
        dripped >= ms(300) && dripped < ms(300) + ROUND + BUSY,
        "{dripped:?}"
    );
    ends_after(&mut stalled, begun, ms(300)).await;
    ends_after(&mut second, begun, ms(300)).await;
    assert_eq!(backend.seen().len(), 1);
    let cut = "weir_connections_timed_out_total{listener=\"requests\"}";
    weir.shows(cut, 3.0).await;
    weir.has_connections(0).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_one_that_waits_is_not() {
    let backend = Backend::start();
    let server = "idle_timeout = \"300ms\"";
    let weir = Weir::with(server, &one_limit("rate = \"50r/m\"\nburst = 1", &backend)).await;
    let mut unused = weir.client().await;
    let mut used = weir.client().await;
    let opened = Instant::now();
    assert_eq!(used.get("/").await.status, 200);
    let answered = Instant::now();
    let mut waiting = weir.client().await;
    waiting.send(Request::get("/").bytes()).await;
    assert_eq!(ends_after(&mut unused, opened, ms(250)).await, b"");
    assert_eq!(ends_after(&mut used, answered, ms(250)).await, b"");
    // Its turn comes 1.2 s after the first.
    let response = waiting.response().await;
    assert_eq!(response.status, 200);
    assert!(response.at >= opened + ms(1_200));
    weir.has_connections(0).await;
}

#[tokio::test]
async fn a_body_that_stands_still_gets_408_and_frees_the_upstream() {
    let cases = ["Content-Length: 100", "Transfer-Encoding: chunked"].map(|framing| async move {
        let backend = Backend::start();
        let config = upstream("max_in_flight = 1", "", &backend);
        let weir = Weir::with("body_timeout = \"300ms\"", &config).await;
        let mut client = weir.client().await;
        let begun = Instant::now();
        let part = if framing.starts_with('C') {
            "half"
        } else {
            "4\r\nhalf\r\n"
        };
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{part}"
            ))
            .await;
        let response = client.response().await;
        assert_eq!(response.status, 408, "{framing}");
        assert_eq!(response.json()["status"], 408, "{framing}");
        assert!(response.at >= begun + ms(300), "{framing}");
        ends_after(&mut client, begun, ms(300)).await;
        assert_eq!(weir.get("/next").await.status, 200, "{framing}");
        assert!(!backend.seen()[0].whole, "{framing}");
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
        let left = "weir_requests_total{route=\"main\",outcome=\"left\"}";
        weir.shows(left, 1.0).await;
    });
    together(cases).await;
}

#[tokio::test]
async fn a_slow_body_that_goes_on_is_waited_for() {
    let backend = Backend::start();
    let config = upstream("timeout = \"400ms\"", "", &backend);
    let weir = Weir::with("body_timeout = \"400ms\"", &config).await;
    let mut client = weir.client().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        .await;
    for _ in 0..10 {
        tokio::time::sleep(ms(80)).await;
        client.send("x").await;
    }
    assert_eq!(client.response().await.status, 200);
    assert_eq!(backend.only().body, b"xxxxxxxxxx");
}

#[tokio::test]
async fn whoever_does_not_read_its_answer_does_not_keep_the_upstream() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/big" => Answer::with("200 OK", &[], &"x".repeat(32 << 20)),
        _ => Answer::ok(),
    });
    let config = upstream("max_in_flight = 1", "", &backend);
    let weir = Weir::with("write_timeout = \"300ms\"", &config).await;
    let mut lazy = weir.client().await;
    lazy.narrow();
    lazy.send(Request::get("/big").bytes()).await;
    backend.has_seen(1).await;
    let begun = Instant::now();
    let next = weir.get("/next").await;
    assert_eq!(next.status, 200);
    assert!(begun.elapsed() >= ms(200), "the upstream was full");
    let cut = "weir_connections_timed_out_total{listener=\"requests\"}";
    weir.shows(cut, 1.0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn an_answer_that_stands_still_is_broken_off() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/stalls" => Answer::chunked("").chunk("half").hold(),
        _ => Answer::ok(),
    });
    let config = upstream("timeout = \"300ms\"\nmax_in_flight = 1", "", &backend);
    let weir = Weir::start(&config).await;
    let mut client = weir.client().await;
    client.send(Request::get("/stalls").bytes()).await;
    let response = client.try_response().await;
    assert!(response.is_err(), "it must not look whole: {response:?}");
    let seen = backend.only();
    assert!(seen.at.elapsed() >= ms(300));
    assert_eq!(weir.get("/next").await.status, 200);
}

#[tokio::test]
async fn an_answer_that_drips_is_waited_for() {
    let backend = Backend::answering(|_| {
        let slow = Answer::chunked("");
        let slow = (0..8).fold(slow, |answer, _| answer.wait(ms(80)).chunk("x"));
        slow.chunk("")
    });
    let weir = Weir::start(&upstream("timeout = \"400ms\"", "", &backend)).await;
    let response = weir.get("/").await;
    assert_eq!((response.status, response.text()), (200, "xxxxxxxx"));
}
