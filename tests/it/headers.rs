//! Which headers go through, which stay, and which does weir set?

use crate::harness::{Answer, Backend, Request, Seen, Weir, route, upstream};

async fn forwarded(server: &str, upstream_keys: &str, request: &Request) -> Seen {
    let backend = Backend::start();
    let weir = Weir::with(server, &upstream(upstream_keys, "", &backend)).await;
    assert_eq!(weir.client().await.ask(request).await.status, 200);
    backend.only()
}

#[tokio::test]
async fn headers_of_one_connection_go_no_further() {
    let request = Request::get("/")
        .with("Connection", "keep-alive, X-Private, Upgrade")
        .with("Connection", "x-other")
        .with("Keep-Alive", "timeout=5")
        .with("Proxy-Connection", "keep-alive")
        .with("X-Private", "1")
        .with("X-Other", "1")
        .with("Upgrade", "h2c")
        .with("TE", "trailers, deflate")
        .with("X-Kept", "one")
        .with("X-Kept", "two")
        .with("Authorization", "Basic eA==")
        .with("Accept-Encoding", "br;q=0.5");
    let seen = forwarded("", "", &request).await;
    for name in [
        "keep-alive",
        "proxy-connection",
        "x-private",
        "x-other",
        "upgrade",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(seen.headers("x-kept"), ["one", "two"]);
    assert_eq!(seen.header("authorization"), Some("Basic eA=="));
    assert_eq!(seen.header("accept-encoding"), Some("br;q=0.5"));
    assert_eq!(seen.header("accept"), None, "nothing is added");
    assert_eq!(seen.header("user-agent"), None, "nothing is added");
}

#[tokio::test]
async fn connection_cannot_make_vanish_what_protects_the_upstream() {
    let names = "Host, Content-Length, Authorization, X-Forwarded-For, X-Request-Id, Via";
    let request = Request::post("/", "body")
        .with("Connection", names)
        .with("Authorization", "Basic eA==");
    let seen = forwarded("", "", &request).await;
    assert_eq!(seen.header("authorization"), Some("Basic eA=="));
    assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
    assert!(seen.header("x-request-id").is_some() && seen.header("via").is_some());
    assert!(seen.header("host").is_some());
    assert_eq!(seen.body, b"body");
}

#[tokio::test]
async fn an_answers_headers_of_one_connection_go_no_further() {
    let backend = Backend::answering(|_| {
        let fields = [
            ("Connection", "keep-alive, X-Private"),
            ("Keep-Alive", "timeout=5"),
            ("X-Private", "1"),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("Via", "1.1 other"),
            ("Server", "theirs"),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        Answer::with("200 Fine", &fields, "ok")
    });
    let weir = Weir::start(&route("", &backend)).await;
    let response = weir.get("/").await;
    assert_eq!(response.header("x-private"), None);
    assert_eq!(response.header("keep-alive"), None);
    assert_eq!(response.headers("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(response.headers("via").join(", "), "1.1 other, 1.1 weir");
    assert_eq!(response.header("server"), Some("theirs"));
    let date = response.header("date");
    assert_eq!(date, Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(response.header("proxy-status"), None, "it is theirs");
}

fn with_forwarded() -> Request {
    Request::get("/")
        .with("X-Forwarded-For", "203.0.113.9")
        .with("X-Forwarded-Proto", "https")
        .with("X-Forwarded-Host", "shop.example")
        .with("Forwarded", "for=203.0.113.9")
        .with("X-Real-IP", "203.0.113.9")
        .with("X_Forwarded_For", "203.0.113.9")
        .with("X_Real_IP", "203.0.113.9")
        .with("Via", "1.0 before")
}

#[tokio::test]
async fn an_untrusted_peer_says_nothing_about_where_it_comes_from() {
    let seen = forwarded("", "", &with_forwarded()).await;
    assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen.header("x-forwarded-proto"), Some("http"));
    assert_eq!(seen.header("x-forwarded-host"), Some("weir.test"));
    for name in ["forwarded", "x-real-ip", "x_forwarded_for", "x_real_ip"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    let leaks = seen.fields.iter().any(|(_, value)| value.contains("203.0"));
    assert!(!leaks, "{:?}", seen.fields);
    assert_eq!(seen.headers("via").join(", "), "1.0 before, 1.1 weir");
}

#[tokio::test]
async fn a_trusted_proxy_is_believed_and_added_to() {
    let server = "trusted_proxies = [\"127.0.0.0/8\"]";
    let seen = forwarded(server, "", &with_forwarded()).await;
    let list = seen.header("x-forwarded-for");
    assert_eq!(list, Some("203.0.113.9, 127.0.0.1"));
    assert_eq!(seen.header("x-forwarded-proto"), Some("https"));
    assert_eq!(seen.header("x-forwarded-host"), Some("shop.example"));
    assert_eq!(seen.header("forwarded"), Some("for=203.0.113.9"));
}

#[tokio::test]
async fn set_headers_replace_what_the_client_sent() {
    let keys = "set_headers = { authorization = \"Bearer s3cret\", x-from = \"weir\" }";
    let request = Request::get("/")
        .with("Authorization", "Basic eA==")
        .with("AUTHORIZATION", "Basic eQ==");
    let seen = forwarded("", keys, &request).await;
    assert_eq!(seen.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(seen.header("x-from"), Some("weir"));
}

#[tokio::test]
async fn the_host_is_the_upstreams_or_the_clients() {
    let backend = Backend::start();
    for (keys, host) in [
        ("", backend.address().to_string()),
        ("host = \"upstream\"", backend.address().to_string()),
        ("host = \"client\"", "weir.test".to_owned()),
    ] {
        let weir = Weir::start(&upstream(keys, "", &backend)).await;
        assert_eq!(weir.get("/").await.status, 200);
        let seen = backend.seen().pop().expect("a request");
        assert_eq!(seen.header("host"), Some(host.as_str()), "{keys}");
    }
    let weir = Weir::start(&upstream("host = \"client\"", "", &backend)).await;
    let mut old = weir.client().await;
    old.send("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(old.response().await.status, 200);
    let seen = backend.seen().pop().expect("a request");
    assert_eq!(seen.header("host"), Some(&*backend.address().to_string()));
    assert_eq!(seen.header("via"), Some("1.0 weir"));
    assert!(seen.line.ends_with(" HTTP/1.1"), "{}", seen.line);
}

#[tokio::test]
async fn values_pass_as_bytes() {
    let backend = Backend::answering(|_| {
        Answer::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Odd: \xe9\x80\xff \"q\"\r\n\r\n")
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    client
        .send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Odd: \xe9\xff\tx\r\nX-Empty:\r\n\r\n")
        .await;
    let answer = client.some().await;
    let passed = answer.windows(7).any(|it| it == b"\xe9\x80\xff \"q\"");
    assert!(passed, "{}", String::from_utf8_lossy(&answer));
    let seen = backend.only();
    assert_eq!(seen.header("x-empty"), Some(""));
    assert_eq!(seen.header("x-odd"), Some("\u{fffd}\u{fffd}\tx"));
}
