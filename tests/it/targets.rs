//! Does the upstream see the path and the query that the client sent?

use crate::harness::{Backend, Request, Weir, one_limit, route, upstream};

/// Odd, but nothing that servers would read in two ways.
const ODD: &[&str] = &[
    "/",
    "/a/b/c",
    "/a/",
    "/a//b",
    "//a",
    "//evil.example/x",
    "/a%2Fb",
    "/a%2fb",
    "/%61%62",
    "/%7Eu",
    "/~u",
    "/a%20b",
    "/a+b",
    "/100%",
    "/%zz",
    "/%4",
    "/a%25b",
    "/%2525",
    "/...",
    "/a..b",
    "/..a",
    "/.hidden",
    "/a;b=c",
    "/a;b=c/d;e",
    "/a,b",
    "/a:b@c",
    "/a=b&c=d",
    "/$&'()*!",
    "/a|b",
    "/{id}",
    "/\"quoted\"",
    "/%E4%BD%A0",
    "/%ff%fe",
    "/?",
    "/??",
    "/?a=b&a=c&",
    "/?a=%2F../..&b=+%20",
    "/?../../x",
    "/?x=/a/../b",
    "/?q={}|'",
    "/?url=http://a.example/?b",
    "/x?%00",
    "/a%3Fb",
    "/a%23b",
];

/// What servers read in different ways.
const AMBIGUOUS: &[&str] = &[
    "/..",
    "/.",
    "/a/../b",
    "/a/./b",
    "/a/..",
    "/a/%2e%2e/b",
    "/a/%2E./b",
    "/a/.%2e",
    "/%2e",
    "/a/..;x/b",
    "/a\\b",
    "/a%5Cb",
    "/a%5c..%5cb",
    "/a%00b",
    "/a%0d%0aSet-Cookie:x",
    "/a%7F",
    "*",
];

#[tokio::test]
async fn a_target_reaches_the_upstream_byte_for_byte() {
    let backend = Backend::start();
    // Half of them wait, and are kept in another form while they do.
    let weir = Weir::start(&one_limit("rate = \"500r/s\"\nburst = 99", &backend)).await;
    let mut client = weir.client().await;
    for target in ODD {
        assert_eq!(client.get(target).await.status, 200, "{target}");
    }
    assert_eq!(backend.targets(), ODD);
}

#[tokio::test]
async fn a_target_that_servers_read_in_different_ways_is_refused() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    for target in AMBIGUOUS {
        let response = weir.get(target).await;
        assert_eq!(response.status, 400, "{target}");
        assert_eq!(response.json()["status"], 400, "{target}");
    }
    assert_eq!(backend.targets(), [""; 0]);
}

#[tokio::test]
async fn a_fragment_is_never_cut_off_in_silence() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    for target in ["/a#b", "/a?b#c", "/#"] {
        let response = weir.get(target).await;
        if response.status == 200 {
            assert_eq!(backend.targets().pop().as_deref(), Some(target));
        } else {
            assert_eq!(response.status, 400, "{target}");
        }
    }
}

#[tokio::test]
async fn an_absolute_target_is_forwarded_by_its_path() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"100r/s\"\nburst = 9", &backend)).await;
    let mut client = weir.client().await;
    for (target, path) in [
        ("http://weir.test/a%2Fb?c", "/a%2Fb?c"),
        ("http://WEIR.test", "/"),
        ("http://weir.test/", "/"),
        ("http://weir.test?a", "/?a"),
    ] {
        assert_eq!(client.get(target).await.status, 200, "{target}");
        assert_eq!(backend.targets().pop().as_deref(), Some(path), "{target}");
    }
}

#[tokio::test]
async fn a_base_path_goes_before_and_a_prefix_is_taken_off() {
    for (base, strip, cases) in [
        (
            "/base",
            false,
            [
                ("/v1/a%2Fb?c=%20", "/base/v1/a%2Fb?c=%20"),
                ("/v1", "/base/v1"),
                ("/v1//x", "/base/v1//x"),
            ],
        ),
        (
            "",
            true,
            [
                ("/v1/a%2Fb?c=%20", "/a%2Fb?c=%20"),
                ("/v1?x", "/?x"),
                ("/%761//x", "//x"),
            ],
        ),
        (
            "/base/",
            true,
            [
                ("/v1/a?b", "/base/a?b"),
                ("/v1/", "/base/"),
                ("/v1/%7b", "/base/%7b"),
            ],
        ),
    ] {
        let backend = Backend::start();
        let config = upstream("", &format!("strip_prefix = {strip}"), &backend)
            .replace("path = \"/\"", "path = \"/v1\"")
            .replace(&backend.url(), &format!("{}{base}", backend.url()));
        let weir = Weir::start(&config).await;
        let mut client = weir.client().await;
        for (target, path) in cases {
            assert_eq!(client.get(target).await.status, 200, "{target}");
            let seen = backend.targets().pop();
            assert_eq!(seen.as_deref(), Some(path), "{base} {strip} {target}");
        }
    }
}

#[tokio::test]
async fn a_route_is_found_by_the_normal_form_of_its_path_and_host() {
    let backend = Backend::start();
    let second = "[upstreams.other]\nrespond = { status = 202 }\n\
        [[routes]]\npath = \"/v1\"\nupstream = \"other\"\n\
        [[routes]]\nhost = \"pay.example\"\npath = \"/\"\nupstream = \"other\"\n";
    let weir = Weir::start(&format!("{}{second}", route("", &backend))).await;
    let mut client = weir.client().await;
    for (target, status) in [
        ("/v1", 202),
        ("/%76%31/x", 202),
        ("/v1%2Fx", 200),
        ("/V1", 200),
        ("//v1", 200),
        ("/v10", 200),
    ] {
        assert_eq!(client.get(target).await.status, status, "{target}");
    }
    for (host, status) in [
        ("pay.example", 202),
        ("PAY.example:8080", 202),
        ("pay.example.", 202),
        ("xpay.example", 200),
    ] {
        let request = format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.send(request).await;
        assert_eq!(client.response().await.status, status, "{host}");
    }
    let method = Request::new("PURGE", "/x");
    assert_eq!(client.ask(&method).await.status, 200);
    assert_eq!(backend.seen().pop().expect("one").method(), "PURGE");
}
