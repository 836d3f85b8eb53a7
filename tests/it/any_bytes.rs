//! Is there anything that a client can send, of which a backend gets half a request
//! and another one?

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::harness::{Client, Heard, Weir, Wire, together};

/// How many are under way at once.
const AT_ONCE: usize = 32;

/// Lines that say something of how a message is carried.
const LINES: &[&str] = &[
    "Content-Length: 5",
    "Content-Length: 0",
    "Content-Length: 50",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Connection: close",
    "Connection: Transfer-Encoding, Content-Length, Host",
    "Host: b",
    "Expect: 100-continue",
    "Upgrade: h2c",
    "TE: trailers",
    "Trailer: X-Sum",
    "X: y",
    " folded",
];

const BODIES: &[&str] = &[
    "",
    "hello",
    "0\r\n\r\n",
    "5\r\nhello\r\n0\r\n\r\n",
    "5;x=y\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
    "2b\r\nGET /inner HTTP/1.1\r\nHost: a\r\nX: 12345678\r\n\r\n0\r\n\r\n",
    "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// Nearly a request: lines in any order, a body that may be another's, and a few
/// bytes that are not as they should be.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let request = (
        prop::sample::select(&["GET", "POST", "HEAD", "PUT", "OPTIONS"][..]),
        prop::sample::select(&["/", "/a?b", "//a", "/%2e%2e/", "http://a/", "*", "/#"][..]),
        prop::sample::select(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2"][..]),
        prop::collection::vec(prop::sample::select(LINES), 0..4),
        prop::sample::select(BODIES),
    );
    let request = request.prop_map(|(method, target, version, lines, body)| {
        let head = [&["Host: a"][..], &lines, &["", body]].concat();
        format!("{method} {target} {version}\r\n{}", head.join("\r\n"))
    });
    let byte = prop::sample::select(b"\r\n\t :;,0aF\0\x0b\x7f\xa0".to_vec());
    let edit = (any::<prop::sample::Index>(), byte, 0..3_u8);
    (
        prop::collection::vec(request, 1..4),
        prop::collection::vec(edit, 0..3),
    )
        .prop_map(|(requests, edits)| {
            let mut bytes = requests.concat().into_bytes();
            for (at, byte, how) in edits {
                let at = at.index(bytes.len());
                match how {
                    0 => bytes.insert(at, byte),
                    1 => drop(bytes.remove(at)),
                    _ => drop(bytes.splice(at..=at, [byte])),
                }
            }
            bytes
        })
}

#[tokio::test]
async fn a_backend_gets_one_whole_request_at_a_time_whatever_is_sent() {
    let cases: u32 = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(1_000);
    let wire = Wire::start();
    let config = format!(
        "[upstreams.main]\nurl = \"{}\"\ntimeout = \"2s\"\n\
         [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n",
        wire.url()
    );
    let server = "header_timeout = \"100ms\"\nidle_timeout = \"100ms\"\nbody_timeout = \"100ms\"";
    let weir = Weir::with(server, &config).await;
    let mut runner = TestRunner::default();
    let mut whole = 0;
    let sent: Vec<Vec<u8>> = (0..cases)
        .map(|_| nearly().new_tree(&mut runner).expect("bytes").current())
        .collect();
    for some in sent.chunks(AT_ONCE) {
        let clients = some.iter().cloned().map(|bytes| {
            let address = weir.listen();
            async move {
                let mut client = Client::connect(address).await;
                // One that is refused takes no more.
                let _refused = client.try_send(&bytes).await;
                client.rest().await;
            }
        });
        together(clients).await;
        for heard in wire.take() {
            match heard {
                Heard::Whole(_) => whole += 1,
                Heard::Part(_) => (),
                Heard::Odd(why, bytes) => {
                    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let some: Vec<_> = some.iter().map(|sent| shown(sent)).collect();
                    unreachable!("{why}: {:?} of one of {some:#?}", shown(&bytes))
                }
            }
        }
    }
    // Most are refused; where all are, this shows nothing.
    assert!(whole > cases / 10, "{whole} of {cases}");
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}
