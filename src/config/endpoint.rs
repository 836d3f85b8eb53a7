//! What does an upstream with a `url` say?

use std::ops::RangeInclusive;
use std::time::Duration;

use http::uri::{PathAndQuery, Scheme};

use super::field::Field;
use super::headers::set_headers;
use super::pem::{CERTIFICATE, PRIVATE_KEY, pem};
use super::section::Section;
use super::url::url;
use crate::forward::{Health, HostSent, Protocol, ServerTarget, TlsFiles};

/// The keys of an upstream that only go with a `url`.
pub(super) const SERVER_KEYS: [&str; 10] = [
    "timeout",
    "connect_timeout",
    "protocol",
    "set_headers",
    "host",
    "ca",
    "client_cert",
    "client_key",
    "health",
    "health_interval",
];

const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);
const CONNECT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_mins(5);
const HEALTH: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);

pub(super) fn server(section: &Section<'_>, url_field: &Field<'_>) -> Option<ServerTarget> {
    let url = url(url_field);
    let hosts = [
        ("upstream", HostSent::Upstream),
        ("client", HostSent::Client),
    ];
    let protocols = [
        ("auto", Protocol::Auto),
        ("http1", Protocol::Http1),
        ("h2", Protocol::Http2),
    ];
    let protocol = section.choice("protocol", Protocol::Auto, &protocols, &[]);
    let (timeout, connect) = (Duration::from_secs(30), Duration::from_secs(2));
    let timeout = section.duration("timeout", timeout, &TIMEOUT);
    let connect_timeout = section.duration("connect_timeout", connect, &CONNECT);
    let set_headers = set_headers(section);
    let host = section.choice("host", HostSent::Upstream, &hosts, &[]);
    let health = health(section);
    let tls = tls(section, url.as_ref().map(|url| &url.scheme));
    let url = url?;
    Some(ServerTarget {
        scheme: url.scheme,
        authority: url.authority,
        base_path: url.base_path,
        timeout,
        connect_timeout,
        set_headers,
        host,
        protocol,
        tls,
        health,
    })
}

fn health(section: &Section<'_>) -> Option<Health> {
    let interval = section.duration("health_interval", Duration::from_secs(5), &HEALTH);
    let Some(field) = section.get("health") else {
        section.refuse(&["health_interval"], "has no effect without health");
        return None;
    };
    let text = field.text()?.value;
    let path = text.parse::<PathAndQuery>().ok();
    let path = path.filter(|path| path.as_str() == text && text.starts_with('/'));
    if path.is_none() {
        field.refuse("is not a path like /health");
    }
    Some(Health {
        path: path?,
        interval,
    })
}

fn tls(section: &Section<'_>, scheme: Option<&Scheme>) -> TlsFiles {
    if scheme == Some(&Scheme::HTTP) {
        section.refuse(
            &["ca", "client_cert", "client_key"],
            "belongs to a url with https://",
        );
        return TlsFiles::default();
    }
    let file = |key, block| section.get(key).and_then(|field| pem(&field, block));
    let ca = file("ca", CERTIFICATE);
    let certificate = file("client_cert", CERTIFICATE);
    let key = file("client_key", PRIVATE_KEY);
    for (one, other) in [("client_cert", "client_key"), ("client_key", "client_cert")] {
        if section.get(one).is_some() && section.get(other).is_none() {
            section.fault(other, format_args!("is missing: {one} goes with it"));
        }
    }
    TlsFiles {
        ca,
        client: certificate.zip(key),
    }
}
