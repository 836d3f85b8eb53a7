//! How do bodies pass, in both directions?

use std::time::Instant;

use crate::harness::{
    Answer, Backend, Request, Weir, clients, ms, one_limit, route, until, upstream,
};

const BIG: usize = 100 << 10;

fn big() -> Vec<u8> {
    b"0123456789abcdef".repeat(BIG / 16)
}

#[tokio::test]
async fn a_hundred_kilobytes_pass_both_ways_unchanged() {
    let backend = Backend::answering(|seen| {
        let text = String::from_utf8(big()).expect("text");
        match seen.target() {
            "/counted" => Answer::with("200 OK", &[], &text),
            "/chunked" => {
                let parts = text.as_bytes().chunks(7_001);
                let all = parts.fold(Answer::chunked("").read(), |answer, part| {
                    answer.chunk(std::str::from_utf8(part).expect("text"))
                });
                all.chunk("")
            }
            _ => Answer::raw(format!("HTTP/1.0 200 OK\r\n\r\n{text}")).close(),
        }
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    for target in ["/counted", "/chunked", "/closed"] {
        let response = client.ask(&Request::post(target, big())).await;
        assert_eq!(response.status, 200, "{target}");
        assert_eq!(response.body, big(), "{target}");
        let seen = backend.seen().pop().expect("a request");
        assert!(seen.whole && seen.body == big(), "{target}");
        assert_eq!(seen.header("content-length"), Some("102400"), "{target}");
    }
}

#[tokio::test]
async fn chunks_and_trailers_pass_both_ways() {
    let backend = Backend::answering(|_| {
        Answer::chunked("Trailer: X-Sum\r\n")
            .read()
            .chunk("ab")
            .chunk("cde")
            .send("0\r\nX-Sum: 5\r\n\r\n")
    });
    let weir = Weir::start(&one_limit("rate = \"50r/s\"\nburst = 9", &backend)).await;
    let mut client = weir.client().await;
    for _ in 0..3 {
        client
            .send(
                "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: X-Check\r\n\
                 Transfer-Encoding: chunked\r\n\r\n\
                 3;ext=1\r\nabc\r\n1\r\nd\r\n0\r\nX-Check: 4\r\n\r\n",
            )
            .await;
        let response = client.response().await;
        assert_eq!((response.text(), response.chunked), ("abcde", true));
        let [(name, value)] = &response.trailers[..] else {
            unreachable!("one trailer came: {:?}", response.trailers)
        };
        assert_eq!(
            (name.to_lowercase().as_str(), value.as_str()),
            ("x-sum", "5")
        );
        let seen = backend.seen().pop().expect("a request");
        assert!(seen.whole && seen.chunked);
        assert_eq!(seen.body, b"abcd");
        assert_eq!(seen.trailers.len(), 1, "{:?}", seen.trailers);
        assert_eq!(seen.header("te"), Some("trailers"));
    }
}

#[tokio::test]
async fn an_answer_flows_before_it_is_whole() {
    let backend = Backend::answering(|_| {
        Answer::chunked("")
            .chunk("one")
            .hold()
            .chunk("two")
            .chunk("")
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    client.send(Request::get("/").bytes()).await;
    let mut begun = String::new();
    while !begun.contains("one") {
        begun.push_str(&String::from_utf8_lossy(&client.some().await));
    }
    assert!(!begun.contains("two"));
    backend.let_go(1);
    let mut rest = String::new();
    while !rest.contains("two") {
        rest.push_str(&String::from_utf8_lossy(&client.some().await));
    }
}

#[tokio::test]
async fn a_request_flows_before_it_is_whole() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    for framing in ["Content-Length: 6", "Transfer-Encoding: chunked"] {
        let (one, two) = if framing.starts_with('C') {
            ("one", "two")
        } else {
            ("3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n")
        };
        let mut client = weir.client().await;
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{one}"
            ))
            .await;
        until("the first part at the backend", async || {
            let seen = backend.seen().pop();
            let body = seen.map(|seen| seen.body).unwrap_or_default();
            (body == b"one").then_some(()).ok_or(format!("{body:?}"))
        })
        .await;
        client.send(two).await;
        assert_eq!(client.response().await.status, 200);
        let seen = backend.seen().pop().expect("a request");
        assert_eq!(seen.body, b"onetwo", "{framing}");
    }
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_is_whole() {
    let backend = Backend::answering(|_| {
        Answer::nothing()
            .send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
            .close()
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhalf")
        .await;
    let response = client.response().await;
    assert_eq!((response.status, response.text()), (413, "big"));
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn what_is_left_of_a_request_goes_out_beside_its_answer() {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly";
    for last in ["late", "early"] {
        let backend = Backend::answering(move |_| {
            if last == "early" {
                return Answer::nothing().send(WHOLE).read();
            }
            let early = Answer::chunked("").chunk("early");
            early.read().chunk("late").chunk("")
        });
        let weir = Weir::start(&route("", &backend)).await;
        let mut client = weir.client().await;
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf")
            .await;
        let mut heard = String::new();
        while !heard.contains("early") {
            heard.push_str(&String::from_utf8_lossy(&client.some().await));
        }
        assert!(!heard.contains("late") && !backend.only().whole);
        client.send("half").await;
        while !heard.contains(last) {
            heard.push_str(&String::from_utf8_lossy(&client.some().await));
        }
        until("the rest at the backend", async || {
            let seen = backend.only();
            (seen.whole && seen.body == b"halfhalf")
                .then_some(())
                .ok_or(format!("{seen:?}"))
        })
        .await;
        // Where two messages went side by side, no third goes behind them.
        client.send(Request::get("/").bytes()).await;
        until("another connection", async || {
            let accepted = backend.accepted();
            (accepted == 2).then_some(()).ok_or(accepted.to_string())
        })
        .await;
    }
}

const EXPECT: &str = "POST /waits HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\
    Expect: 100-continue\r\n\r\n";

#[tokio::test]
async fn a_body_is_called_for_when_its_turn_has_come() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"4r/s\"\nburst = 2", &backend)).await;
    let begun = Instant::now();
    assert_eq!(weir.get("/first").await.status, 200);
    let mut client = weir.client().await;
    client.send(EXPECT).await;
    weir.has_waiting(1).await;
    if begun.elapsed() < ms(150) {
        assert!(client.is_silent_for(ms(50)).await, "it is not its turn yet");
    }
    let called = client.some().await;
    assert!(begun.elapsed() >= ms(250));
    assert!(called.starts_with(b"HTTP/1.1 100"), "{called:?}");
    client.send("body").await;
    assert_eq!(client.response().await.status, 200);
    let seen = backend.seen().pop().expect("a request");
    assert_eq!(
        (seen.target(), seen.body.as_slice()),
        ("/waits", &b"body"[..])
    );
}

#[tokio::test]
async fn a_body_is_not_called_for_where_its_request_is_refused() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/h\"", &backend)).await;
    assert_eq!(weir.get("/first").await.status, 200);
    let mut client = weir.client().await;
    client.send(EXPECT).await;
    let response = client.response().await;
    assert_eq!((response.status, response.interim.len()), (429, 0));
}

