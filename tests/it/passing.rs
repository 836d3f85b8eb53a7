//! Which bytes does a backend get for the bytes that a client sends?

use crate::harness::{Heard, Weir, Wire};

/// What weir adds to each request, beside an id of its own.
const ADDED: [&str; 3] = [
    "x-forwarded-for: 127.0.0.1",
    "x-forwarded-proto: http",
    "x-forwarded-host: a",
];

/// Whole requests, and what comes of them.
const REQUESTS: &[(&str, &[&str])] = &[
    (
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "\r\n\r\nGET / HTTP/1.1\r\nhOST:  a\t\r\n\r\n",
        &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
        &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET /b?c HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET https://A HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET //evil.example/ HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET //evil.example/ HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET /%252e%252e/%25%35c HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET /%252e%252e/%25%35c HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET /\u{e9}?\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET /\u{e9}?\u{e9} HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "get / HTTP/1.1\r\nHost: a\r\n\r\n",
        &["get / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "!$%&'*+-.^_`|~ / HTTP/1.1\r\nHost: a\r\n\r\n",
        &["!$%&'*+-.^_`|~ / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        &[
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 35\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
        &[
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
            "GET /next HTTP/1.1\r\nhost: a\r\n\r\n",
        ],
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
        &[
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "GET /next HTTP/1.1\r\nhost: a\r\n\r\n",
        ],
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nGET /early HTTP/1.1\r\nHost: a\r\n\r\n",
        &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
    ),
];

/// Lines of a head, and what is left of them.
const LINES: &[(&str, &str)] = &[
    ("X: 1\r\nY: 2\r\nX: 3\r\n", "x: 1\r\nx: 3\r\ny: 2\r\n"),
    ("X:  b c \t\r\nX-Empty:\r\n", "x: b c\r\nx-empty: \r\n"),
    (
        "Cookie: a=b\r\nCookie: c=d\r\n",
        "cookie: a=b\r\ncookie: c=d\r\n",
    ),
    (
        "Content-Type: a/b\r\nContent-Type: c/d\r\n",
        "content-type: a/b\r\ncontent-type: c/d\r\n",
    ),
    (
        "Authorization: Basic eA==\r\n",
        "authorization: Basic eA==\r\n",
    ),
    ("Max-Forwards: 0\r\n", "max-forwards: 0\r\n"),
    ("Via: 1.0 x\r\nX-Request-Id: mine\r\n", "via: 1.0 x\r\n"),
    ("Expect: 200-ok\r\n", "expect: 200-ok\r\n"),
    ("Trailer: X-Sum\r\n", "trailer: X-Sum\r\n"),
    ("TE: trailers\r\nConnection: TE\r\n", "te: trailers\r\n"),
    ("TE: gzip\r\n", ""),
    (
        "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n",
        "",
    ),
    (
        "Proxy-Authorization: Basic eA==\r\nProxy-Authenticate: x\r\n",
        "",
    ),
    ("Connection: close, host, content-length\r\n", ""),
    (
        "Connection: X-Forwarded-For, X-Forwarded-Proto, X-Request-Id, Via\r\n",
        "",
    ),
    (
        "Connection: Authorization, Content-Type, X-Own\r\nAuthorization: b\r\nContent-Type: c\r\nX-Own: d\r\n",
        "content-type: c\r\nauthorization: b\r\n",
    ),
    (
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n",
        "",
    ),
    ("Upgrade: h2c\r\nHTTP2-Settings: AAMA\r\n", ""),
    (
        "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: b\r\nX-Forwarded-Port: 1\r\n",
        "",
    ),
    (
        "X_Forwarded_For: 1.2.3.4\r\nX-Forwarded_For: 1.2.3.4\r\nX_Real_IP: 1.2.3.4\r\n",
        "",
    ),
    ("Forwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n", ""),
    ("Content_Length: 5\r\nTransfer_Encoding: chunked\r\n", ""),
];

/// What a request with a body says and sends, and what comes of it.
const BODIES: &[(&str, &str)] = &[
    ("Content-Length: 0\r\n\r\n", "content-length: 0\r\n\r\n"),
    (
        "Content-Length:\t 3\t\r\n\r\nabc",
        "content-length: 3\r\n\r\nabc",
    ),
    (
        "Content-Length: 003\r\n\r\nabc",
        "content-length: 3\r\n\r\nabc",
    ),
    (
        "Connection: Content-Length\r\nContent-Length: 3\r\n\r\nabc",
        "content-length: 3\r\n\r\nabc",
    ),
    (
        "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        "expect: 100-continue\r\ncontent-length: 3\r\n\r\nabc",
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ),
    (
        "Connection: Transfer-Encoding\r\nTransfer-Encoding:\tCHUNKED \r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n3;x;a=b;c=\"d e\"\r\nabc\r\n00;x\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n0000000000000003 ;x\r\nabc\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ),
    (
        "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n",
        "trailer: X-Sum\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\nx-other: 2\r\n\r\n",
    ),
    (
        "Transfer-Encoding: chunked\r\nTrailer: Content-Length, Host, X-Forwarded-For, Connection, Authorization\r\n\r\n\
         0\r\nContent-Length: 1\r\nHost: b\r\nX-Forwarded-For: 1.2.3.4\r\nConnection: close\r\nAuthorization: b\r\n\r\n",
        "trailer: Content-Length, Host, X-Forwarded-For, Connection, Authorization\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
];

fn to(wire: &Wire) -> String {
    format!(
        "[limits.main]\nkey = \"all\"\nrate = \"1000r/s\"\nburst = 99\n\
         [upstreams.main]\nurl = \"{}\"\nhost = \"client\"\n\
         [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\nlimits = [\"main\"]\n",
        wire.url()
    )
}

/// A whole request without what weir adds, each of which must be there once.
fn bare(heard: &Heard) -> String {
    let Heard::Whole(bytes) = heard else {
        return format!("{heard:?}");
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let mut lines: Vec<&str> = head.split("\r\n").collect();
    let mut take = |is_added: &dyn Fn(&str) -> bool| {
        let before = lines.len();
        lines.retain(|line| !is_added(line));
        assert_eq!(lines.len() + 1, before, "{text:?}");
    };
    for added in ADDED {
        take(&|line| line == added);
    }
    take(&|line| line.starts_with("x-request-id: "));
    take(&|line| matches!(line, "via: 1.1 weir" | "via: 1.0 weir"));
    format!("{}\r\n\r\n{body}", lines.join("\r\n"))
}

/// All requests with what comes of each.
fn cases() -> Vec<(String, Vec<String>)> {
    let owned = |(sent, heard): &(&str, &[&str])| {
        let heard = heard.iter().map(|one| (*one).to_owned()).collect();
        ((*sent).to_owned(), heard)
    };
    let mut all: Vec<(String, Vec<String>)> = REQUESTS.iter().map(owned).collect();
    let methods = ["GET", "POST", "PURGE"];
    for (method, (sent, heard)) in methods.into_iter().cycle().zip(LINES) {
        all.push((
            format!("{method} / HTTP/1.1\r\nHost: a\r\n{sent}\r\n"),
            vec![format!("{method} / HTTP/1.1\r\nhost: a\r\n{heard}\r\n")],
        ));
    }
    for (sent, heard) in BODIES {
        for method in ["GET", "POST", "DELETE"] {
            all.push((
                format!("{method} / HTTP/1.1\r\nHost: a\r\n{sent}"),
                vec![format!("{method} / HTTP/1.1\r\nhost: a\r\n{heard}")],
            ));
        }
    }
    all
}

#[tokio::test]
async fn a_backend_gets_these_bytes_and_no_others() {
    let wire = Wire::start();
    let weir = Weir::start(&to(&wire)).await;
    let mut flaws = Vec::new();
    for (sent, wanted) in &cases() {
        let mut client = weir.client().await;
        client.send(sent).await;
        for _ in wanted {
            let response = client.response().await;
            if response.status != 200 {
                flaws.push(format!("{sent:?}: {response:?}"));
            }
        }
        // Nothing else may be under way.
        let _closed = client.try_send("\r\n\r\nnonsense\r\n\r\n").await;
        client.rest().await;
        let heard: Vec<String> = wire.take().iter().map(bare).collect();
        if heard != *wanted {
            flaws.push(format!(
                "{sent:?}\n  came as {heard:?}\n  not as {wanted:?}"
            ));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}
