//! How does a WebSocket open, live and end?

use std::rc::Rc;
use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{
    Answer, Authority, Backend, Client, Http2Backend, Request, Weir, clients, ms, one_limit, route,
    server_tls, together, upstream,
};

const IN_FLIGHT: &str = "weir_in_flight{upstream=\"main\"}";
const PASSED: &str = "weir_requests_total{route=\"main\",outcome=\"passed\"}";
const SWITCHES: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn asks(target: &str) -> Request {
    Request::get(target)
        .with("Connection", "keep-alive, Upgrade")
        .with("Upgrade", "websocket")
        .with("Sec-WebSocket-Version", "13")
        .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

/// A backend that says what it hears, on a WebSocket.
fn echo() -> Backend {
    Backend::answering(|seen| match seen.header("upgrade") {
        Some("websocket") => Answer::raw(SWITCHES).echo(),
        _ => Answer::ok(),
    })
}

/// An open WebSocket.
async fn open(weir: &Weir, target: &str) -> Client {
    let mut client = weir.client().await;
    assert_eq!(client.ask(&asks(target)).await.status, 101);
    client
}

/// Sends bytes, and hears them.
async fn hears(client: &mut Client, bytes: &[u8]) {
    client.send(bytes).await;
    let mut heard = Vec::new();
    while heard.len() < bytes.len() {
        let some = client.some().await;
        assert!(!some.is_empty(), "after {} bytes", heard.len());
        heard.extend(some);
    }
    assert!(heard == bytes, "{} bytes came back changed", bytes.len());
}

#[tokio::test]
async fn both_sides_are_joined_byte_for_byte() {
    let backend = Backend::answering(|_| Answer::raw(format!("{SWITCHES}\u{81}hello")).echo());
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    // What comes behind the head on either side is part of it.
    let early = [asks("/chat%2F?a=1").bytes(), b"early".to_vec()].concat();
    client.send(early).await;
    let response = client.response().await;
    assert_eq!(response.status, 101);
    assert_eq!(response.header("upgrade"), Some("websocket"));
    assert_eq!(response.header("connection"), Some("upgrade"));
    let accept = response.header("sec-websocket-accept");
    assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    let mut heard = Vec::new();
    while heard.len() < 12 {
        heard.extend(client.some().await);
    }
    assert_eq!(heard, "\u{81}helloearly".as_bytes());
    let bytes: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    for part in bytes.chunks(60_000) {
        hears(&mut client, part).await;
    }
    let seen = backend.only();
    assert_eq!(seen.target(), "/chat%2F?a=1");
    assert_eq!(seen.header("connection"), Some("upgrade"));
    assert_eq!(seen.header("upgrade"), Some("websocket"));
    assert_eq!(seen.header("sec-websocket-version"), Some("13"));
    assert!(seen.header("x-forwarded-for").is_some());
}

#[tokio::test]
async fn the_permit_lasts_as_long_as_the_connection() {
    let backend = echo();
    let config = upstream("max_in_flight = 1", "", &backend);
    let weir = Weir::start(&config).await;
    let mut socket = open(&weir, "/").await;
    weir.shows(IN_FLIGHT, 1.0).await;
    weir.shows(PASSED, 0.0).await;
    let mut waits = weir.client().await;
    waits.send(Request::get("/next").bytes()).await;
    assert!(waits.is_silent_for(ms(200)).await);
    hears(&mut socket, b"still there").await;
    drop(socket);
    assert_eq!(waits.response().await.status, 200);
    weir.shows(PASSED, 1.0).await;
    weir.shows(IN_FLIGHT, 0.0).await;
}

#[tokio::test]
async fn either_sides_end_ends_the_other() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/closes" => Answer::raw(SWITCHES).hold().close(),
        "/resets" => Answer::raw(SWITCHES).hold().reset(),
        _ => Answer::raw(SWITCHES).echo(),
    });
    let weir = Weir::start(&route("", &backend)).await;
    for target in ["/closes", "/resets"] {
        let mut socket = open(&weir, target).await;
        backend.let_go(1);
        assert_eq!(socket.rest().await, b"", "{target}");
    }
    // What is on its way when one side ends still arrives.
    let mut socket = open(&weir, "/").await;
    socket.send("last words").await;
    socket.finish().await;
    assert_eq!(socket.rest().await, b"last words");
    open(&weir, "/").await.reset();
    backend.has_open(0).await;
    weir.has_connections(0).await;
    weir.shows(IN_FLIGHT, 0.0).await;
    weir.shows(PASSED, 4.0).await;
}

