//! Does a limit before a service in its own process keep what it keeps in the proxy?

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use futures_util::FutureExt as _;
use futures_util::future::{Ready, join_all, ready};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer as _;
use tower_service::Service;
use weir::layer::{LayerError, LimitLayer};
use weir::limit::{Policy, Rule};
use weir::line::Pace;

use crate::harness::{GLANCE, PATIENCE, ms};

fn limit(lines: &str) -> LimitLayer {
    LimitLayer::from_toml(&format!("[limits.api]\n{lines}")).expect("a sound limit")
}

/// A router that counts whom it serves.
fn router(limit: &LimitLayer) -> (Router, Arc<AtomicUsize>) {
    let served = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&served);
    let serve = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        ready("served")
    };
    let router = Router::new().route("/", get(serve)).layer(limit.clone());
    (router, served)
}

fn request(headers: &[(&str, &str)]) -> Request<Body> {
    let request = headers
        .iter()
        .fold(Request::get("/"), |request, (name, value)| {
            request.header(*name, *value)
        });
    request.body(Body::empty()).expect("a request")
}

async fn ask(router: &Router, request: Request<Body>) -> Response<Body> {
    router.clone().call(request).await.expect("it can't fail")
}

async fn status(router: &Router, headers: &[(&str, &str)]) -> u16 {
    ask(router, request(headers)).await.status().as_u16()
}

fn field<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).map(|value| value.to_str().expect("text"));
    value.unwrap_or_default()
}

fn waiting(limit: &LimitLayer) -> String {
    let shown = limit.metrics();
    let line = shown
        .lines()
        .find_map(|line| line.strip_prefix("weir_waiting{limit=\"api\"} "));
    line.expect("the metric").to_owned()
}

async fn until_waiting(limit: &LimitLayer, count: &str) {
    let come = async {
        while waiting(limit) != count {
            tokio::time::sleep(GLANCE).await;
        }
    };
    let come = tokio::time::timeout(PATIENCE, come).await;
    come.expect("so many wait in the end");
}

#[tokio::test]
async fn a_burst_leaves_a_router_one_by_one_and_the_rest_is_told_when_to_come_back() {
    let (router, served) = router(&limit("key = \"all\"\nrate = \"20r/s\"\nburst = 3"));
    let begun = Instant::now();
    let asked = (0..5).map(|_| async {
        let answer = ask(&router, request(&[])).await;
        (answer, begun.elapsed())
    });
    let mut answers = join_all(asked).await;
    let (refused, _) = answers.pop().expect("five answers");
    for (place, (answer, took)) in (0..).zip(&answers) {
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(*took + ms(2) >= ms(50) * place, "{place} after {took:?}");
        let timing = field(answer.headers(), "server-timing");
        assert_eq!(timing.starts_with("queue;dur="), place > 0, "{timing}");
        assert_eq!(
            field(answer.headers(), "ratelimit-policy"),
            "\"api\";q=20;w=1"
        );
    }
    assert_eq!(served.load(Ordering::Relaxed), 4);
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let (parts, body) = refused.into_parts();
    for (name, value) in [
        ("retry-after", "1"),
        ("ratelimit", "\"api\";r=0;t=1"),
        ("content-type", "application/problem+json"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(field(&parts.headers, name), value);
    }
    let body = body.collect().await.expect("a body").to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(problem["violated-policies"], serde_json::json!(["api"]));
}

#[tokio::test]
async fn a_request_that_is_dropped_frees_its_place_and_costs_nothing() {
    let limit = limit("key = \"all\"\nrate = \"1r/h\"\nburst = 1");
    let (router, served) = router(&limit);
    assert_eq!(status(&router, &[]).await, 200);
    let mut waits = Box::pin(ask(&router, request(&[])));
    assert!((&mut waits).now_or_never().is_none(), "it waits");
    assert_eq!(
        (waiting(&limit).as_str(), status(&router, &[]).await),
        ("1", 429)
    );
    drop(waits);
    assert_eq!(waiting(&limit), "0");
    let next = Box::pin(ask(&router, request(&[])));
    assert!(next.now_or_never().is_none(), "the place was free");
    assert_eq!(served.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_client_that_leaves_is_not_served() {
    let limit = limit("key = \"{ip}\"\nrate = \"1r/h\"\nburst = 1").address(|request: &Parts| {
        let peer = request.extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(peer.0.ip())
    });
    let (router, served) = router(&limit);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, service).await });
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        client.write_all(head).await.expect("written");
        clients.push(client);
        if let [first] = clients.as_mut_slice() {
            let mut answer = [0; 12];
            first.read_exact(&mut answer).await.expect("an answer");
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
    }
    until_waiting(&limit, "1").await;
    clients.pop();
    until_waiting(&limit, "0").await;
    assert_eq!(served.load(Ordering::Relaxed), 1);
    server.abort();
}

