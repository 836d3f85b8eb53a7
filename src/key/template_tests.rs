//! Which requests share a bucket, and which never do?

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(
            *name,
            http::HeaderValue::from_bytes(value.as_bytes()).expect("a header value"),
        );
    }
    headers
}

fn key(template: &str, target: &str, lines: &[(&'static str, &str)]) -> Option<KeyId> {
    let headers = headers(lines);
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let facts = Facts {
        ip: Some("192.0.2.1".parse().expect("an address")),
        host: "example.com",
        method: &Method::GET,
        route: "pay",
        path,
        query,
        headers: &headers,
    };
    let template: KeyTemplate = template.parse().expect("a key template");
    template.read(&facts, 64, &KeyHasher::new("secret"))
}

#[test]
fn a_value_never_shares_a_bucket_with_another_source() {
    let by_header = key("{header.x-user-id|ip}", "/", &[("x-user-id", "192.0.2.1")]);
    let by_address = key("{header.x-user-id|ip}", "/", &[]);
    assert!(by_header.is_some() && by_address.is_some());
    assert_ne!(by_header, by_address);
}

#[test]
fn parts_do_not_run_into_each_other() {
    let two = |a, b| key("{header.a}{header.b}", "/", &[("a", a), ("b", b)]);
    assert_ne!(two("ab", "c"), two("a", "bc"));
    assert_eq!(two("ab", "c"), two("ab", "c"));
    assert_ne!(
        key("{header.a}:{header.b}", "/", &[("a", "x:y"), ("b", "z")]),
        key("{header.a}:{header.b}", "/", &[("a", "x"), ("b", "y:z")])
    );
}

#[test]
fn a_part_that_is_absent_empty_or_double_is_missing() {
    assert_eq!(key("{header.x}", "/", &[]), None);
    assert_eq!(key("{header.x}", "/", &[("x", "")]), None);
    assert_eq!(key("{header.x}", "/", &[("x", "a"), ("x", "b")]), None);
    assert_eq!(key("{query.u}", "/?u=1&u=2", &[]), None);
    assert_eq!(key("{query.u}", "/?u=", &[]), None);
    assert_eq!(key("{query.u}", "/?v=1", &[]), None);
    assert_eq!(key("{cookie.s}", "/", &[("cookie", "s=1; s=2")]), None);
    assert_eq!(key("{cookie.s}", "/", &[("cookie", "ss=1; x=s=1")]), None);
}

#[test]
fn queries_and_cookies_are_found_by_their_name() {
    let query = |target| key("{query.user id}", target, &[]);
    assert!(query("/?a=1&user%20id=x%2By").is_some());
    assert_eq!(query("/?user%20id=x%2By"), query("/?user+id=x%2by"));
    let cookie = |line| key("{cookie.sid}", "/", &[("cookie", line)]);
    assert!(cookie("sid=1").is_some());
    assert_eq!(cookie("sid=1"), cookie("a=b; sid=1;c=d"));
}

#[test]
fn a_claim_of_a_token_is_a_user() {
    let by = |payload: &str, template: &str| {
        let token = format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload));
        key(template, "/", &[("authorization", &token)])
    };
    let alice = by(r#"{"sub":"alice","exp":1}"#, "{jwt.sub|ip}");
    assert!(alice.is_some());
    assert_eq!(alice, by(r#"{"exp":2,"sub":"alice"}"#, "{jwt.sub|ip}"));
    assert_ne!(alice, by(r#"{"sub":"bob"}"#, "{jwt.sub|ip}"));
    // Without the claim it is the address.
    assert_eq!(by("{}", "{jwt.sub|ip}"), key("{ip}", "/", &[]));
    assert_eq!(by("{}", "{jwt.sub}"), None);
    let two = [("authorization", "Bearer e30.eyJzdWIiOiJhIn0."); 2];
    assert_eq!(key("{jwt.sub}", "/", &two[..1]).map(|_| ()), Some(()));
    assert_eq!(key("{jwt.sub}", "/", &two), None);
}

#[test]
fn odd_values_each_have_a_bucket_of_their_own() {
    let long = "x".repeat(64 * 1024);
    let values = [
        "a",
        "{",
        "}",
        "{}",
        "a{b}c",
        long.as_str(),
        " a b",
        "€🙂",
        "%2F",
        "/",
        "a%0D%0A",
    ];
    let ids: std::collections::HashSet<_> = values
        .iter()
        .map(|value| key("{header.x}", "/", &[("x", value)]).expect("a key"))
        .collect();
    assert_eq!(ids.len(), values.len());
    assert_eq!(ids.iter().next().expect("an id").to_string().len(), 32);
}

#[test]
fn an_ipv6_client_is_its_network() {
    let network = |ip: &str, prefix| network(ip.parse().expect("an address"), prefix).to_string();
    assert_eq!(network("2001:db8:1:2:3::4", 64), "2001:db8:1:2::");
    assert_eq!(network("2001:db8:1:2:3::4", 128), "2001:db8:1:2:3::4");
    assert_eq!(network("2001:db8:1:2:3::4", 0), "::");
    assert_eq!(network("::ffff:192.0.2.1", 64), "192.0.2.1");
}

#[test]
fn a_template_is_checked_where_it_is_written() {
    use TemplateError as E;
    let error = |text: &str| text.parse::<KeyTemplate>().expect_err(text);
    assert_eq!(error(""), E::Empty);
    for text in ["{", "}", "{ip", "ip}", "a{ip}}", "{ip}{"] {
        assert_eq!(error(text), E::Brace(text.to_owned()), "{text}");
    }
    assert_eq!(error("{}"), E::Part(String::new()));
    assert_eq!(error("{addr}"), E::Part("addr".to_owned()));
    assert_eq!(error("{ip|header.}"), E::Part("header.".to_owned()));
    assert_eq!(error("{header.a b}"), E::Part("header.a b".to_owned()));
    assert_eq!(error("{claim.sub}"), E::Part("claim.sub".to_owned()));
}

#[test]
fn keys_from_credentials_are_secret() {
    let secret = |text: &str| text.parse::<KeyTemplate>().expect(text).is_secret();
    for text in [
        "{header.authorization}",
        "{header.X-Api-Key|ip}",
        "{cookie.sid}",
        "{query.access_token}",
        "{ip}:{header.x-secret}",
    ] {
        assert!(secret(text), "{text}");
    }
    for text in ["{ip}", "all", "{header.x-user-id}:{route}", "{query.user}"] {
        assert!(!secret(text), "{text}");
    }
}
