//! What does an upstream see of a client's headers?

use std::time::Duration;

use http::Request;

use super::*;
use crate::forward::{Protocol, TlsFiles};

fn target(host: HostSent, set_headers: &[(&'static str, &'static str)]) -> ServerTarget {
    ServerTarget {
        scheme: http::uri::Scheme::HTTP,
        authority: "upstream.example:81".parse().expect("an authority"),
        base_path: None,
        timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(1),
        set_headers: set_headers
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect(),
        host,
        protocol: Protocol::Auto,
        tls: TlsFiles::default(),
        health: None,
    }
}

fn sent(lines: &[(&str, &str)], trusted: bool, target: &ServerTarget) -> Vec<String> {
    let request = lines
        .iter()
        .fold(Request::get("/"), |request, (name, value)| {
            request.header(*name, *value)
        });
    let (mut parts, ()) = request.body(()).expect("a request").into_parts();
    let hop = Hop {
        peer: &HeaderValue::from_static("192.0.2.1"),
        secure: false,
        trusted,
    };
    to_upstream(&mut parts, hop, target);
    let mut sent: Vec<String> = parts
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
        .collect();
    sent.sort();
    sent
}

const OWN: [&str; 3] = [
    "via: 1.1 weir",
    "x-forwarded-for: 192.0.2.1",
    "x-forwarded-proto: http",
];

#[test]
fn headers_of_one_connection_stay_here() {
    let got = sent(
        &[
            ("host", "client.example"),
            ("connection", "close, X-Hop , host"),
            ("connection", "x-more"),
            ("x-hop", "1"),
            ("x-more", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "Basic x"),
            ("x-end", "kept"),
        ],
        false,
        &target(HostSent::Upstream, &[]),
    );
    let mut expected = vec![
        "host: upstream.example:81",
        "te: trailers",
        "x-end: kept",
        "x-forwarded-host: client.example",
    ];
    expected.extend(OWN);
    expected.sort_unstable();
    assert_eq!(got, expected);
}

#[test]
fn only_a_trusted_proxy_says_where_a_request_came_from() {
    let lines = [
        ("host", "client.example"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-host", "spoofed"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
        ("x_forwarded_for", "203.0.113.9"),
    ];
    let target = target(HostSent::Client, &[]);
    let mut expected = vec!["host: client.example", "x-forwarded-host: client.example"];
    expected.extend(OWN);
    expected.sort_unstable();
    assert_eq!(sent(&lines, false, &target), expected);
    let trusted = sent(&lines, true, &target);
    for line in [
        "x-forwarded-for: 203.0.113.9, 192.0.2.1",
        "x-forwarded-host: spoofed",
        "x-forwarded-proto: https",
    ] {
        assert!(
            trusted.iter().any(|sent| sent == line),
            "{line} is not in {trusted:?}"
        );
    }
}

#[test]
fn set_headers_replace_the_clients() {
    let lines = [
        ("host", "client.example"),
        ("authorization", "Bearer client"),
        ("authorization", "twice"),
    ];
    let got = sent(
        &lines,
        false,
        &target(HostSent::Upstream, &[("authorization", "Bearer weir")]),
    );
    let authorization: Vec<_> = got
        .iter()
        .filter(|line| line.starts_with("authorization"))
        .collect();
    assert_eq!(authorization, ["authorization: Bearer weir"]);
}

/// What an upstream by HTTP/2 gets for a request that came by HTTP/2.
fn by_http2(host: HostSent, lines: &[(&str, &str)]) -> Request<()> {
    let request = Request::get("https://client.example/a%2Fb?c");
    let request = lines.iter().fold(
        request.version(Version::HTTP_2),
        |request, (name, value)| request.header(*name, *value),
    );
    let (mut parts, ()) = request.body(()).expect("a request").into_parts();
    let hop = Hop {
        peer: &HeaderValue::from_static("192.0.2.1"),
        trusted: false,
        secure: false,
    };
    to_upstream(&mut parts, hop, &target(host, &[]));
    parts.uri = "/base/a%2Fb?c".parse().expect("a path");
    to_http2(&parts, &target(host, &[]))
}

#[test]
fn a_request_by_http_2_has_an_authority_and_no_host() {
    let lines = [("te", "trailers"), ("cookie", "a=1"), ("cookie", "b=2")];
    for (host, authority) in [
        (HostSent::Upstream, "upstream.example:81"),
        (HostSent::Client, "client.example"),
    ] {
        let head = by_http2(host, &lines);
        assert_eq!(
            head.uri().to_string(),
            format!("http://{authority}/base/a%2Fb?c"),
            "{host:?}"
        );
        assert_eq!(head.version(), Version::HTTP_2);
        let headers = head.headers();
        assert_eq!(headers.get("host"), None);
        assert_eq!(headers["x-forwarded-host"], "client.example");
        assert_eq!(headers["via"], "2.0 weir");
        assert_eq!(headers["te"], "trailers");
        let cookies: Vec<_> = headers.get_all("cookie").iter().collect();
        assert_eq!(cookies, ["a=1; b=2"], "crumbs make one cookie");
    }
}

#[test]
fn trailers_say_nothing_of_the_message_as_a_whole() {
    let mut trailers = HeaderMap::new();
    for name in ["grpc-status", "content-length", "host", "connection", "te"] {
        trailers.insert(name, HeaderValue::from_static("0"));
    }
    clean_trailers(&mut trailers);
    assert_eq!(trailers.keys().collect::<Vec<_>>(), ["grpc-status"]);
}
