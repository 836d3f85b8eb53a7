//! What does weir see in a request, and what does it not let through?

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Method, Version};

use crate::key::{normal_host, normal_path};
use crate::peer::Oddity;
use crate::respond::Malformed;

/// The lines of a head; hyper knows the same bound for HTTP/1.1.
const MOST_HEADERS: usize = 100;

static PREFER: HeaderName = HeaderName::from_static("prefer");

/// A request's host and path in their normal form.
#[derive(Debug)]
pub(super) struct Sight<'a> {
    pub(super) host: Cow<'a, str>,
    pub(super) path: Cow<'a, str>,
}

impl<'a> Sight<'a> {
    /// Looks at a head; refuses what servers would read in different ways.
    pub(super) fn of(parts: &'a Parts, oddity: Option<Oddity>) -> Result<Self, Malformed> {
        if let Some(oddity) = oddity {
            return Err(oddity.into());
        }
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            return Err(Malformed::Method);
        }
        let host = host(parts)?;
        if authority(parts).is_some_and(|named| !named.eq_ignore_ascii_case(host)) {
            return Err(Malformed::Authority);
        }
        if !matches!(parts.uri.scheme_str(), None | Some("http" | "https")) {
            return Err(Malformed::Scheme);
        }
        Ok(Self {
            host: normal_host(host),
            path: normal_path(parts.uri.path())?,
        })
    }
}

/// The one host: `Host`, or in HTTP/2 the target's authority. HTTP/1.0 may go
/// without.
fn host(parts: &Parts) -> Result<&str, Malformed> {
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let host = match (lines.next(), lines.next(), parts.version) {
        (Some(host), None, _) => host.to_str().map_err(|_not_text| Malformed::Host)?,
        (None, None, Version::HTTP_2) => authority(parts).ok_or(Malformed::Host)?,
        (None, None, Version::HTTP_10) => "",
        _ => return Err(Malformed::Host),
    };
    // HTTP/1.0 may go without one.
    if is_host(host) || (host.is_empty() && parts.version == Version::HTTP_10) {
        Ok(host)
    } else {
        Err(Malformed::Host)
    }
}

/// The host that the target names.
fn authority(parts: &Parts) -> Option<&str> {
    parts.uri.authority().map(http::uri::Authority::as_str)
}

/// Refuses a head of HTTP/2 that is larger than one of HTTP/1.1 may be: what is
/// packed there counts unpacked here.
pub(super) fn bounded(parts: &Parts, most: usize) -> Result<(), Malformed> {
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        name.as_str().len() + value.len() + b": \r\n".len()
    };
    let target = parts
        .uri
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    let size = target + parts.headers.iter().map(header).sum::<usize>();
    if size > most || parts.headers.len() > MOST_HEADERS {
        return Err(Malformed::TooLarge);
    }
    Ok(())
}

/// Whether this is a host (RFC 3986) with or without a port. A comma might be
/// taken for a list's.
fn is_host(text: &str) -> bool {
    let colon = text
        .bytes()
        .rposition(|byte| byte == b':')
        .filter(|_| !text.ends_with(']'));
    let (name, port) = text
        .split_at_checked(colon.unwrap_or(text.len()))
        .unwrap_or_default();
    let is_port = matches!(port, "" | ":") || port.strip_prefix(':').is_some_and(is_port);
    let address = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_name = match address {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(is_of_name),
    };
    is_name && is_port
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b';'
                | b'='
        )
}

