//! Under which key is a request counted?

use std::net::Ipv4Addr;

use crate::harness::{Backend, Client, Request, Weir, route};

/// One an hour for each key: the second of two with one key is refused.
fn config(key: &str, backend: &Backend) -> String {
    format!(
        "[limits.main]\nkey = \"{key}\"\nrate = \"1r/h\"\n{}",
        route("limits = [\"main\"]", backend)
    )
}

const TRUSTED: &str = "trusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\", \"fd00::/8\"]";

#[tokio::test]
async fn an_untrusted_peer_cannot_choose_its_key() {
    let backend = Backend::start();
    let weir = Weir::start(&config("{ip}", &backend)).await;
    let mut client = weir.client().await;
    assert_eq!(client.get("/").await.status, 200);
    for (name, value) in [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("Forwarded", "for=203.0.113.9"),
        ("X-Real-IP", "203.0.113.9"),
        ("X_Forwarded_For", "203.0.113.9"),
    ] {
        let request = Request::get("/").with(name, value);
        assert_eq!(client.ask(&request).await.status, 429, "{name}: {value}");
    }
    let from = Ipv4Addr::new(127, 0, 0, 2);
    let mut other = Client::connect_from(from, weir.listen()).await;
    assert_eq!(other.get("/").await.status, 200);
}

#[tokio::test]
async fn whom_a_limit_skips_it_does_not_count() {
    let backend = Backend::start();
    let limit = "skip = [\"127.0.0.2\", \"198.51.100.0/24\"]\nskip_methods = [\"OPTIONS\"]\n\
                 skip_keys = [\"batch\"]\n";
    let config = config("{header.x-user|ip}", &backend);
    let config = config.replacen("rate =", &format!("{limit}rate ="), 1);
    let weir = Weir::with(TRUSTED, &config).await;
    let ask = async |request: Request| weir.client().await.ask(&request).await.status;
    assert_eq!(ask(Request::get("/")).await, 200);
    assert_eq!(ask(Request::get("/")).await, 429);
    for _ in 0..3 {
        let from = Ipv4Addr::new(127, 0, 0, 2);
        let mut internal = Client::connect_from(from, weir.listen()).await;
        assert_eq!(internal.get("/").await.status, 200);
        let behind = Request::get("/").with("X-Forwarded-For", "198.51.100.7");
        assert_eq!(ask(behind).await, 200);
        assert_eq!(ask(Request::new("OPTIONS", "/")).await, 200);
        assert_eq!(ask(Request::get("/").with("X-User", "batch")).await, 200);
    }
    assert_eq!(ask(Request::get("/").with("X-User", "alice")).await, 200);
    assert_eq!(ask(Request::get("/").with("X-User", "alice")).await, 429);
    // Nobody takes an exempt address for its own.
    let other = Ipv4Addr::new(127, 0, 0, 3);
    let stranger = Request::get("/").with("X-Forwarded-For", "198.51.100.7");
    let mut client = Client::connect_from(other, weir.listen()).await;
    assert_eq!(client.ask(&stranger).await.status, 200);
    assert_eq!(client.ask(&stranger).await.status, 429);
}

