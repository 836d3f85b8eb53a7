//! Is each fault of `[upstreams.NAME]` named?

use std::path::Path;
use std::time::Duration;

use super::testing::{SECRET, config, each_is_a_fault, faults};
use crate::forward::{HostSent, Protocol, Respond, ServerTarget, TargetKind};

#[test]
fn each_fault_of_an_upstream_is_named() {
    each_is_a_fault(
        "[upstreams.v]\nurl = \"http://v\"",
        &[
            (
                "timeout = \"0ms\"",
                "upstreams.v.timeout: `0ms` must be from 1ms to 1d",
            ),
            (
                "connect_timeout = \"6m\"",
                "upstreams.v.connect_timeout: `6m` must be from 1ms to 5m",
            ),
            (
                "max_in_flight = 0",
                "upstreams.v.max_in_flight: `0` must be from 1 to 1000000",
            ),
            (
                "max_in_flight = 4294967295",
                "upstreams.v.max_in_flight: `4294967295` must be from 1 to 1000000",
            ),
            (
                "protocol = \"http2\"",
                "upstreams.v.protocol: `http2` is not known here; did you mean `http1`?",
            ),
            (
                "host = \"v\"",
                "upstreams.v.host: `v` is not known here; known are upstream, client",
            ),
            (
                "health = \"health\"",
                "upstreams.v.health: `health` is not a path like /health",
            ),
            (
                "health = \"/a#b\"",
                "upstreams.v.health: `/a#b` is not a path like /health",
            ),
            (
                "health_interval = \"5s\"",
                "upstreams.v.health_interval: has no effect without health",
            ),
            (
                "ca = \"ca.pem\"",
                "upstreams.v.ca: belongs to a url with https://",
            ),
            (
                "set_headers = { host = \"x\" }",
                "upstreams.v.set_headers.host: is reserved: choose it with `host = \"upstream\"` or \"client\"",
            ),
            (
                "set_headers = { Content-Length = \"5\" }",
                "upstreams.v.set_headers.Content-Length: is reserved: weir writes it for each connection itself",
            ),
            (
                "set_headers = { \"a b\" = \"x\" }",
                "upstreams.v.set_headers.a b: is not a header's name",
            ),
            (
                "set_headers = { a = \"x\", A = \"y\" }",
                "upstreams.v.set_headers.a: is set twice: upper and lower case are one name",
            ),
            (
                "set_headers = { a = \"x\\n\" }",
                "upstreams.v.set_headers.a: is not a header's value: visible ASCII and spaces only, no line break at its end",
            ),
            (
                "set_headers = { a = 5 }",
                "upstreams.v.set_headers.a: must be a string",
            ),
            (
                "set_headers = \"a: b\"",
                "upstreams.v.set_headers: `a: b` must be a table",
            ),
            (
                "respond = {}",
                "upstreams.v.respond: an upstream has either a url or respond, not both",
            ),
            (
                "tls = true",
                "upstreams.v.tls: unknown key; known are max_in_flight, url, respond, protocol, timeout, connect_timeout, set_headers, host, health_interval, health",
            ),
        ],
    );
}

#[test]
fn reserved_headers_are_not_set() {
    for name in [
        "connection",
        "transfer-encoding",
        "te",
        "upgrade",
        "trailer",
        "keep-alive",
    ] {
        let text = format!("[upstreams.v]\nurl = \"http://v\"\nset_headers.{name} = \"x\"");
        let fault = "is reserved: weir writes it for each connection itself";
        assert_eq!(
            faults(&text),
            [format!("3: upstreams.v.set_headers.{name}: {fault}")]
        );
    }
}

