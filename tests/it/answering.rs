//! Which bytes does a client get for the bytes that a backend sends?

use crate::harness::{Answer, Backend, Request, Weir, ms, route, together, upstream};

/// What an upstream says, and what its client gets.
const PASSED: &[(&str, &str)] = &[
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ),
    (
        "HTTP/1.1 299 Their own\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 299 Their own\r\ncontent-length: 0\r\n\r\n",
    ),
    (
        "HTTP/1.0 200 OK\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    (
        "HTTP/1.1 200 OK\nX: a\nContent-Length: 2\n\nok",
        "HTTP/1.1 200 OK\r\nx: a\r\ncontent-length: 2\r\n\r\nok",
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\nok\r\n0;z\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ),
    (
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ),
    (
        "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ),
    (
        "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n",
    ),
    (
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d, e=f\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nset-cookie: a=b\r\nset-cookie: c=d, e=f\r\ncontent-length: 2\r\n\r\nok",
    ),
    (
        "HTTP/1.1 200 OK\r\nConnection: close, X-Own\r\nX-Own: 1\r\nKeep-Alive: timeout=1\r\nProxy-Connection: x\r\n\
         Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nTE: x\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ),
    (
        "HTTP/1.1 200 OK\r\nX-Request-Id: theirs\r\nDate: x\r\nServer: y\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nserver: y\r\ncontent-length: 2\r\n\r\nok",
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\no",
    ),
    // These don't look whole.
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok!\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
    ),
];

/// What becomes a 502.
const BROKEN: &[&str] = &[
    "HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "<html>ok</html>",
    "ok\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 O\0K\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nX a\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nX: a\rY: b\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 2, 2\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
];

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// An answer without what weir adds, each of which must be there once.
fn bare(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return text;
    };
    let mut lines: Vec<&str> = head.split("\r\n").collect();
    for added in ["x-request-id: ", "date: ", "via: 1.", "connection: close"] {
        let before = lines.len();
        lines.retain(|line| !line.starts_with(added));
        assert_eq!(lines.len() + 1, before, "{added} in {text:?}");
    }
    format!("{}\r\n\r\n{body}", lines.join("\r\n"))
}

/// What a client gets from an upstream that says `answer` and closes.
async fn got(answer: &'static str) -> Vec<u8> {
    let backend = Backend::answering(move |_| Answer::raw(answer).close());
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    client.send(ASK).await;
    let got = client.rest().await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    got
}

#[tokio::test]
async fn a_client_gets_these_bytes_and_no_others() {
    let mut flaws = Vec::new();
    for (answer, wanted) in PASSED {
        let got = bare(&got(answer).await);
        if got != *wanted {
            flaws.push(format!(
                "{answer:?}\n  came as {got:?}\n  not as {wanted:?}"
            ));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

#[tokio::test]
async fn an_answer_that_clients_read_in_two_ways_is_a_502() {
    let mut flaws = Vec::new();
    for answer in BROKEN {
        let got = String::from_utf8_lossy(&got(answer).await).into_owned();
        let is_problem = got.contains("application/problem+json");
        if !is_problem || !got.starts_with("HTTP/1.1 502 Bad Gateway\r\n") {
            flaws.push(format!("{answer:?}\n  came as {got:?}"));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_answers_nobody() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/first" => Answer::raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
             HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        ),
        _ => Answer::ok(),
    });
    let weir = Weir::with("threads = 1", &route("", &backend)).await;
    for _ in 0..50 {
        let mut client = weir.client().await;
        assert_eq!(client.get("/first").await.text(), "ok");
        for _ in 0..2 {
            let next = client.get("/next").await;
            assert_eq!((next.status, next.text()), (200, "ok"));
        }
    }
}

#[tokio::test]
async fn an_upstream_that_never_comes_to_its_answer_is_given_up() {
    let cases = [
        "HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000),
        format!(
            "HTTP/1.1 103 Early Hints\r\nX: {}\r\n\r\n",
            "x".repeat(60_000)
        )
        .repeat(400),
    ];
    let cases = cases.map(|flood| async move {
        let backend = Backend::answering(move |_| Answer::raw(flood.clone()).hold());
        let weir = Weir::start(&upstream("timeout = \"500ms\"", "", &backend)).await;
        let before = weir.memory();
        let response = weir.get("/").await;
        assert_eq!(response.status, 504);
        let grown = weir.memory().saturating_sub(before);
        assert!(grown < 8 << 10, "{grown} KiB more than before");
    });
    together(cases).await;
}

#[tokio::test]
async fn a_head_of_an_answer_is_bounded_too() {
    let many = (0..400).fold(String::new(), |all, index| format!("{all}X-{index}: v\r\n"));
    let cases = [format!("X: {}\r\n", "x".repeat(2 << 20)), many].map(|lines| async move {
        let head = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok");
        let backend = Backend::answering(move |seen| match seen.target() {
            "/large" => Answer::raw(head.clone()),
            _ => Answer::ok().after(ms(1)),
        });
        let weir = Weir::start(&route("", &backend)).await;
        let mut client = weir.client().await;
        assert_eq!(client.get("/large").await.status, 502);
        assert_eq!(client.ask(&Request::get("/")).await.status, 200);
    });
    together(cases).await;
}
