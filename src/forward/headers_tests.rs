//! What does an upstream see of a client's headers?

use std::time::Duration;

use http::Request;

use super::*;
use crate::forward::TlsFiles;

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