#[test]
fn each_fault_of_a_url_is_named() {
    let table = [
        (
            "localhost:8000",
            "is not a URL like http://127.0.0.1:8000 or https://api.example.com/base",
        ),
        ("ftp://v", "must begin with http:// or https://"),
        ("http://v/?a=b", "must not have a query or a fragment"),
        ("http://v/#a", "must not have a query or a fragment"),
        (
            "http://v:0",
            "has no valid port: it must be from 1 to 65535",
        ),
        ("http://a..b", "has no valid host"),
        (
            "http://v/../w",
            "has a path with dot segments, a backslash or a control character",
        ),
    ];
    for (url, problem) in table {
        let written = format!("url = \"{url}\"");
        let fault = format!("upstreams.v.url: `{url}` {problem}");
        each_is_a_fault("[upstreams.v]", &[(&written, &fault)]);
    }
    let fault = "upstreams.v.url: must not carry a user or a password: use set_headers = { authorization = \"…\" }";
    each_is_a_fault("[upstreams.v]", &[("url = \"http://me:5eCr3t@v\"", fault)]);
    let fault = "upstreams.v.url: is missing: write where the server is, like \"http://127.0.0.1:8000\", or respond for a built-in answer";
    assert_eq!(faults("[upstreams.v]"), [format!("1: {fault}")]);
}

#[test]
fn each_fault_of_a_built_in_answer_is_named() {
    each_is_a_fault(
        "[upstreams.v.respond]",
        &[
            (
                "status = 100",
                "upstreams.v.respond.status: `100` must be from 200 to 599",
            ),
            ("body = 5", "upstreams.v.respond.body: `5` must be a string"),
            (
                "content_type = \"text/plain\\n\"",
                "upstreams.v.respond.content_type: `text/plain\\n` is not a header's value: visible ASCII and spaces only",
            ),
            (
                "delay = \"2h\"",
                "upstreams.v.respond.delay: `2h` must be from 0s to 1h",
            ),
            (
                "stauts = 200",
                "upstreams.v.respond.stauts: unknown key; did you mean `status`?",
            ),
        ],
    );
    each_is_a_fault(
        "[upstreams.v]",
        &[
            (
                "respond = { status = 204, body = \"x\" }",
                "upstreams.v.respond.body: an answer 204 has no body",
            ),
            (
                "timeout = \"1s\"\nrespond = {}",
                "upstreams.v.timeout: belongs to an upstream with a url",
            ),
            (
                "respond = \"hello\"",
                "upstreams.v.respond: `hello` must be a table",
            ),
        ],
    );
}

#[test]
fn pem_files_are_looked_up_beside_the_config() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect(name);
    write("ca.pem", "# ours\n-----BEGIN CERTIFICATE-----\n");
    write("key.pem", "-----BEGIN EC PRIVATE KEY-----\n");
    write("empty.pem", "");
    let check = |tls: &str| {
        let text = format!(
            "[upstreams.v]\nurl = \"https://v\"\n{tls}\n[[routes]]\npath = \"/\"\nupstream = \"v\""
        );
        let config = super::parse(&text, &dir.path().join("weir.toml"), &|_| None);
        config.map_err(|faults| {
            let faults = faults
                .iter()
                .map(|fault| format!("{}: {fault}", fault.line().unwrap_or(0)));
            faults.collect::<Vec<_>>()
        })
    };
    let config = check("ca = \"ca.pem\"\nclient_cert = \"ca.pem\"\nclient_key = \"key.pem\"")
        .expect("sound");
    let Some(TargetKind::Server(server)) = config.upstreams.first().map(|target| &target.kind)
    else {
        unreachable!("it has a url");
    };
    assert_eq!(server.tls.ca, Some(dir.path().join("ca.pem")));
    let client = (dir.path().join("ca.pem"), dir.path().join("key.pem"));
    assert_eq!(server.tls.client, Some(client));
    for (tls, fault) in [
        (
            "ca = \"key.pem\"",
            "3: upstreams.v.ca: `key.pem` holds no certificate in PEM form",
        ),
        (
            "ca = \"empty.pem\"",
            "3: upstreams.v.ca: `empty.pem` holds no certificate in PEM form",
        ),
        (
            "ca = \"none.pem\"",
            "3: upstreams.v.ca: `none.pem` cannot be read: No such file or directory (os error 2)",
        ),
        (
            "ca = \".\"",
            "3: upstreams.v.ca: `.` cannot be read: Is a directory (os error 21)",
        ),
        (
            "client_cert = \"ca.pem\"\nclient_key = \"ca.pem\"",
            "4: upstreams.v.client_key: `ca.pem` holds no private key in PEM form",
        ),
        (
            "client_key = \"key.pem\"",
            "1: upstreams.v.client_cert: is missing: client_key goes with it",
        ),
        (
            "client_cert = \"ca.pem\"",
            "1: upstreams.v.client_key: is missing: client_cert goes with it",
        ),
    ] {
        assert_eq!(check(tls).expect_err(tls), [fault]);
    }
}

