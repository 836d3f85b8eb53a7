//! Does a limit before a service of tonic say what it says in gRPC's terms?

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use weir::layer::LimitLayer;

use crate::harness::{ms, until};

/// A server of tonic with this limit before it, ended with the test.
struct Service {
    limit: LimitLayer,
    address: SocketAddr,
    server: AbortHandle,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Service {
    async fn start(limit: &str) -> Self {
        let limit = LimitLayer::from_toml(&format!("[limits.calls]\n{limit}"));
        let limit = limit.expect("a sound limit");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (_reporter, health) = tonic_health::server::health_reporter();
        let server = Server::builder()
            .layer(limit.clone())
            .add_service(health)
            .serve_with_incoming(TcpIncoming::from(listener));
        Self {
            limit,
            address,
            server: tokio::spawn(server).abort_handle(),
        }
    }

    async fn client(&self) -> HealthClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let channel = endpoint.expect("an address").connect().await;
        HealthClient::new(channel.expect("it listens"))
    }

    async fn has_waiting(&self, count: u32) {
        let line = format!("weir_waiting{{limit=\"calls\"}} {count}");
        until("so many wait", async || {
            let shown = self.limit.metrics();
            let found = shown.lines().any(|shown| shown == line);
            found.then_some(()).ok_or_else(|| line.clone())
        })
        .await;
    }
}

/// What became of a call, and when.
async fn call(mut client: HealthClient<Channel>) -> (Result<(), Status>, Instant) {
    let answer = client.check(HealthCheckRequest::default()).await;
    (answer.map(drop), Instant::now())
}

#[tokio::test]
async fn calls_go_one_by_one_and_those_beyond_hear_when_to_come_back() {
    let service = Service::start("key = \"all\"\nrate = \"20r/s\"\nburst = 3").await;
    let client = service.client().await;
    let begun = Instant::now();
    let mut calls = join_all((0..6).map(|_| call(client.clone()))).await;
    calls.sort_by_key(|(_, at)| *at);
    let (served, refused): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(it, _)| it.is_ok());
    assert_eq!((served.len(), refused.len()), (4, 2));
    for (place, (_, at)) in (0..).zip(&served) {
        let took = at.duration_since(begun);
        assert!(took + ms(2) >= ms(50) * place, "{place} after {took:?}");
    }
    for (answer, _) in refused {
        let status = answer.expect_err("it was refused");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(status.message().contains("calls"), "{status:?}");
        let pushback = status.metadata().get("grpc-retry-pushback-ms");
        let millis: u64 = pushback
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .expect("milliseconds");
        assert!((1..=1_000).contains(&millis), "{millis}");
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_frees_its_place() {
    let service = Service::start("key = \"all\"\nrate = \"1r/h\"\nburst = 1").await;
    let client = service.client().await;
    call(client.clone()).await.0.expect("the first is served");
    let waits = tokio::spawn(call(client.clone()));
    service.has_waiting(1).await;
    let (refused, _) = call(client.clone()).await;
    assert_eq!(
        refused.map_err(|it| it.code()),
        Err(Code::ResourceExhausted)
    );
    waits.abort();
    service.has_waiting(0).await;
    let next = tokio::time::timeout(Duration::from_millis(200), call(client));
    assert!(next.await.is_err(), "it waits in the place that was freed");
}
