//! Does gRPC pass, and does a client of it understand why not?

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;

use crate::harness::{Backend, Http2Backend, Play, Weir, ms, soon, together, until, upstream};

const H2: &str = "protocol = \"h2\"";
const OK: (&str, &str) = ("grpc-status", "0");

async fn connect(weir: &Weir) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(weir.listen())
        .await
        .expect("a connection");
    let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(async move {
        // What breaks is told to the call.
        let _ended = connection.await;
    });
    sender.ready().await.expect("a connection")
}

fn call(path: &str) -> Request<()> {
    Request::post(format!("http://weir.test{path}"))
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers")
        .header("grpc-timeout", "1S")
        .body(())
        .expect("a request")
}

/// What came back of a call whose message was sent at once.
async fn unary(weir: &Weir, path: &str) -> (Response<()>, Vec<u8>, HeaderMap) {
    let mut sender = connect(weir).await;
    let (response, mut stream) = sender.send_request(call(path), false).expect("a stream");
    let message = Bytes::from_static(b"\0\0\0\0\x02hi");
    stream.send_data(message, true).expect("a body");
    let whole = async {
        let (head, mut body) = response.await.expect("an answer").into_parts();
        let mut bytes = Vec::new();
        while let Some(part) = body.data().await {
            bytes.extend(part.expect("bytes"));
        }
        let trailers = body.trailers().await.expect("an end");
        (
            Response::from_parts(head, ()),
            bytes,
            trailers.unwrap_or_default(),
        )
    };
    soon("an answer", whole).await
}

#[tokio::test]
async fn a_call_passes_with_its_trailers() {
    let backend = Http2Backend::answering(|asked| {
        let (name, value) = OK;
        match asked.uri.path() {
            "/a.B/Fails" => vec![
                Play::Read,
                Play::HeadOnly(
                    200,
                    vec![
                        ("content-type", "application/grpc".into()),
                        ("grpc-status", "5".into()),
                        ("grpc-message", "no such thing".into()),
                    ],
                ),
            ],
            _ => vec![
                Play::Read,
                Play::Head(200, vec![("content-type", "application/grpc".into())]),
                Play::Say("\0\0\0\0\u{2}ho".into()),
                Play::Trailers(vec![(name, value.into()), ("x-cost", "3".into())]),
            ],
        }
    });
    let weir = Weir::start(&backend.route(H2, "")).await;
    let (head, body, trailers) = unary(&weir, "/a.B/Get").await;
    assert_eq!(head.status(), 200);
    assert_eq!(head.headers()["content-type"], "application/grpc");
    assert_eq!(body, b"\0\0\0\0\x02ho");
    assert_eq!(trailers["grpc-status"], "0");
    assert_eq!(trailers["x-cost"], "3");
    let asked = backend.only();
    assert_eq!(asked.headers["te"], "trailers");
    assert_eq!(asked.headers["grpc-timeout"], "1S");
    assert_eq!(asked.headers["content-type"], "application/grpc+proto");
    assert_eq!(asked.headers["via"], "2.0 weir");
    assert_eq!(asked.body, b"\0\0\0\0\x02hi");
    let (head, body, _) = unary(&weir, "/a.B/Fails").await;
    assert_eq!(head.headers()["grpc-status"], "5");
    assert_eq!(head.headers()["grpc-message"], "no such thing");
    assert!(body.is_empty());
}