#[tokio::test]
async fn it_waits_in_line_and_is_refused_like_any_other() {
    let backend = echo();
    let weir = Weir::start(&one_limit("rate = \"4r/s\"\nburst = 1", &backend)).await;
    let begun = Instant::now();
    let _first = open(&weir, "/").await;
    let mut waits = weir.client().await;
    waits.send(asks("/").bytes()).await;
    weir.has_waiting(1).await;
    let mut refused = weir.client().await;
    let refusal = refused.ask(&asks("/")).await;
    assert_eq!(refusal.status, 429);
    assert_eq!(refusal.header("upgrade"), None);
    assert!(refusal.retry_after().is_some());
    let response = waits.response().await;
    assert_eq!(response.status, 101);
    assert!(begun.elapsed() >= ms(240));
    assert!(response.header("server-timing").is_some());
    assert!(response.header("ratelimit").is_some());
    hears(&mut waits, b"in its turn").await;
    assert_eq!(backend.seen().len(), 2);
}

#[tokio::test]
async fn one_that_leaves_the_line_never_reaches_the_upstream() {
    let backend = echo();
    let weir = Weir::start(&one_limit("rate = \"2r/s\"\nburst = 5", &backend)).await;
    let _first = open(&weir, "/").await;
    let mut all = clients(&weir, 5).await;
    for client in &mut all {
        client.send(asks("/").bytes()).await;
    }
    weir.has_waiting(5).await;
    all.into_iter().for_each(Client::reset);
    weir.has_waiting(0).await;
    assert_eq!(backend.seen().len(), 1);
    weir.shows(IN_FLIGHT, 1.0).await;
}

#[tokio::test]
async fn an_upstream_may_say_no() {
    let backend = Backend::answering(|seen| match seen.header("upgrade") {
        Some(_) => Answer::with("403 Forbidden", &[("X-Why", "no")], "no"),
        None => Answer::ok(),
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    for _ in 0..3 {
        let response = client.ask(&asks("/")).await;
        assert_eq!((response.status, response.text()), (403, "no"));
        assert_eq!(client.get("/").await.status, 200);
    }
    weir.shows(IN_FLIGHT, 0.0).await;
}

#[tokio::test]
async fn no_other_upgrade_is_passed_on() {
    let backend = echo();
    let weir = Weir::start(&route("", &backend)).await;
    let upgrade = |name: &str, connection: &str| {
        Request::get("/")
            .with("Connection", connection)
            .with("Upgrade", name)
    };
    let with_body = Request::post("/", "body")
        .with("Connection", "upgrade")
        .with("Upgrade", "websocket");
    let cases = [
        upgrade("h2c", "Upgrade, HTTP2-Settings").with("HTTP2-Settings", "AAMAAABk"),
        upgrade("TLS/1.3", "Upgrade"),
        upgrade("websocket", "keep-alive"),
        with_body,
    ];
    let mut client = weir.client().await;
    for request in cases {
        let response = client.ask(&request).await;
        assert_eq!(response.status, 200, "{request:?}");
        let seen = backend.seen().pop().expect("a request");
        for name in ["upgrade", "http2-settings"] {
            assert_eq!(seen.header(name), None, "{request:?}");
        }
    }
    let old = "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.send(old).await;
    assert_eq!(client.response().await.status, 200);
}

#[tokio::test]
async fn an_upstream_that_switches_to_something_else_is_broken() {
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        let backend = Backend::answering(move |_| Answer::raw(answer).echo());
        let weir = Weir::start(&route("", &backend)).await;
        let response = weir.client().await.ask(&asks("/")).await;
        assert_eq!(response.status, 502, "{answer}");
        assert_eq!(response.json()["upstream_may_have_seen"], true);
        backend.has_open(0).await;
        weir.shows(IN_FLIGHT, 0.0).await;
    }
}

#[tokio::test]
async fn over_tls_it_goes_by_http_1_whatever_else_is_spoken() {
    let root = Authority::new();
    let mut tls = server_tls(&root.vouch_for("127.0.0.1"), None);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let backend = Backend::over_tls(tls, |_| Answer::raw(SWITCHES).echo());
    let files = [("ca.pem", root.pem.as_str())];
    let weir = Weir::beside(&files, "", &upstream("ca = \"ca.pem\"", "", &backend)).await;
    let mut socket = open(&weir, "/").await;
    hears(&mut socket, b"over TLS").await;
}

#[tokio::test]
async fn an_upstream_by_http_2_carries_none() {
    let backend = Http2Backend::start();
    let weir = Weir::start(&backend.route("protocol = \"h2\"", "")).await;
    let mut client = weir.client().await;
    let response = client.ask(&asks("/")).await;
    assert_eq!(response.status, 502);
    let problem = response.json();
    assert_eq!(problem["upstream_may_have_seen"], false);
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("WebSocket"), "{detail}");
    assert_eq!(backend.asked().len(), 0);
    assert_eq!(client.get("/").await.status, 200, "others go on");
}

