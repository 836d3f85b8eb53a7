//! Where is an upstream?

use std::net::Ipv6Addr;

use http::Uri;
use http::uri::{Authority, Scheme};

use super::field::Field;
use crate::key::normal_path;

/// A checked URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// `http` or `https`.
    pub(super) scheme: Scheme,
    /// Host and port.
    pub(super) authority: Authority,
    /// The path without a slash at its end; `None` for `/`.
    pub(super) base_path: Option<String>,
}

pub(super) fn url(field: &Field<'_>) -> Option<Url> {
    let text = field.text()?;
    match parse(&text.value) {
        Ok(url) => Some(url),
        // The text may hold a password.
        Err(problem) if text.value.contains('@') => {
            field.fault(problem);
            None
        }
        Err(problem) => {
            field.refuse(problem);
            None
        }
    }
}

fn parse(text: &str) -> Result<Url, &'static str> {
    let shape = "is not a URL like http://127.0.0.1:8000 or https://api.example.com/base";
    if text.contains('@') {
        return Err(
            "must not carry a user or a password: use set_headers = { authorization = \"…\" }",
        );
    }
    if text.contains(['?', '#']) {
        return Err("must not have a query or a fragment");
    }
    let uri: Uri = text.parse().map_err(|_not_a_uri| shape)?;
    let parts = uri.into_parts();
    let scheme = parts.scheme.ok_or(shape)?;
    if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
        return Err("must begin with http:// or https://");
    }
    let authority = parts.authority.ok_or(shape)?;
    if !is_host(authority.host()) {
        return Err("has no valid host");
    }
    let port = authority.as_str().strip_prefix(authority.host());
    if port != Some("") && authority.port_u16().is_none_or(|port| port == 0) {
        return Err("has no valid port: it must be from 1 to 65535");
    }
    let path = parts.path_and_query.as_ref().map_or("", |path| path.path());
    if !path.is_empty() && normal_path(path).is_err() {
        return Err("has a path with dot segments, a backslash or a control character");
    }
    let base = path.trim_end_matches('/');
    Ok(Url {
        scheme,
        authority,
        base_path: (!base.is_empty()).then(|| base.to_owned()),
    })
}

/// Whether a text is a host's name, an IPv4 address, or an IPv6 one in brackets.
pub(super) fn is_host(text: &str) -> bool {
    let bracketed = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = bracketed {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(plain);
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_scheme_host_port_and_base_path() {
        for (text, authority, base) in [
            ("http://127.0.0.1:8000", "127.0.0.1:8000", None),
            ("http://127.0.0.1:8000/", "127.0.0.1:8000", None),
            ("https://api.example.com", "api.example.com", None),
            (
                "https://api.example.com/v1/",
                "api.example.com",
                Some("/v1"),
            ),
            ("http://[::1]:8000/a%2Fb", "[::1]:8000", Some("/a%2Fb")),
            ("HTTP://db_1", "db_1", None),
        ] {
            let url = parse(text).expect(text);
            assert_eq!(url.authority, authority, "{text}");
            assert_eq!(url.base_path.as_deref(), base, "{text}");
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for text in [
            "",
            "/",
            "localhost",
            "localhost:8000",
            "ftp://a",
            "unix:/run/x",
            "http://",
            "http:///x",
            "http://:80",
            "http://a:0",
            "http://a:",
            "http://a:65536",
            "http://a:b",
            "http://[::1",
            "http://[::g]",
            "http://a b",
            "http://a..b",
            "http://user:pw@a",
            "http://a/?x",
            "http://a/#x",
            "http://a/../b",
            "http://a/\\b",
            "http://ü",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
