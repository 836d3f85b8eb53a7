//! What does weir not let through, that servers might read in two ways?

use crate::harness::{
    Backend, Client, Heard, Response, Weir, Wire, ms, one_limit, route, together, until,
};

/// Whole requests as they would be sent.
const REQUESTS: &[(&str, &str)] = &[
    ("no Host", "GET / HTTP/1.1\r\n\r\n"),
    ("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    ("another Host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "another port",
        "GET http://a:1/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a user in the target",
        "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("another scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    ("all of it", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "a folded line",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n",
    ),
    (
        "a folded line first",
        "GET / HTTP/1.1\r\n Host: b\r\nHost: a\r\n\r\n",
    ),
    (
        "a space before the colon",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n",
    ),
    (
        "a tab before the colon",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A\t: b\r\n\r\n",
    ),
    (
        "a space in a name",
        "GET / HTTP/1.1\r\nHost: a\r\nX A: b\r\n\r\n",
    ),
    ("no colon", "GET / HTTP/1.1\r\nHost: a\r\nX-A\r\n\r\n"),
    ("no name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
    (
        "a NUL in a value",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: \0\r\n\r\n",
    ),
    (
        "a NUL in a name",
        "GET / HTTP/1.1\r\nHost: a\r\nX\0A: b\r\n\r\n",
    ),
    (
        "an escape in a value",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: \x1b[2J\r\n\r\n",
    ),
    (
        "a bare CR",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rX-B: c\r\n\r\n",
    ),
    (
        "a bare LF",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\nX-B: c\r\n\r\n",
    ),
    ("nothing but LF", "GET / HTTP/1.1\nHost: a\n\n"),
    ("an LF at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n"),
    ("a CR more", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
    ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("two spaces behind", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a tab", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a space before", " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "a space in the target",
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("HTTP/0.9", "GET /\r\n\r\n"),
    ("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    ("HTTP/1.2.3", "GET / HTTP/1.2.3\r\nHost: a\r\n\r\n"),
    ("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ("http/1.1", "GET / http/1.1\r\nHost: a\r\n\r\n"),
    ("an odd method", "G<T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a relative target", "GET x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "a DEL in the target",
        "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("a query's CR", "GET /?a\rb HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("TLS", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n\r\n"),
];

/// Values of a `Host` that is none.
const HOSTS: &[&str] = &[
    "", ":80", "a b", "a/b", "u@a", "a,b", "a, a", "a\\b", "a?b", "a#b", "a:b", "a:80:80", "a:-1",
    "a:65536", "[::1", "::1", "[::1]80", "a\"", "<a>", "\u{e9}",
];

/// Lines that say, of the body that follows, where it ends.
const FRAMINGS: &[&str] = &[
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Transfer-Encoding: chunked\r\nContent-Length: x",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5\r\ncontent-length: 0",
    "Content-Length: 5, 5",
    "Content-Length: 5, 6",
    "Content-Length: 5 5",
    "Content-Length: 5;",
    "Content-Length: +5",
    "Content-Length: -5",
    "Content-Length: 0x5",
    "Content-Length: 5e0",
    "Content-Length: 5.0",
    "Content-Length: \"5\"",
    "Content-Length:",
    "Content-Length: 99999999999999999999999",
    "Content-Length : 5",
    " Content-Length: 5",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunkedx",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: chunked,",
    "Transfer-Encoding: , chunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: chun ked",
    "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding: chunked\x0b",
    "Transfer-Encoding: chunked\0",
    "Transfer-Encoding: chunked\u{a0}",
    "Transfer-Encoding:",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding\r\n : chunked",
    "X: y\nTransfer-Encoding: chunked",
    "X: y\rTransfer-Encoding: chunked",
];

/// Bodies in chunks that aren't.
const CHUNKS: &[&str] = &[
    "\r\nab\r\n0\r\n\r\n",
    "zz\r\nab\r\n0\r\n\r\n",
    "+2\r\nab\r\n0\r\n\r\n",
    "-2\r\nab\r\n0\r\n\r\n",
    "0x2\r\nab\r\n0\r\n\r\n",
    "2h\r\nab\r\n0\r\n\r\n",
    "2_\r\nab\r\n0\r\n\r\n",
    " 2\r\nab\r\n0\r\n\r\n",
    "2 \r\nab\r\n0\r\n\r\n",
    "2\t\r\nab\r\n0\r\n\r\n",
    "2 2\r\nab\r\n0\r\n\r\n",
    "2\nab\r\n0\r\n\r\n",
    "2\rab\r\n0\r\n\r\n",
    "2;x\nab\r\n0\r\n\r\n",
    "2;\0\r\nab\r\n0\r\n\r\n",
    "2\r\nab0\r\n\r\n",
    "2\r\nab\n0\r\n\r\n",
    "1\r\nab\r\n0\r\n\r\n",
    "2\r\nab\r\n0\n\r\n",
    "2\r\nab\r\n0\r\n\n",
    "2\r\nab\r\n0\r\nX: y\n\r\n",
    "2\r\nab\r\n0 \r\n\r\n",
    "00000000000000002\r\nab\r\n0\r\n\r\n",
    "fffffffffffffffff\r\nab\r\n0\r\n\r\n",
    "ffffffffffffffff0\r\nab\r\n0\r\n\r\n",
];

/// A request that all servers read in one way.
const SOUND: &str = "GET /sound HTTP/1.1\r\nHost: a\r\n\r\n";

/// All of them.
fn malformed() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = REQUESTS
        .iter()
        .map(|(what, request)| ((*what).to_owned(), (*request).to_owned()))
        .collect();
    all.extend(HOSTS.iter().map(|host| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        (format!("{host:?} as Host"), request)
    }));
    all.extend(FRAMINGS.iter().map(|lines| {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n0\r\n\r\n");
        (format!("{lines:?}"), request)
    }));
    all.extend(CHUNKS.iter().map(|body| {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        (format!("{body:?} as chunks"), format!("{head}{body}"))
    }));
    all
}

fn to(wire: &Wire) -> String {
    format!(
        "[upstreams.main]\nurl = \"{}\"\n\
         [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n",
        wire.url()
    )
}

/// What is wrong with a refusal, if anything.
fn flaw(response: &Response) -> Option<String> {
    if response.status != 400 {
        return Some(format!("status {}", response.status));
    }
    if response.header("content-type") != Some("application/problem+json") {
        return Some("no problem".to_owned());
    }
    if response.problem_status() != 400 || response.header("proxy-status").is_none() {
        return Some(format!("{response:?}"));
    }
    None
}

#[tokio::test]
async fn what_servers_read_in_two_ways_gets_400_and_goes_no_further() {
    let wire = Wire::start();
    let weir = Weir::start(&to(&wire)).await;
    let cases = malformed();
    assert!(cases.len() > 120, "{}", cases.len());
    let mut flaws = Vec::new();
    for (what, request) in &cases {
        let mut client = weir.client().await;
        client.send(request).await;
        match client.try_response().await {
            Ok(response) => flaws.extend(flaw(&response).map(|flaw| format!("{what}: {flaw}"))),
            Err(failed) => flaws.push(format!("{what}: {failed}")),
        }
        // What follows must not be taken for a request.
        let rest = client.rest().await;
        if !rest.is_empty() {
            flaws.push(format!("{what}: {rest:?} follows"));
        }
    }
    assert!(flaws.is_empty(), "{flaws:#?}");
    assert_eq!(wire.take(), []);
}

#[tokio::test]
async fn what_comes_behind_a_sound_request_is_looked_at_as_well() {
    let wire = Wire::start();
    let weir = Weir::start(&to(&wire)).await;
    let mut flaws = Vec::new();
    let sound =
        |heard: &Heard| matches!(heard, Heard::Whole(bytes) if bytes.starts_with(b"GET /sound"));
    for (what, request) in &malformed() {
        let mut client = weir.client().await;
        client.send(format!("{SOUND}{request}")).await;
        let first = client.response().await;
        if first.status != 200 {
            flaws.push(format!("{what}: {} first", first.status));
            continue;
        }
        match client.try_response().await {
            Ok(second) => flaws.extend(flaw(&second).map(|flaw| format!("{what}: {flaw}"))),
            Err(failed) => flaws.push(format!("{what}: {failed}")),
        }
        client.rest().await;
        let heard = wire.take();
        if heard.len() != 1 || !heard.iter().all(sound) {
            flaws.push(format!("{what}: {heard:?}"));
        }
    }
    assert!(flaws.is_empty(), "{flaws:#?}");
}

#[tokio::test]
async fn a_chunk_that_is_none_breaks_off_what_is_under_way() {
    let cases = CHUNKS.iter().map(|body| async move {
        let backend = Backend::start();
        let weir = Weir::start(&route("", &backend)).await;
        let mut client = weir.client().await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}5\r\nfirst\r\n")).await;
        until("the first chunk at the backend", async || {
            let seen = backend.seen();
            let came = seen.first().is_some_and(|seen| seen.body == b"first");
            came.then_some(()).ok_or(format!("{seen:?}"))
        })
        .await;
        // One byte after the other: the last ones may find nobody any more.
        for byte in body.as_bytes() {
            if client.try_send([*byte]).await.is_err() {
                break;
            }
        }
        let response = client.response().await;
        assert_eq!(flaw(&response), None, "{body:?}");
        client.rest().await;
        backend.has_open(0).await;
        assert!(!backend.only().whole, "{body:?}");
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
        let left = "weir_requests_total{route=\"main\",outcome=\"left\"}";
        weir.shows(left, 1.0).await;
    });
    together(cases).await;
}

#[tokio::test]
async fn requests_in_one_write_are_answered_in_order() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 2", &backend)).await;
    let mut client = weir.client().await;
    let one = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    client
        .send(format!("{}{}{}", one("/1"), one("/2"), one("/3")))
        .await;
    for _ in 0..3 {
        assert_eq!(client.response().await.status, 200);
    }
    assert_eq!(backend.targets(), ["/1", "/2", "/3"]);
    assert!(client.is_silent_for(ms(20)).await);
}

#[tokio::test]
async fn a_foreign_name_does_not_reach_the_admin_listener() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]:9180", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ] {
        let mut client = Client::connect(weir.admin()).await;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.send(request).await;
        assert_eq!(client.response().await.status, status, "{host}");
    }
    assert_eq!(weir.page("/no-such-page").await.status, 404);
}