#[tokio::test]
async fn a_token_says_who_is_counted_and_nobody_else_does() {
    let backend = Backend::start();
    let weir = Weir::start(&config("{jwt.sub|ip}", &backend)).await;
    let mut client = weir.client().await;
    // {"sub":"alice"} and {"sub":"carol"}
    let alice = "Bearer e30.eyJzdWIiOiJhbGljZSJ9.c2ln";
    let carol = "Bearer e30.eyJzdWIiOiJjYXJvbCJ9.c2ln";
    for (token, status) in [(alice, 200), (alice, 429), (carol, 200), (carol, 429)] {
        let request = Request::get("/").with("Authorization", token);
        assert_eq!(client.ask(&request).await.status, status, "{token}");
    }
    let broken = Request::get("/").with("Authorization", "Bearer e30.e30.c2ln");
    assert_eq!(client.ask(&broken).await.status, 200, "by its address");
    assert_eq!(client.ask(&broken).await.status, 429);
    assert_eq!(client.get("/").await.status, 429);
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_address_is_found_from_the_right() {
    let backend = Backend::start();
    let weir = Weir::with(TRUSTED, &config("{ip}", &backend)).await;
    let mut proxy = weir.client().await;
    let forwarded = |lines: &[&str]| {
        let request = Request::get("/");
        lines.iter().fold(request, |request, line| {
            request.with("X-Forwarded-For", line)
        })
    };
    // The first of each takes its key's one place; the others have that key too.
    let same: [&[&[&str]]; 4] = [
        &[
            &["203.0.113.1"],
            &["198.51.100.7, 203.0.113.1"],
            &["198.51.100.7", "203.0.113.1"],
            &["203.0.113.1, 10.2.2.2"],
            &["203.0.113.1:4711"],
            &["::ffff:203.0.113.1"],
            &["garbage, 203.0.113.1, 10.0.0.1"],
            &["198.51.100.7 ,\t203.0.113.1 "],
        ],
        &[
            &["2001:db8::1"],
            &["[2001:db8::1]:4711"],
            &["[2001:db8::1]"],
            // One network of 64 bits is one client.
            &["2001:db8::ffff:1"],
            &["9.9.9.9, 2001:db8::2, fd00::1"],
        ],
        &[&["2001:db8:0:1::1"], &["2001:db8:0:1::2"]],
        &[&["10.3.3.3"], &["10.3.3.3, 10.2.2.2"]],
    ];
    for lines in same {
        for (index, lines) in lines.iter().enumerate() {
            let status = proxy.ask(&forwarded(lines)).await.status;
            assert_eq!(status, if index == 0 { 200 } else { 429 }, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn what_is_no_address_makes_the_peer_count() {
    let backend = Backend::start();
    let weir = Weir::with(TRUSTED, &config("{ip}", &backend)).await;
    let mut proxy = weir.client().await;
    assert_eq!(proxy.get("/").await.status, 200);
    let commas = ",".repeat(10 << 10);
    let spaces = " ".repeat(10 << 10);
    let long = format!("203.0.113.9, {}", "9".repeat(10 << 10));
    for value in [
        "",
        "unknown",
        "203.0.113.9, unknown",
        "203.0.113.9, ,",
        "203.0.113.9,",
        "1.2.3",
        "1.2.3.4.5",
        "203.0.113.9 evil",
        "[2001:db8::1",
        "2001:db8::1]:80",
        "203.0.113.9:port",
        "0x7f.1",
        "<script>",
        &commas,
        &spaces,
        &long,
    ] {
        let request = Request::get("/").with("X-Forwarded-For", value);
        let response = proxy.ask(&request).await;
        assert_eq!(response.status, 429, "{value:.40}");
    }
    for value in ["for=unknown", "for=_hidden", "proto=https", "for=", "for"] {
        let request = Request::get("/").with("Forwarded", value);
        assert_eq!(proxy.ask(&request).await.status, 429, "{value}");
    }
    let mut bytes = Request::get("/").bytes();
    bytes.truncate(bytes.len() - 2);
    bytes.extend(b"X-Forwarded-For: \xff\xfe\r\n\r\n");
    proxy.send(bytes).await;
    assert_eq!(proxy.response().await.status, 429);
}

#[tokio::test]
async fn odd_keys_are_keys_of_their_own() {
    let backend = Backend::start();
    let weir = Weir::start(&config("{header.x-key}", &backend)).await;
    let mut client = weir.client().await;
    let series = weir.metrics().await.names().len();
    let long = "k".repeat(50 << 10);
    let longer = format!("{long}k");
    let keys: [&[u8]; 20] = [
        b"a",
        b"A",
        b"{",
        b"}",
        b"{}",
        b"a{b}c",
        b"a b",
        b"a  b",
        b"a,b",
        b"%2F",
        b"/",
        b"%2f",
        b"\"a\"",
        b"a\\b",
        b"\xf0\x9f\x98\x80",
        b"\xff",
        b"\xfe",
        b"*",
        long.as_bytes(),
        longer.as_bytes(),
    ];
    for status in [200, 429] {
        for key in keys {
            let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Key: ";
            client.send([head, key, b"\r\n\r\n"].concat()).await;
            let shown = String::from_utf8_lossy(&key[..key.len().min(20)]);
            assert_eq!(client.response().await.status, status, "{shown}");
        }
    }
    let metrics = weir.metrics().await;
    assert_eq!(metrics.names().len(), series);
    let buckets = metrics.value("weir_buckets{limit=\"main\"}");
    assert!((buckets - 20.0).abs() < 1e-9, "{buckets}");
    // NUL and bare line ends never get so far.
    for odd in [&b"a\0b"[..], b"a\rb", b"a\nb"] {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Key: ";
        let mut client = weir.client().await;
        client.send([head, odd, b"\r\n\r\n"].concat()).await;
        assert_eq!(client.response().await.status, 400);
    }
}

#[tokio::test]
async fn one_key_is_one_bucket_however_it_is_written() {
    let backend = Backend::start();
    for (key, same, other) in [
        (
            "{path}",
            &["/a%2fb", "/a%2Fb", "/%61%2Fb", "/a%2fb?x"][..],
            "/a/b",
        ),
        (
            "{query.k}",
            &["/?k=a+b", "/x?k=a%20b", "/?%6B=a+b&l=1"][..],
            "/?k=a%2Bb",
        ),
        ("{route}", &["/", "/x"][..], ""),
        ("{header.x-none|ip}", &["/", "/x"][..], ""),
        ("constant", &["/", "/x"][..], ""),
    ] {
        let weir = Weir::start(&config(key, &backend)).await;
        let mut client = weir.client().await;
        for (index, target) in same.iter().enumerate() {
            let status = client.get(target).await.status;
            assert_eq!(status, if index == 0 { 200 } else { 429 }, "{key} {target}");
        }
        if !other.is_empty() {
            assert_eq!(client.get(other).await.status, 200, "{key} {other}");
        }
    }
}

#[tokio::test]
async fn a_header_never_shares_a_bucket_with_the_address_it_names() {
    let backend = Backend::start();
    let weir = Weir::start(&config("{header.x-user|ip}", &backend)).await;
    let mut client = weir.client().await;
    let user = Request::get("/").with("X-User", "127.0.0.1");
    assert_eq!(client.ask(&user).await.status, 200);
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.ask(&user).await.status, 429);
    assert_eq!(client.get("/").await.status, 429);
    let weir = Weir::start(&config("{header.x-a}{header.x-b}", &backend)).await;
    let mut client = weir.client().await;
    for (a, b) in [("a", "bc"), ("ab", "c"), ("abc", "-")] {
        let request = Request::get("/").with("X-A", a).with("X-B", b);
        assert_eq!(client.ask(&request).await.status, 200, "{a} {b}");
    }
}
