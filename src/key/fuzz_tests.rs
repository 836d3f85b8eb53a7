//! Is there a request whose key can't be read, or is read in two ways?

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;

use super::{Facts, KeyHasher, KeyId, KeyTemplate, client_address, normal_host, normal_path};

/// What hyper lets through as a header's value.
fn value() -> impl Strategy<Value = HeaderValue> {
    let any = prop::collection::vec(any::<u8>(), 0..60);
    let listed = "[a-z0-9:.,;=\\[\\]\" _%]{0,60}".prop_map(String::into_bytes);
    let address =
        "(for=)?\"?\\[?(10\\.0\\.0\\.[0-9]|[0-9a-f:.]{1,20})\\]?(:[0-9]{1,5})?\"?(, 10.0.0.1)?"
            .prop_map(String::into_bytes);
    prop_oneof![any, listed, address]
        .prop_filter_map("a value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let names = [
        "x-forwarded-for",
        "forwarded",
        "cookie",
        "authorization",
        "x-a",
        "x-b",
    ];
    let line = (prop::sample::select(names.to_vec()), value());
    prop::collection::vec(line, 0..6).prop_map(|lines| {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    })
}

/// Paths in which much is escaped.
fn path() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z./;%\\\\~_-]",
        "%[0-9a-fA-F]{2}",
        "%[0-9a-fA-F]",
        "%2[eEfF]",
        "%5[cC]",
        "%25",
        "\\PC",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat()))
}

/// Templates, most of which are sound.
fn template() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z:|]{1,4}",
        Just("{ip}".to_owned()),
        Just("{host}:{method}:{route}:{path}".to_owned()),
        Just("{header.x-a|cookie.s|query.q|ip}".to_owned()),
        "\\{(header|query|cookie|jwt)\\.[a-z-]{1,8}\\}",
        "[{}|.a-z]{0,6}",
    ];
    prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

fn key(template: &str, query: Option<&str>, headers: &HeaderMap) -> Option<KeyId> {
    let template: KeyTemplate = template.parse().ok()?;
    let facts = Facts {
        ip: Some(IpAddr::from([192, 0, 2, 1])),
        host: "a",
        method: &Method::GET,
        route: "r",
        path: "/",
        query,
        headers,
    };
    template.read(&facts, 64, &KeyHasher::new("secret"))
}

fn one(name: &'static str, value: &HeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, value.clone());
    headers
}

proptest! {
    #[test]
    fn a_normal_path_is_its_own_and_means_what_was_sent(raw in path()) {
        if let Ok(normal) = normal_path(&raw) {
            prop_assert_eq!(normal_path(&normal), Ok(normal.clone()));
            let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
            prop_assert_eq!(decoded(&normal), decoded(&raw));
            let slashes = |text: &str| text.matches('/').count();
            prop_assert_eq!(slashes(&normal), slashes(&raw), "no escape became a slash");
            let walks = normal.split('/').any(|segment| matches!(segment, "." | ".."));
            prop_assert!(!walks && !normal.contains('\\'));
        }
    }

    #[test]
    fn a_normal_host_is_its_own(
        name in "[A-Za-z0-9_-]{1,8}(\\.[A-Za-z0-9]{1,4}){0,2}\\.?|\\[[0-9a-fA-F:]{2,8}\\]",
        port in "(:[0-9]{0,5})?",
    ) {
        let host = format!("{name}{port}");
        let normal = normal_host(&host).into_owned();
        prop_assert_eq!(normal_host(&normal), normal.as_str());
        prop_assert_eq!(&normal, &name.trim_end_matches('.').to_ascii_lowercase());
    }

    #[test]
    fn any_host_has_a_normal_form(text in "\\PC{0,20}") {
        prop_assert!(normal_host(&text).len() <= text.len());
    }

    #[test]
    fn nobody_but_a_trusted_peer_names_another_address(headers in headers(), peer: [u8; 4]) {
        let peer = IpAddr::from(peer);
        let here = [IpNet::from(peer)];
        let elsewhere: [IpNet; 1] = ["10.0.0.0/8".parse().expect("a network")];
        prop_assume!(!elsewhere[0].contains(&peer));
        prop_assert_eq!(client_address(peer, &headers, &elsewhere), peer);
        // Whatever a trusted one says, there is an address.
        client_address(peer, &headers, &here);
        client_address(peer, &headers, &[elsewhere[0], here[0]]);
    }

    #[test]
    fn no_template_and_no_request_make_it_panic(
        template in template(),
        query in prop::option::of("[a-z=&%+0-9]{0,20}|\\PC{0,20}"),
        headers in headers(),
    ) {
        let read = key(&template, query.as_deref(), &headers);
        prop_assert_eq!(read, key(&template, query.as_deref(), &headers));
        if let Some(id) = read {
            prop_assert_eq!(KeyId::parse(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn other_values_are_other_buckets(one_a in value(), one_b in value(), two_a in value(), two_b in value()) {
        let both = |a: &HeaderValue, b: &HeaderValue| {
            let mut headers = one("x-a", a);
            headers.insert("x-b", b.clone());
            key("{header.x-a}{header.x-b}", None, &headers)
        };
        let (first, second) = (both(&one_a, &one_b), both(&two_a, &two_b));
        if first.is_some() && second.is_some() {
            prop_assert_eq!(first == second, (one_a, one_b) == (two_a, two_b));
        }
    }

    #[test]
    fn a_query_is_one_however_it_is_escaped(text in "\\PC{1,12}") {
        let escaped = |hex: fn(u8) -> String| text.bytes().map(hex).collect::<String>();
        let upper = escaped(|byte| format!("%{byte:02X}"));
        let lower = escaped(|byte| format!("%{byte:02x}")).replace("%20", "+");
        let read = |value: &str| key("{query.q}", Some(&format!("x=1&q={value}")), &HeaderMap::new());
        prop_assert!(read(&upper).is_some());
        prop_assert_eq!(read(&upper), read(&lower));
    }
}
