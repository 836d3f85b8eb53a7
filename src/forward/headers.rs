//! Which headers go on, which stay here, and which does weir set?

use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{Request, Uri, Version};
use smallvec::SmallVec;

use super::target::{HostSent, ServerTarget};

const HTTP: HeaderValue = HeaderValue::from_static("http");
const HTTPS: HeaderValue = HeaderValue::from_static("https");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// What a request is given, as a rule: from where it comes (four), and its id.
/// Room for all is made once.
const MOST_ADDED: usize = 5;

/// Headers that concern one connection only (RFC 9110, 7.6.1), whether or not
/// `Connection` names them.
pub(super) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// What some servers take for the length of a message, though it isn't.
fn is_false_length(name: &HeaderName) -> bool {
    matches!(name.as_str(), "content_length" | "transfer_encoding")
}

/// What only a trusted proxy may say about where a request comes from, with the
/// spellings that some upstreams take for the same.
fn is_forwarded(name: &HeaderName) -> bool {
    let name = name.as_str();
    match name.as_bytes() {
        [b'f', ..] => name == "forwarded",
        [b'x', ..] => [
            "x-forwarded",
            "x_forwarded",
            "x-real-ip",
            "x_real_ip",
            "x-real_ip",
            "x_real-ip",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix)),
        _ => false,
    }
}

/// From where a request came to weir.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The peer's address, as it is written in `X-Forwarded-For`.
    pub peer: &'a HeaderValue,
    /// Whether it came over TLS.
    pub secure: bool,
    /// Whether the peer may say where the request came from before.
    pub trusted: bool,
}

/// How weir names itself in `Via`, with the version of HTTP that it was sent.
const fn via(version: Version) -> HeaderValue {
    const VIA_1_0: HeaderValue = HeaderValue::from_static("1.0 weir");
    const VIA_1_1: HeaderValue = HeaderValue::from_static("1.1 weir");
    const VIA_2_0: HeaderValue = HeaderValue::from_static("2.0 weir");
    match version {
        Version::HTTP_10 => VIA_1_0,
        Version::HTTP_2 => VIA_2_0,
        _ => VIA_1_1,
    }
}

