//! Is a client of HTTP/2 served as one of HTTP/1.1 is?

use std::time::Instant;

use bytes::Bytes;
use http::Request;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{
    Answer, Backend, Exchange, Multiplexed, Weir, get, ms, one_limit, post, route, soon, until,
    upstream,
};

/// Everything that counts what is there is where it was.
async fn is_empty(weir: &Weir) {
    weir.has_waiting(0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn a_request_reaches_an_upstream_of_http_1_whole() {
    let backend = Backend::answering(|_| {
        let head =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nX-A: 1\r\n\r\n";
        Answer::raw(format!("{head}3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n"))
    });
    let weir = Weir::start(&route("", &backend)).await;
    let client = Multiplexed::connect(weir.listen()).await;
    let request = Request::post("http://weir.test/a%2Fb?c={}")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("te", "trailers")
        .header("x-b", "2")
        .body(())
        .expect("a request");
    let mut exchange = client.begin(request, true).await;
    exchange.send("one", false);
    exchange.send("two", true);
    let reply = exchange.reply().await;
    assert_eq!((reply.status, reply.text()), (200, "abc"));
    assert_eq!(reply.header("x-a"), Some("1"));
    assert_eq!(reply.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    let seen = &backend.seen()[0];
    assert_eq!(seen.line, "POST /a%2Fb?c={} HTTP/1.1");
    assert_eq!(seen.body, b"onetwo");
    assert_eq!(seen.header("x-forwarded-host"), Some("weir.test"));
    assert_eq!(seen.header("via"), Some("2.0 weir"));
    assert_eq!(seen.header("x-b"), Some("2"));
    assert_eq!(seen.header("te"), Some("trailers"));
    assert_eq!(seen.header("cookie"), Some("a=1; b=2"));
}

#[tokio::test]
async fn the_preface_is_known_however_it_comes() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    for cut in [1, 2, 3, 4, 23, 24] {
        let mut stream = TcpStream::connect(weir.listen()).await.expect("weir");
        stream.set_nodelay(true).expect("no delay");
        let (first, second) = PREFACE.split_at(cut);
        stream.write_all(first).await.expect("room");
        tokio::time::sleep(ms(5)).await;
        stream.write_all(second).await.expect("room");
        stream.write_all(&frame(4, 0, 0, &[])).await.expect("room");
        stream.write_all(&headers(1)).await.expect("room");
        until("the request comes", async || {
            let seen = backend.seen().len();
            (seen > 0)
                .then_some(())
                .ok_or_else(|| format!("cut at {cut}"))
        })
        .await;
        backend.forget();
    }
    // One that only looks like it is a request of HTTP/1.1, refused as such.
    for odd in ["PRI / HTTP/2.0\r\n\r\n", "PRO", "P"] {
        let mut client = weir.client().await;
        client.send(odd).await;
        client.finish().await;
        client.rest().await;
    }
    weir.has_connections(0).await;
}

#[tokio::test]
async fn a_refusal_is_a_whole_answer_and_the_connection_stays() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/m\"\nburst = 0", &backend)).await;
    let client = Multiplexed::connect(weir.listen()).await;
    assert_eq!(client.get("/").await.status, 200);
    for _ in 0..3 {
        let reply = client.post("/", "body").await;
        assert_eq!(reply.status, 429);
        assert_eq!(reply.json()["status"], 429);
        assert_eq!(
            reply.header("content-type"),
            Some("application/problem+json")
        );
        let seconds = reply.header("retry-after").map(str::parse);
        assert!(matches!(seconds, Some(Ok(1_u8..=60))), "{seconds:?}");
        assert!(
            reply
                .header("ratelimit")
                .is_some_and(|field| field.contains("r=0"))
        );
    }
    assert_eq!(client.get("/").await.status, 429);
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn streams_of_one_connection_wait_in_one_line_in_their_order() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"50r/s\"\nburst = 30", &backend)).await;
    let client = Multiplexed::connect(weir.listen()).await;
    let mut exchanges = Vec::new();
    for number in 0..20 {
        exchanges.push(client.asks(&format!("/{number}")).await);
    }
    for exchange in exchanges {
        assert_eq!(exchange.reply().await.status, 200);
    }
    let wanted: Vec<_> = (0..20).map(|number| format!("/{number}")).collect();
    assert_eq!(backend.targets(), wanted);
    let seen = backend.seen();
    let span = seen[19].at - seen[0].at;
    assert!(span >= ms(370), "{span:?}");
}

