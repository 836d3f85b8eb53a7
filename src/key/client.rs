//! From which address does a request come, where proxies stand before weir?

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address.
///
/// Only a peer among `trusted` may name another: the addresses in
/// `X-Forwarded-For` (or `Forwarded`, where that is absent) are read from the
/// right, and the first that is not trusted itself is the client's. Where one on
/// the way isn't an address, nothing is believed and the peer counts.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let list = if headers.contains_key(&X_FORWARDED_FOR) {
        hops(headers, &X_FORWARDED_FOR)
    } else {
        hops(headers, &header::FORWARDED)
    };
    let mut client = peer;
    for hop in list {
        match hop.and_then(address) {
            Some(address) if is_trusted(address, trusted) => client = address,
            Some(address) => return address,
            None => return peer,
        }
    }
    client
}

/// Whether an address is in one of the networks.
pub fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&address))
}

/// The entries of all lines of a list header, the last first; `None` is no text.
fn hops<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    let forwarded = *name == header::FORWARDED;
    let lines: smallvec::SmallVec<[_; 2]> = headers.get_all(name).iter().collect();
    lines.into_iter().rev().flat_map(move |line| {
        // A line that isn't text is one entry that isn't an address.
        let entries = line
            .to_str()
            .map_or(Vec::new(), |text| text.rsplit(',').map(Some).collect());
        let entries = if entries.is_empty() {
            vec![None]
        } else {
            entries
        };
        entries.into_iter().map(move |entry| {
            if forwarded {
                entry.and_then(forwarded_for)
            } else {
                entry
            }
        })
    })
}

/// The `for` of one element of a `Forwarded` header (RFC 7239).
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("for")
            .then(|| value.trim().trim_matches('"'))
    })
}

/// An address with or without a port, in brackets or not.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let parsed = bare
        .parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|addr| addr.ip()));
    parsed.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[(&'static str, &str)]) -> String {
        let trusted = [
            "10.0.0.0/8".parse().expect("net"),
            "fd00::/8".parse().expect("net"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a header value"));
        }
        client_address(peer.parse().expect("an address"), &headers, &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_may_name_the_client() {
        let xff = |value| [("x-forwarded-for", value)];
        assert_eq!(client("192.0.2.1", &xff("203.0.113.9")), "192.0.2.1");
        assert_eq!(client("10.1.1.1", &xff("203.0.113.9")), "203.0.113.9");
        assert_eq!(
            client("::ffff:10.1.1.1", &xff("203.0.113.9")),
            "203.0.113.9"
        );
        assert_eq!(client("10.1.1.1", &[]), "10.1.1.1");
    }

    #[test]
    fn the_client_is_found_from_the_right() {
        for (value, found) in [
            ("198.51.100.7, 203.0.113.9", "203.0.113.9"),
            ("198.51.100.7, 203.0.113.9, 10.2.2.2", "203.0.113.9"),
            ("10.3.3.3, 10.2.2.2", "10.3.3.3"),
            ("203.0.113.9:4711", "203.0.113.9"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
        ] {
            assert_eq!(
                client("10.1.1.1", &[("x-forwarded-for", value)]),
                found,
                "{value}"
            );
        }
        let lines = [
            ("x-forwarded-for", "198.51.100.7"),
            ("x-forwarded-for", "203.0.113.9"),
        ];
        assert_eq!(client("10.1.1.1", &lines), "203.0.113.9");
    }

    #[test]
    fn garbage_makes_the_peer_count() {
        let commas = ",".repeat(10 * 1024);
        for value in [
            "",
            "unknown",
            "198.51.100.7, garbage",
            "203.0.113.9, ,",
            commas.as_str(),
            "1.2.3",
            "_x, 10.2.2.2",
        ] {
            assert_eq!(
                client("10.1.1.1", &[("x-forwarded-for", value)]),
                "10.1.1.1",
                "{value}"
            );
        }
    }

    #[test]
    fn forwarded_is_read_where_x_forwarded_for_is_absent() {
        let value = "for=198.51.100.7, For=\"[2001:db8::1]:4711\";proto=https, for=10.2.2.2";
        assert_eq!(client("10.1.1.1", &[("forwarded", value)]), "2001:db8::1");
        assert_eq!(
            client("10.1.1.1", &[("forwarded", "for=_hidden")]),
            "10.1.1.1"
        );
        assert_eq!(
            client("10.1.1.1", &[("forwarded", "proto=https")]),
            "10.1.1.1"
        );
    }
}