#[tokio::test]
async fn silence_does_not_end_it() {
    let backend = echo();
    let config = upstream("timeout = \"200ms\"", "", &backend);
    let server = "idle_timeout = \"200ms\"\nheader_timeout = \"200ms\"\n\
        body_timeout = \"200ms\"\nwrite_timeout = \"200ms\"";
    let weir = Weir::with(server, &config).await;
    let mut socket = open(&weir, "/").await;
    for _ in 0..2 {
        tokio::time::sleep(ms(1_500)).await;
        hears(&mut socket, b"still there").await;
    }
    weir.has_connections(1).await;
}

#[tokio::test]
async fn a_drain_lets_it_live_for_the_grace_and_no_longer() {
    let cases = [true, false].map(|ends_by_itself| async move {
        let backend = echo();
        let server = "shutdown_grace = \"1s\"";
        let mut weir = Weir::with(server, &route("", &backend)).await;
        let mut socket = open(&weir, "/").await;
        let begun = Instant::now();
        weir.signal(Signal::TERM);
        tokio::time::sleep(ms(400)).await;
        hears(&mut socket, b"still there").await;
        if ends_by_itself {
            drop(socket);
            assert_eq!(weir.ended().await, Some(0));
            assert!(begun.elapsed() < ms(900), "{:?}", begun.elapsed());
        } else {
            assert_eq!(socket.rest().await, b"");
            assert!(begun.elapsed() >= ms(1_000), "{:?}", begun.elapsed());
            assert!(begun.elapsed() < ms(4_500), "{:?}", begun.elapsed());
            assert_eq!(weir.ended().await, Some(0));
        }
    });
    together(cases).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut() {
    let backend = Backend::answering(|_| {
        let flood = Answer::raw(SWITCHES);
        (0..64)
            .fold(flood, |it, _| it.send(vec![b'x'; 1 << 20]))
            .hold()
    });
    let weir = Weir::with("write_timeout = \"300ms\"", &route("", &backend)).await;
    let mut socket = weir.client().await;
    socket.narrow();
    socket.send(asks("/").bytes()).await;
    let cut = "weir_connections_timed_out_total{listener=\"requests\"}";
    weir.shows(cut, 1.0).await;
    weir.shows(IN_FLIGHT, 0.0).await;
    backend.has_open(0).await;
}

#[tokio::test]
async fn one_whose_upstream_takes_nothing_ends_though_its_client_can_not_be_heard() {
    let backend = Backend::answering(|_| Answer::raw(SWITCHES).wait(ms(60_000)));
    let config = upstream("timeout = \"1s\"", "", &backend);
    let weir = Weir::start(&config).await;
    let mut gone = open(&weir, "/gone").await;
    let mut stays = open(&weir, "/stays").await;
    let more_than_fits = vec![b'x'; 64 << 20];
    gone.send_what_fits(&more_than_fits).await;
    gone.reset();
    stays.send_what_fits(&more_than_fits).await;
    assert_eq!(stays.rest().await, b"");
    weir.has_connections(0).await;
    weir.shows(IN_FLIGHT, 0.0).await;
    weir.shows(PASSED, 2.0).await;
}

#[tokio::test]
async fn a_thousand_of_each_end_leave_nothing_behind() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/refused" => Answer::with("403 Forbidden", &[], "no"),
        "/closes" => Answer::raw(SWITCHES).close(),
        "/resets" => Answer::raw(SWITCHES).reset(),
        "/breaks" => Answer::nothing().read().reset(),
        _ => Answer::raw(SWITCHES).echo(),
    });
    let config = upstream("max_in_flight = 20", "", &backend);
    let weir = Rc::new(Weir::start(&config).await);
    let visitors = (0..40).map(|visitor| {
        let weir = Rc::clone(&weir);
        async move {
            for number in 0..200 {
                let target = ["/refused", "/closes", "/resets", "/breaks", "/"];
                let target = target[(visitor + number) % 5];
                let mut client = weir.client().await;
                client.send(asks(target).bytes()).await;
                match number % 4 {
                    // Before it opens, perhaps.
                    0 => client.reset(),
                    1 => drop(client.try_response().await),
                    _ => {
                        let _broken = client.try_response().await;
                        let _ended = client.try_send("some bytes").await;
                        client.reset();
                    }
                }
            }
        }
    });
    together(visitors).await;
    weir.has_connections(0).await;
    weir.shows(IN_FLIGHT, 0.0).await;
    backend.has_open(0).await;
    assert!(backend.seen().len() > 5_000, "{}", backend.seen().len());
}