fn server(text: &str) -> ServerTarget {
    let config = config(&format!("[upstreams.v]\n{text}"));
    let target = config.upstreams.last().expect("an upstream");
    match &target.kind {
        TargetKind::Server(server) => (**server).clone(),
        TargetKind::Respond(_) => unreachable!("it has a url"),
    }
}

#[test]
fn a_server_is_taken_as_written() {
    let plain = server("url = \"http://v\"");
    assert_eq!(
        (plain.timeout, plain.connect_timeout),
        (Duration::from_secs(30), Duration::from_secs(2))
    );
    assert_eq!((plain.host, plain.base_path), (HostSent::Upstream, None));
    assert_eq!(plain.protocol, Protocol::Auto);
    for (name, protocol) in [
        ("auto", Protocol::Auto),
        ("http1", Protocol::Http1),
        ("h2", Protocol::Http2),
    ] {
        let text = format!("url = \"http://v\"\nprotocol = \"{name}\"");
        assert_eq!(server(&text).protocol, protocol);
    }
    assert!(plain.health.is_none() && plain.set_headers.is_empty() && plain.tls.ca.is_none());
    let full = server(
        "url = \"https://v:8443/base/\"\nprotocol = \"http1\"\nhost = \"client\"\nhealth = \"/up?deep=1\"\nset_headers = { Authorization = \"Bearer ${SECRET}\" }",
    );
    assert_eq!(
        (full.scheme.as_str(), full.authority.as_str()),
        ("https", "v:8443")
    );
    assert_eq!(
        (full.host, full.base_path.as_deref()),
        (HostSent::Client, Some("/base"))
    );
    let health = full.health.as_ref().expect("health");
    assert_eq!(
        (health.path.as_str(), health.interval),
        ("/up?deep=1", Duration::from_secs(5))
    );
    let (name, value) = full.set_headers.first().expect("a header");
    assert_eq!(
        (name.as_str(), value.as_bytes()),
        ("authorization", format!("Bearer {SECRET}").as_bytes())
    );
    assert!(!format!("{full:?}").contains(SECRET));
}

#[test]
fn a_built_in_answer_is_taken_as_written() {
    let respond = |text: &str| -> Respond {
        let text = format!("[upstreams.v]\nmax_in_flight = 1\nrespond = {{{text}}}");
        let config = config(&text);
        match config.upstreams.last().map(|target| target.kind.clone()) {
            Some(TargetKind::Respond(respond)) => respond,
            _ => unreachable!("it has respond"),
        }
    };
    let plain = respond("");
    assert_eq!(
        (plain.status.as_u16(), plain.body.len(), plain.delay),
        (200, 0, Duration::ZERO)
    );
    assert_eq!(plain.content_type, "text/plain; charset=utf-8");
    let full = respond(
        "status = 404, body = \"{}\", content_type = \"application/json\", delay = \"50ms\"",
    );
    assert_eq!(
        (full.status.as_u16(), &*full.body, full.delay),
        (404, b"{}".as_slice(), Duration::from_millis(50))
    );
    assert_eq!(full.content_type, "application/json");
}

#[test]
fn a_config_without_a_directory_looks_where_the_process_is() {
    let text = "[upstreams.v]\nurl = \"https://v\"\nca = \"Cargo.toml\"";
    let faults = super::parse(text, Path::new("weir.toml"), &|_| None).expect_err("faults");
    assert!(
        faults
            .to_string()
            .contains("`Cargo.toml` holds no certificate in PEM form")
    );
}