/// Makes a client's headers the ones that the upstream gets.
///
/// The host asked for is `Host`, or what HTTP/2 has in its place.
pub fn to_upstream(parts: &mut Parts, hop: Hop<'_>, target: &ServerTarget) {
    let headers = &mut parts.headers;
    let trailers = headers
        .get_all(header::TE)
        .iter()
        .any(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    drop_some(headers, |name| {
        is_hop_by_hop(name) || is_false_length(name) || (!hop.trusted && is_forwarded(name))
    });
    headers.reserve(MOST_ADDED);
    if trailers {
        headers.insert(header::TE, TRAILERS);
    }
    append_address(headers, hop.peer);
    headers
        .entry(&X_FORWARDED_PROTO)
        .or_insert(if hop.secure { HTTPS } else { HTTP });
    headers.append(header::VIA, via(parts.version));
    if parts.version == Version::HTTP_2 {
        join_cookies(headers);
    }
    let theirs = || HeaderValue::from_str(target.authority.as_str()).ok();
    let asked = || {
        let authority = parts.uri.authority()?.as_str();
        HeaderValue::from_str(authority).ok()
    };
    let host = match (target.host, headers.get(header::HOST).cloned()) {
        (HostSent::Client, Some(host)) => Some(host),
        (HostSent::Client, None) => {
            let host = asked();
            set_host(headers, host.clone().or_else(theirs));
            host
        }
        (HostSent::Upstream, host) => {
            set_host(headers, theirs());
            host.or_else(asked)
        }
    };
    if let Some(host) = host {
        headers.entry(&X_FORWARDED_HOST).or_insert(host);
    }
    for (name, value) in &target.set_headers {
        headers.insert(name, value.clone());
    }
}

/// Whether an answer by HTTP/2 says at most once, and plainly, where it ends. What
/// is left of more would end elsewhere for a client of HTTP/1.1.
pub(super) fn ends_plainly(headers: &HeaderMap) -> bool {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (lengths.next(), codings.next()) {
        (None, None) => true,
        (Some(length), None) => {
            lengths.next().is_none() && length.as_bytes().iter().all(u8::is_ascii_digit)
        }
        (None, Some(coding)) => {
            codings.next().is_none() && coding.as_bytes().eq_ignore_ascii_case(b"chunked")
        }
        (Some(_), Some(_)) => false,
    }
}

/// Drops what an upstream says to weir alone.
pub(super) fn clean_answer(headers: &mut HeaderMap) {
    drop_some(headers, is_hop_by_hop);
}

/// Makes an upstream's headers, of this version of HTTP, the ones that the client
/// gets. What is not for the client was left out when they were read.
pub fn to_client(headers: &mut HeaderMap, version: Version) {
    headers.append(header::VIA, via(version));
}

/// The head for an upstream by HTTP/2 of one that is ready for HTTP/1.1: what is
/// `Host` there is `:authority` here.
pub(super) fn to_http2(parts: &Parts, target: &ServerTarget) -> Request<()> {
    let mut headers = parts.headers.clone();
    let host = headers.remove(header::HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut uri = parts.uri.clone().into_parts();
    uri.scheme = Some(target.scheme.clone());
    uri.authority = Some(authority.unwrap_or_else(|| target.authority.clone()));
    let mut head = Request::new(());
    *head.method_mut() = parts.method.clone();
    *head.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
    *head.version_mut() = Version::HTTP_2;
    *head.headers_mut() = headers;
    head
}

/// Makes the crumbs that HTTP/2 allows a cookie to come in one line again.
fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(header::COOKIE).iter();
    if lines.next().is_none() || lines.next().is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(joined) = HeaderValue::try_from(lines.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Drops what must not stand behind a body (RFC 9110, 6.5.1): what says how long
/// the message is, where it goes, who asks and from where.
pub(super) fn clean_trailers(trailers: &mut HeaderMap) {
    let dropped: SmallVec<[HeaderName; 4]> = trailers
        .keys()
        .filter(|name| {
            is_hop_by_hop(name)
                || is_false_length(name)
                || is_forwarded(name)
                || KEPT.contains(name)
        })
        .cloned()
        .collect();
    for name in dropped {
        trailers.remove(name);
    }
}

/// Drops headers, and those that `Connection` names. Most messages have none:
/// one look over the names tells.
fn drop_some(headers: &mut HeaderMap, is_dropped: impl Fn(&HeaderName) -> bool) {
    let mut dropped: SmallVec<[HeaderName; 4]> = headers
        .keys()
        .filter(|name| is_dropped(name))
        .cloned()
        .collect();
    if dropped.contains(&header::CONNECTION) {
        let lines = headers.get_all(header::CONNECTION).iter();
        dropped.extend(lines.flat_map(named));
    }
    for name in dropped {
        headers.remove(name);
    }
}

/// The headers that a line of `Connection` makes hop-by-hop ones.
pub(super) fn named(line: &HeaderValue) -> impl Iterator<Item = HeaderName> {
    line.as_bytes()
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        // What most of them say: no headers, or dropped in any case.
        .filter(|name| {
            !name.eq_ignore_ascii_case(b"keep-alive") && !name.eq_ignore_ascii_case(b"close")
        })
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        // These say how long the message is, where it goes and who asks: a client
        // must not make them vanish.
        .filter(|name| !KEPT.contains(name))
}

/// End-to-end headers that `Connection` can't take away.
const KEPT: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::VIA,
];

fn set_host(headers: &mut HeaderMap, host: Option<HeaderValue>) {
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
}

fn append_address(headers: &mut HeaderMap, peer: &HeaderValue) {
    let mut lines = match headers.entry(&X_FORWARDED_FOR) {
        Entry::Vacant(none) => {
            none.insert(peer.clone());
            return;
        }
        Entry::Occupied(lines) => lines,
    };
    let mut list: Vec<u8> = lines
        .iter()
        .flat_map(|line| [line.as_bytes(), b", "])
        .flatten()
        .copied()
        .collect();
    list.extend_from_slice(peer.as_bytes());
    if let Ok(list) = HeaderValue::try_from(list) {
        lines.insert(list);
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