#[tokio::test]
async fn keys_come_from_the_services_own_code_or_from_the_template() {
    let user = |request: &Parts| Some(request.headers.get("x-user")?.to_str().ok()?.to_owned());
    let limit = limit("key = \"all\"\nrate = \"1r/h\"");
    let (router, _) = router(&limit.keyed_by(user));
    let (a, b) = ([("x-user", "a")], [("x-user", "b")]);
    assert_eq!(status(&router, &a).await, 200);
    assert_eq!(status(&router, &b).await, 200);
    assert_eq!(status(&router, &a).await, 429);
    assert_eq!(status(&router, &[]).await, 400, "no key");
}

#[tokio::test]
async fn an_address_counts_only_where_the_service_says_it() {
    let lines = "key = \"{ip}\"\nrate = \"1r/h\"\nskip = [\"10.0.0.0/8\"]";
    let (silent, _) = router(&limit(lines));
    assert_eq!(status(&silent, &[]).await, 400);
    let told = |request: &Parts| request.headers.get("x-from")?.to_str().ok()?.parse().ok();
    let (router, _) = router(&limit(lines).address(told));
    for (from, expected) in [
        ("192.0.2.1", 200),
        ("192.0.2.1", 429),
        ("::ffff:192.0.2.1", 429),
        ("192.0.2.2", 200),
        ("10.1.2.3", 200),
        ("10.1.2.3", 200),
    ] {
        assert!(from.parse::<IpAddr>().is_ok());
        assert_eq!(
            status(&router, &[("x-from", from)]).await,
            expected,
            "{from}"
        );
    }
}

#[tokio::test]
async fn a_client_of_grpc_hears_of_a_refusal_in_its_own_terms() {
    let (router, _) = router(&limit("key = \"all\"\nrate = \"1r/h\""));
    assert_eq!(status(&router, &[]).await, 200);
    let refused = ask(&router, request(&[("content-type", "application/grpc")])).await;
    assert_eq!(refused.status(), StatusCode::OK);
    assert_eq!(field(refused.headers(), "grpc-status"), "8");
}

/// A service of other types than axum's, which counts how often it is asked whether it is
/// ready.
#[derive(Clone)]
struct Plain(Arc<AtomicUsize>);

impl Service<Request<()>> for Plain {
    type Response = Response<String>;
    type Error = String;
    type Future = Ready<Result<Response<String>, String>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        ready(Ok(Response::new(request.uri().path().to_owned())))
    }
}

#[tokio::test]
async fn who_waits_holds_nothing_of_the_service_before_its_turn() {
    let pace = Pace::new("10r/s".parse().expect("a rate"), 1, 0).expect("a pace");
    let policy = Policy::new("api", "{path}".parse().expect("a key"), Rule::Pace(pace));
    let limit = LimitLayer::new(policy).expect("a layer");
    let asked = Arc::new(AtomicUsize::new(0));
    let mut service = limit.layer(Plain(Arc::clone(&asked)));
    let mut call = |path: &str| {
        let request = Request::get(path).body(()).expect("a request");
        Box::pin(service.call(request))
    };
    let answer = call("/a").await.expect("served");
    assert_eq!(answer.status(), StatusCode::OK);
    let mut waits = call("/a");
    assert!((&mut waits).now_or_never().is_none());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let answer = waits.await.expect("served");
    let body = answer.into_body().collect().await.expect("a body");
    assert_eq!(
        (body.to_bytes().as_ref(), asked.load(Ordering::Relaxed)),
        (&b"/a"[..], 2)
    );
    let twice = call("/b/../a").await.expect("an answer");
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn faults_are_told_as_those_of_the_file_are() {
    for (text, fault) in [
        ("", "limits: must have one limit: [limits.NAME]"),
        (
            "[limits.a]\nkey = \"a\"\nrate = \"0r/s\"",
            "limit:3: limits.a.rate: ",
        ),
        (
            "[limits.a]\nkey = \"a\"\nrate = \"1r/s\"\nbrust = 1",
            "`burst`",
        ),
        (
            "[server]\n[limits.a]\nkey = \"a\"\nrate = \"1r/s\"",
            "server: unknown key",
        ),
        ("[limits.a", "limit:1: "),
    ] {
        let failed = LimitLayer::from_toml(text).expect_err(text);
        let LayerError::Faults(faults) = failed else {
            panic!("{failed}")
        };
        let told: Vec<_> = faults.lines().collect();
        assert!(told.iter().any(|line| line.contains(fault)), "{told:?}");
    }
    let pace = Pace::new("1r/s".parse().expect("a rate"), 0, 0).expect("a pace");
    let policy = Policy::new("a\"b", "all".parse().expect("a key"), Rule::Pace(pace));
    assert!(matches!(LimitLayer::new(policy), Err(LayerError::Name(_))));
}

#[test]
fn a_limit_needs_a_runtime_to_hand_out_turns_in() {
    let made = LimitLayer::from_toml("[limits.a]\nkey = \"a\"\nrate = \"1r/s\"");
    assert!(matches!(made, Err(LayerError::NoRuntime)));
}