#[tokio::test]
async fn answers_without_a_body_end_with_their_head() {
    let backend = Backend::answering(|seen| match (seen.method(), seen.target()) {
        ("HEAD", _) => {
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 4321\r\nETag: \"x\"\r\n\r\n")
        }
        (_, "/204") => Answer::raw("HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"),
        (_, "/304") => Answer::raw("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
        _ => Answer::with("200 OK", &[], ""),
    });
    let config = upstream("max_in_flight = 1", "", &backend);
    let weir = Weir::start(&config).await;
    let mut client = weir.client().await;
    for _ in 0..2 {
        let head = client.head("/").await;
        assert_eq!(head.header("content-length"), Some("4321"));
        assert_eq!(head.header("etag"), Some("\"x\""));
        let empty = client.get("/204").await;
        assert_eq!((empty.status, empty.header("x-a")), (204, Some("b")));
        assert_eq!(empty.header("content-length"), None);
        let same = client.get("/304").await;
        assert_eq!((same.status, same.header("etag")), (304, Some("\"x\"")));
        assert_eq!(client.get("/").await.body, b"");
    }
}

#[tokio::test]
async fn an_early_hint_does_not_stand_for_the_answer() {
    let backend = Backend::answering(|_| {
        let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
        let processing = "HTTP/1.1 102 Processing\r\n\r\n";
        Answer::raw(format!(
            "{hint}{processing}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        ))
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut all = clients(&weir, 3).await;
    for client in &mut all {
        let response = client.get("/").await;
        assert_eq!((response.status, response.text()), (200, "ok"));
    }
}