/// How long a client says it would wait (RFC 7240).
pub fn prefer_wait(headers: &HeaderMap) -> Option<Duration> {
    let lines = headers
        .get_all(&PREFER)
        .iter()
        .filter_map(|line| line.to_str().ok());
    let mut preferences = lines.flat_map(|line| line.split(','));
    preferences.find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let seconds = value.trim().trim_matches('"').parse().ok()?;
        name.trim()
            .eq_ignore_ascii_case("wait")
            .then(|| Duration::from_secs(seconds))
    })
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn sight(request: http::request::Builder) -> Result<String, Malformed> {
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        Sight::of(&parts, None).map(|sight| format!("{} {}", sight.host, sight.path))
    }

    #[test]
    fn a_request_that_servers_could_read_in_two_ways_is_refused() {
        let get = || Request::get("/x");
        assert_eq!(
            sight(get().header("host", "A.example:80")),
            Ok("a.example /x".to_owned())
        );
        assert_eq!(sight(get()), Err(Malformed::Host));
        assert_eq!(sight(get().version(Version::HTTP_10)), Ok(" /x".to_owned()));
        assert_eq!(
            sight(get().header("host", "a").header("host", "a")),
            Err(Malformed::Host)
        );
        for host in [
            "", ":80", "a b", "a/b", "user@a", "a,b", "a\\b", "a?b", "\u{e9}", "a:b", "a:80:90",
            "a:+8", "a:65536", "[::1", "[a]", "::1", "[::1]80", "a[::1]", "a\"b", "a<b", "a|b",
        ] {
            assert_eq!(
                sight(get().header("host", host)),
                Err(Malformed::Host),
                "{host}"
            );
        }
        for host in [
            "a",
            "a:",
            "a:65535",
            "A_b.example.:80",
            "[::1]",
            "[::1]:80",
            "a%20b",
        ] {
            assert!(sight(get().header("host", host)).is_ok(), "{host}");
        }
        assert_eq!(
            sight(Request::get("ftp://a/x").header("host", "a")),
            Err(Malformed::Scheme)
        );
        assert_eq!(
            sight(Request::get("http://a/x").header("host", "b")),
            Err(Malformed::Authority)
        );
        assert_eq!(
            sight(Request::get("http://a/x").header("host", "A")),
            Ok("a /x".to_owned())
        );
        assert_eq!(
            sight(Request::trace("/").header("host", "a")),
            Err(Malformed::Method)
        );
    }

    proptest::proptest! {
        #[test]
        fn no_head_makes_it_panic(
            host in "\\PC{0,20}|[a-z0-9:.\\[\\]]{0,12}",
            preference in "\\PC{0,30}|(wait|[a-z]{1,4})=?\"?[0-9]{0,25}\"?[;, ]{0,2}[a-z=0-9]{0,8}",
            target in "/\\PC{0,12}|http://[a-z:@.]{1,9}/",
        ) {
            let request = Request::get(target)
                .header("host", host.as_bytes())
                .header("prefer", preference.as_bytes());
            // What makes no request never comes here.
            if let Ok(request) = request.body(()) {
                let (parts, ()) = request.into_parts();
                if Sight::of(&parts, None).is_ok() {
                    proptest::prop_assert!(parts.uri.path().starts_with('/'));
                    proptest::prop_assert!(!host.contains(['/', '@', ',', ' ', '\\']));
                }
                prefer_wait(&parts.headers);
            }
        }
    }

    #[test]
    fn http_2_names_its_host_in_the_target() {
        let get = |target: &str| Request::get(target.to_owned()).version(Version::HTTP_2);
        let whole = get("https://A.example:443/x");
        assert_eq!(sight(whole), Ok("a.example /x".to_owned()));
        let both = get("https://a.example/x").header("host", "A.example");
        assert_eq!(sight(both), Ok("a.example /x".to_owned()));
        let hosts_alone = get("/x").header("host", "a.example");
        assert_eq!(sight(hosts_alone), Ok("a.example /x".to_owned()));
        let differ = get("https://a.example/x").header("host", "b.example");
        assert_eq!(sight(differ), Err(Malformed::Authority));
        let twice = get("https://a/x").header("host", "a").header("host", "a");
        assert_eq!(sight(twice), Err(Malformed::Host));
        assert_eq!(sight(get("/x")), Err(Malformed::Host));
        assert_eq!(sight(get("https://me@a/x")), Err(Malformed::Host));
        let tunnel = Request::connect("a:80").version(Version::HTTP_2);
        assert_eq!(sight(tunnel), Err(Malformed::Method));
    }

    #[test]
    fn a_client_says_how_long_it_would_wait() {
        let wait = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("prefer", http::HeaderValue::from_static(line));
            }
            prefer_wait(&headers).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(&["wait=2"]), Some(2));
        assert_eq!(wait(&["respond-async, Wait = 10; x=y"]), Some(10));
        assert_eq!(wait(&["respond-async", "wait=\"3\""]), Some(3));
        assert_eq!(wait(&[]), None);
        for odd in [
            "wait",
            "wait=",
            "wait=-1",
            "wait=1.5",
            "wait=99999999999999999999999",
            "await=1",
        ] {
            assert_eq!(wait(&[odd]), None, "{odd}");
        }
    }
}