#[tokio::test]
async fn both_sides_stream_at_once_and_it_is_one_request() {
    let backend = Http2Backend::answering(|_| {
        vec![
            Play::Head(200, vec![("content-type", "application/grpc".into())]),
            Play::Echo,
            Play::Trailers(vec![("grpc-status", "0".into())]),
        ]
    });
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"1r/h\"\n";
    let config = backend.route(H2, "limits = [\"main\"]");
    let weir = Weir::start(&format!("{limit}{config}")).await;
    let mut sender = connect(&weir).await;
    let (response, mut said) = sender
        .send_request(call("/a.B/Chat"), false)
        .expect("a stream");
    let response = soon("a head before any message", response)
        .await
        .expect("an answer");
    let mut heard = response.into_body();
    for number in 0..50_u8 {
        said.send_data(Bytes::copy_from_slice(&[number; 7]), false)
            .expect("room");
        let back = soon("an echo", heard.data())
            .await
            .expect("more")
            .expect("bytes");
        assert_eq!(&*back, &[number; 7]);
        heard
            .flow_control()
            .release_capacity(back.len())
            .expect("a window");
    }
    weir.shows("weir_in_flight{upstream=\"main\"}", 1.0).await;
    said.send_data(Bytes::new(), true).expect("an end");
    assert!(soon("an end", heard.data()).await.is_none());
    let trailers = heard.trailers().await.expect("trailers").expect("some");
    assert_eq!(trailers["grpc-status"], "0");
    let passed = "weir_requests_total{route=\"main\",outcome=\"passed\"}";
    weir.shows(passed, 1.0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn a_call_that_is_given_up_is_given_up_at_the_upstream() {
    let backend = Http2Backend::answering(|_| Play::held());
    let weir = Weir::start(&backend.route(H2, "")).await;
    let mut sender = connect(&weir).await;
    for round in 1..=20 {
        let (response, said) = sender
            .send_request(call("/a.B/Get"), round % 2 == 0)
            .expect("a stream");
        if round % 2 == 0 {
            backend.has_seen(round).await;
        } else {
            until("the call at the backend", async || {
                (backend.asked().len() >= round)
                    .then_some(())
                    .ok_or_else(String::new)
            })
            .await;
        }
        drop((response, said));
        backend.has_under_way(0).await;
        sender = sender.ready().await.expect("a connection that lives on");
    }
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    assert!(backend.accepted() <= 2);
}

#[tokio::test]
async fn a_refusal_is_one_of_grpc() {
    let backend = Http2Backend::answering(|asked| match asked.uri.path() {
        "/late" => Play::held(),
        _ => Play::ok(),
    });
    let config = backend.route(&format!("{H2}\ntimeout = \"200ms\""), "limits = [\"main\"]");
    let weir = Weir::start(&format!(
        "[limits.main]\nkey = \"{{path}}\"\nrate = \"1r/h\"\n\
         [limits.keyed]\nkey = \"{{header.x-key}}\"\nrate = \"1r/h\"\n{config}\
         [[routes]]\nname = \"keyed\"\npath = \"/keyed\"\nupstream = \"main\"\nlimits = [\"keyed\"]\n"
    ))
    .await;
    assert_eq!(unary(&weir, "/a").await.0.status(), 200);
    for (path, code, pushback) in [
        ("/a", "8", None),
        ("/keyed", "3", None),
        ("/late", "4", Some("-1")),
    ] {
        let (head, body, trailers) = unary(&weir, path).await;
        assert_eq!(head.status(), 200, "{path}");
        let headers = head.headers();
        assert_eq!(headers["content-type"], "application/grpc", "{path}");
        assert_eq!(headers["grpc-status"], code, "{path}");
        assert!(!headers["grpc-message"].is_empty(), "{path}");
        assert!(headers.contains_key("proxy-status"), "{path}");
        assert!(body.is_empty() && trailers.is_empty(), "{path}");
        if let Some(pushback) = pushback {
            assert_eq!(headers["grpc-retry-pushback-ms"], pushback, "{path}");
        }
        if code == "8" {
            let seconds: u64 = headers["retry-after"]
                .to_str()
                .expect("text")
                .parse()
                .expect("seconds");
            let millis: u64 = headers["grpc-retry-pushback-ms"]
                .to_str()
                .expect("text")
                .parse()
                .expect("ms");
            assert!(seconds * 1_000 >= millis && millis > (seconds - 2) * 1_000);
            assert!(headers.contains_key("ratelimit"));
        }
    }
    // What counts is what it is, not how it is told.
    let class = "weir_request_seconds_count{route=\"main\",code=\"4xx\"}";
    weir.shows(class, 1.0).await;
    let refused = "weir_requests_total{route=\"main\",outcome=\"refused\"}";
    weir.shows(refused, 1.0).await;
}

#[tokio::test]
async fn an_upstream_that_is_away_is_unavailable() {
    let cases = [Http2Backend::start().address()].map(|gone| async move {
        let weir = Weir::start(&format!(
            "[upstreams.main]\nurl = \"http://{gone}\"\n{H2}\n\
             [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n"
        ))
        .await;
        let (head, ..) = unary(&weir, "/a.B/Get").await;
        assert_eq!(head.headers()["grpc-status"], "14");
        assert_eq!(head.headers().get("grpc-retry-pushback-ms"), None);
    });
    together(cases).await;
}

#[tokio::test]
async fn an_upstream_by_http_1_gets_a_host_and_chunks() {
    let backend = Backend::start();
    let weir = Weir::start(&upstream("host = \"client\"", "", &backend)).await;
    let mut sender = connect(&weir).await;
    let request = Request::post("http://weir.test/a%2Fb?c")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(())
        .expect("a request");
    let (response, mut said) = sender.send_request(request, false).expect("a stream");
    said.send_data(Bytes::from_static(b"one"), false)
        .expect("room");
    tokio::time::sleep(ms(20)).await;
    said.send_data(Bytes::from_static(b"two"), true)
        .expect("room");
    let response = soon("an answer", response).await.expect("an answer");
    assert_eq!(response.status(), 200);
    let seen = backend.only();
    assert_eq!(seen.target(), "/a%2Fb?c");
    assert_eq!(seen.header("host"), Some("weir.test"));
    assert_eq!(seen.header("cookie"), Some("a=1; b=2"));
    assert!(seen.chunked && seen.whole);
    assert_eq!(seen.body, b"onetwo");
}