#[tokio::test]
async fn a_stream_that_is_reset_frees_its_place_at_once_and_others_stay() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/s\"\nburst = 5", &backend)).await;
    let client = Multiplexed::connect(weir.listen()).await;
    assert_eq!(client.get("/first").await.status, 200);
    let mut going = Vec::new();
    for number in 0..4 {
        let request = if number % 2 == 0 {
            get("/gone")
        } else {
            post("/gone")
        };
        let mut exchange = client.begin(request, number % 2 == 1).await;
        if number == 3 {
            exchange.send("half", false);
        }
        going.push(exchange);
    }
    let stays = client.asks("/stays").await;
    weir.has_waiting(5).await;
    let left = Instant::now();
    going.into_iter().for_each(Exchange::reset);
    weir.has_waiting(1).await;
    let freed = left.elapsed();
    assert!(freed < ms(400), "{freed:?}");
    assert_eq!(stays.reply().await.status, 200);
    assert_eq!(backend.targets(), ["/first", "/stays"]);
    let took = backend.seen()[1].at - backend.seen()[0].at;
    assert!(took < ms(1_300), "those behind moved up: {took:?}");
    weir.shows("weir_requests_total{route=\"main\",outcome=\"left\"}", 4.0)
        .await;
}

#[tokio::test]
async fn every_early_end_gives_back_all_that_was_held() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/never" => Answer::never(),
        "/half" => Answer::chunked("").send("3\r\nabc\r\n"),
        _ => Answer::ok(),
    });
    let config = one_limit("rate = \"100000r/s\"\nburst = 2000", &backend);
    let weir = Weir::start(&config).await;
    for target in ["/never", "/half", "/whole"] {
        for closes in [false, true] {
            // 20 connections with 50 streams each.
            for _ in 0..20 {
                let client = Multiplexed::connect(weir.listen()).await;
                let mut exchanges = Vec::new();
                for number in 0..50 {
                    let mut exchange = client.begin(post(target), true).await;
                    exchange.send("some", number % 2 == 0);
                    exchanges.push(exchange);
                }
                if !closes {
                    exchanges.into_iter().for_each(Exchange::reset);
                    // What follows on the connection is served.
                    assert_eq!(client.get("/ok").await.status, 200);
                }
            }
            weir.has_connections(0).await;
            is_empty(&weir).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_one_answer_holds_no_permit() {
    let big = "x".repeat(300_000);
    let backend = Backend::answering(move |seen| match seen.target() {
        "/big" => Answer::with("200 OK", &[], &big),
        _ => Answer::ok(),
    });
    let own = "[upstreams.own]\nrespond = { body = \"own\" }\n\
               [[routes]]\npath = \"/own\"\nupstream = \"own\"\n";
    let config = upstream("max_in_flight = 1", "", &backend) + own;
    let weir = Weir::with("write_timeout = \"600ms\"", &config).await;
    // The stream's window is the client's to open; the connection's is wide.
    let mut settings = h2::client::Builder::new();
    settings
        .initial_window_size(1_000)
        .initial_connection_window_size(1 << 20);
    let client = Multiplexed::with(weir.listen(), &settings).await;
    let stalled = client.asks("/big").await;
    let mut answer = soon("an answer", stalled.answer).await.expect("an answer");
    weir.shows("weir_in_flight{upstream=\"main\"}", 1.0).await;
    let begun = Instant::now();
    // The next waits for the one permit, on the same connection, which takes others.
    let next = client.asks("/next").await;
    while begun.elapsed() < ms(1_000) {
        assert_eq!(client.get("/own").await.text(), "own");
        tokio::time::sleep(ms(50)).await;
    }
    let next = next.reply().await;
    assert_eq!((next.status, next.text()), (200, "ok"));
    assert!(begun.elapsed() >= ms(500), "{:?}", begun.elapsed());
    weir.shows("weir_streams_timed_out_total", 1.0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    // Reading on then ends in a reset, not in what looks like the whole.
    let mut read = 0;
    let ended = loop {
        match soon("more", answer.body_mut().data()).await {
            Some(Ok(chunk)) => {
                read += chunk.len();
                let control = answer.body_mut().flow_control();
                control.release_capacity(chunk.len()).expect("capacity");
            }
            Some(Err(reset)) => break Some(reset),
            None => break None,
        }
    };
    assert!(
        read < 300_000 && ended.is_some(),
        "{read} bytes, then {ended:?}"
    );
    assert_eq!(
        client.get("/after").await.status,
        200,
        "the connection stays"
    );
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_any_answer_loses_its_connection() {
    let big = "x".repeat(300_000);
    let backend = Backend::answering(move |seen| match seen.target() {
        "/big" => Answer::with("200 OK", &[], &big),
        _ => Answer::ok(),
    });
    let config = upstream("max_in_flight = 2", "", &backend);
    let weir = Weir::with("write_timeout = \"500ms\"", &config).await;
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(0);
    let client = Multiplexed::with(weir.listen(), &settings).await;
    let mut exchanges = Vec::new();
    for _ in 0..40 {
        exchanges.push(client.asks("/big").await);
    }
    weir.shows("weir_in_flight{upstream=\"main\"}", 2.0).await;
    // Two at a time, each for its timeout, would take ten seconds.
    let begun = Instant::now();
    assert_eq!(weir.get("/other").await.status, 200);
    assert!(begun.elapsed() < ms(5_000), "{:?}", begun.elapsed());
    weir.has_connections(0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    drop(exchanges);
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_one_that_waits_is_not() {
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/s\"\nburst = 5", &backend);
    let weir = Weir::with("idle_timeout = \"300ms\"", &config).await;
    let idle = Multiplexed::connect(weir.listen()).await;
    let waits = Multiplexed::connect(weir.listen()).await;
    assert_eq!(idle.get("/").await.status, 200);
    let reply = waits.get("/").await;
    assert_eq!(reply.status, 200, "it waited for a second");
    // Cut, as one of HTTP/1.1 is.
    drop(idle.ended().await);
    drop(waits.ended().await);
    weir.shows(
        "weir_connections_timed_out_total{listener=\"requests\"}",
        2.0,
    )
    .await;
    weir.has_connections(0).await;
}

#[tokio::test]
async fn the_end_serves_those_who_wait_and_takes_nobody_new() {
    let backend = Backend::start();
    let mut weir = Weir::start(&one_limit("rate = \"10r/s\"\nburst = 9", &backend)).await;
    let client = Multiplexed::connect(weir.listen()).await;
    let _silent = Multiplexed::connect(weir.listen()).await;
    let mut exchanges = Vec::new();
    for _ in 0..6 {
        exchanges.push(client.asks("/").await);
    }
    weir.has_waiting(5).await;
    weir.signal(Signal::TERM);
    for exchange in exchanges {
        assert_eq!(exchange.reply().await.status, 200);
    }
    assert!(
        client.try_begin(get("/late"), false).await.is_err(),
        "GOAWAY came"
    );
    assert_eq!(weir.ended().await, Some(0));
    assert_eq!(backend.seen().len(), 6);
}

/// Requests that are refused as they would be over HTTP/1.1.
#[tokio::test]
async fn what_servers_could_read_in_two_ways_is_refused_and_other_streams_go_on() {
    let backend = Backend::start();
    let weir = Weir::with("max_header_bytes = \"8 KiB\"", &route("", &backend)).await;
    let client = Multiplexed::connect(weir.listen()).await;
    let ask = |method: &str, uri: &str| Request::builder().method(method).uri(uri);
    let big = "x".repeat(9_000);
    let many = (0..101).fold(ask("GET", "http://a/"), |request, _| {
        request.header("x-a", "b")
    });
    for (status, request) in [
        (400, ask("GET", "http://a/").header("host", "b")),
        (400, ask("TRACE", "http://a/")),
        (400, ask("GET", "http://u@a/")),
        (400, ask("GET", "http://a/x/../y")),
        (400, ask("GET", "http://a/x/%2e%2e/y")),
        (400, ask("GET", "http://a/x%5Cy")),
        (431, ask("GET", "http://a/").header("x-big", &big)),
        (431, ask("GET", &format!("http://a/{big}"))),
        (431, many),
    ] {
        let request = request.body(()).expect("a request");
        let shown = format!("{request:?}").chars().take(90).collect::<String>();
        let reply = client.begin(request, false).await.reply().await;
        assert_eq!(reply.status, status, "{shown}");
        assert_eq!(reply.json()["status"], status, "{shown}");
        assert!(reply.header("proxy-status").is_some(), "{shown}");
    }
    let connect = Request::builder()
        .method("CONNECT")
        .uri("a:80")
        .body(())
        .expect("a request");
    assert_eq!(client.begin(connect, false).await.reply().await.status, 400);
    assert_eq!(backend.seen().len(), 0);
    assert_eq!(client.get("/").await.status, 200);
}

#[tokio::test]
async fn a_body_that_differs_from_its_length_is_not_passed_on_as_whole() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    let client = Multiplexed::connect(weir.listen()).await;
    for (length, sent) in [(10, "short"), (3, "too long")] {
        let request = Request::post("http://weir.test/").header("content-length", length);
        let mut exchange = client
            .begin(request.body(()).expect("a request"), true)
            .await;
        let told = exchange
            .body
            .send_data(Bytes::from_static(sent.as_bytes()), true);
        let reply = exchange.try_reply().await;
        assert!(
            told.is_err() || reply.as_ref().map_or(true, |reply| reply.status != 200),
            "{length}: {reply:?}"
        );
    }
    assert!(
        backend.seen().iter().all(|seen| !seen.whole),
        "none came whole"
    );
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    assert_eq!(client.get("/").await.status, 200);
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET / ` of `weir.test`, whole.
fn headers(stream: u32) -> Vec<u8> {
    frame(1, 5, stream, b"\x82\x86\x84\x41\x09weir.test")
}

/// What a client may send without end.
fn floods() -> [(&'static str, Vec<u8>); 6] {
    let mut resets = Vec::new();
    for stream in (1..20_000).step_by(2) {
        resets.extend(headers(stream));
        resets.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
    }
    let mut continuations = frame(1, 1, 1, b"\x82\x86\x84");
    let piece: Vec<u8> = b"\x40\x01a\x01b".repeat(1_000);
    for _ in 0..2_000 {
        continuations.extend(frame(9, 0, 1, &piece));
    }
    let mut empty = frame(1, 4, 1, b"\x83\x86\x84\x41\x09weir.test");
    empty.extend(frame(0, 0, 1, &[]).repeat(300_000));
    [
        ("resets", resets),
        ("pings", frame(6, 0, 0, b"12345678").repeat(200_000)),
        (
            "settings",
            frame(4, 0, 0, &[0, 3, 0, 0, 0, 50]).repeat(200_000),
        ),
        ("continuations", continuations),
        ("empty data", empty),
        ("windows", frame(8, 0, 0, &[0, 0, 0, 1]).repeat(200_000)),
    ]
}

#[tokio::test]
async fn floods_of_frames_cost_their_sender_the_connection_and_others_nothing() {
    let backend = Backend::start();
    let weir = Weir::with(
        "idle_timeout = \"2s\"\nwrite_timeout = \"1s\"",
        &route("", &backend),
    )
    .await;
    let mut patient = weir.client().await;
    let before = weir.memory();
    for (name, flood) in floods() {
        let mut stream = TcpStream::connect(weir.listen()).await.expect("weir");
        stream.write_all(PREFACE).await.expect("room");
        stream.write_all(&frame(4, 0, 0, &[])).await.expect("room");
        // It never reads: what it makes weir say piles up with itself.
        let attack = tokio::spawn(async move {
            let _cut = stream.write_all(&flood).await;
            stream
        });
        let mut slowest = ms(0);
        for _ in 0..20 {
            let begun = Instant::now();
            assert_eq!(patient.get("/").await.status, 200);
            slowest = slowest.max(begun.elapsed());
        }
        assert!(
            slowest < ms(1_000),
            "{name}: another client waited for {slowest:?}"
        );
        drop(soon(name, attack).await.expect("no panic"));
        weir.has_connections(1).await;
        let grown = weir.memory().saturating_sub(before);
        assert!(grown < 40_000, "{name}: {grown} KiB more");
    }
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    let ended = weir
        .metric("weir_connections_failed_total{listener=\"requests\",kind=\"http2\"}")
        .await;
    assert!(
        ended >= 2.0,
        "resets and continuations end the connection: {ended}"
    );
}
