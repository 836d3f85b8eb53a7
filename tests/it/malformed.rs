//! What does weir not let through, that servers might read in two ways?

use crate::harness::{Backend, Weir, ms, one_limit, route};

/// Whole requests as they would be sent; none may reach the upstream.
const MALFORMED: &[(&str, &str)] = &[
    ("no Host", "GET / HTTP/1.1\r\n\r\n"),
    ("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    ("a Host with spaces", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    ("a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    ("a Host with a user", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    ("another Host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    (
        "a length and chunks",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunks and a length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ),
    (
        "a list of lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\nab",
    ),
    (
        "a signed length",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
    ),
    (
        "a negative length",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ),
    (
        "a length in hex",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na",
    ),
    (
        "a huge length",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\na",
    ),
    (
        "another coding last",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    ),
    (
        "an unknown coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunks in HTTP/1.0",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "a folded line",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n",
    ),
    (
        "a space before the colon",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n",
    ),
    (
        "a space in a name",
        "GET / HTTP/1.1\r\nHost: a\r\nX A: b\r\n\r\n",
    ),
    ("no colon", "GET / HTTP/1.1\r\nHost: a\r\nX-A\r\n\r\n"),
    ("no name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
    ("a NUL", "GET / HTTP/1.1\r\nHost: a\r\nX-A: \0\r\n\r\n"),
    (
        "a bare CR",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rX-B: c\r\n\r\n",
    ),
    ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("no version", "GET /\r\n\r\n"),
    ("an odd version", "GET / HTTP/1.2.3\r\nHost: a\r\n\r\n"),
    ("an odd method", "G<T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a relative target", "GET x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("TLS", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n\r\n"),
];

#[tokio::test]
async fn what_servers_read_in_two_ways_gets_400_and_goes_no_further() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1000r/s\"\nburst = 99", &backend)).await;
    let mut passed = Vec::new();
    for (what, request) in MALFORMED {
        let mut client = weir.client().await;
        client.send(request).await;
        let response = client.try_response().await.expect(what);
        if !matches!(response.status, 400 | 505) {
            passed.push(format!("{what}: {}", response.status));
            continue;
        }
        // What follows must not be taken for a request.
        client.rest().await;
    }
    assert!(passed.is_empty(), "{passed:?}");
    assert_eq!(backend.targets(), [""; 0]);
}

#[tokio::test]
async fn what_is_refused_is_refused_with_a_problem() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    let mut bare = Vec::new();
    for (what, request) in MALFORMED {
        let mut client = weir.client().await;
        client.send(request).await;
        let response = client.response().await;
        if response.header("content-type") != Some("application/problem+json") {
            bare.push(*what);
        }
    }
    assert!(bare.is_empty(), "an empty answer to: {bare:?}");
}

#[tokio::test]
async fn a_chunk_that_is_none_never_makes_a_whole_request() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    for (what, body) in [
        ("no size", "\r\nab\r\n0\r\n\r\n"),
        ("an odd size", "zz\r\nab\r\n0\r\n\r\n"),
        ("a signed size", "+2\r\nab\r\n0\r\n\r\n"),
        ("a huge size", "fffffffffffffffff\r\nab\r\n0\r\n\r\n"),
        ("a longer chunk", "1\r\nab\r\n0\r\n\r\n"),
        ("a bare line end", "2\nab\r\n0\r\n\r\n"),
        ("a space before", " 2\r\nab\r\n0\r\n\r\n"),
    ] {
        let mut client = weir.client().await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}{body}")).await;
        let response = client.try_response().await;
        if let Ok(response) = response {
            assert_eq!(response.status, 400, "{what}");
        }
        client.rest().await;
    }
    let whole = backend.seen().iter().filter(|seen| seen.whole).count();
    assert_eq!(whole, 0);
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
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
        let mut client = crate::harness::Client::connect(weir.admin()).await;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.send(request).await;
        assert_eq!(client.response().await.status, status, "{host}");
    }
    assert_eq!(weir.page("/no-such-page").await.status, 404);
}
