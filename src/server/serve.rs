//! How does one runtime serve its share of the connections?

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt as _;
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::{Service as HttpService, service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower_service::Service as _;
use tracing::{debug, warn};

use super::janitor::{Connections, Janitor};
use crate::peer::{Peer, Stream, Timeouts};
use crate::proxy::{Worker, proxy};
use crate::respond::Problem;

/// What a client gets when too many are connected.
static TOO_MANY: LazyLock<String> = LazyLock::new(|| {
    let detail = "too many connections".to_owned();
    let answer = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        .reduced_capacity()
        .answer();
    let body = String::from_utf8_lossy(answer.body());
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\ncache-control: no-store\r\nretry-after: 1\r\nconnection: close\r\n\
         proxy-status: weir; error=connection_limit_reached\r\n\r\n{body}",
        body.len()
    )
});

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long to wait where the kernel has no descriptor left.
const OUT_OF_FILES: Duration = Duration::from_millis(100);

/// Who answers on a listener.
#[derive(Clone, Debug)]
pub(super) enum Service {
    /// The proxy, for one runtime.
    Proxy(Arc<Worker>),
    /// The admin pages.
    Pages(Router),
}

/// What all listeners of one kind share.
#[derive(Clone, Debug)]
pub(super) struct House {
    pub(super) service: Service,
    pub(super) connections: Arc<Connections>,
    pub(super) janitor: Arc<Janitor>,
    pub(super) timeouts: Timeouts,
    pub(super) max_header_bytes: usize,
    pub(super) draining: watch::Receiver<bool>,
}

/// Accepts connections until the instance drains. Those that are open then are
/// served on to the end of what was asked.
pub(super) async fn accept(listener: TcpListener, house: House) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut draining = house.draining.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            _ended = draining.wait_for(|draining| *draining) => {
                house.janitor.dismiss();
                return Ok(());
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) => welcome(socket, address, &house),
            Err(failed) => {
                warn!(error = %failed, "a connection could not be accepted");
                tokio::time::sleep(OUT_OF_FILES).await;
            }
        }
    }
}

fn welcome(socket: TcpStream, address: SocketAddr, house: &House) {
    let Some(open) = house.connections.open() else {
        // One that takes no answer is turned away without.
        let _unsent = socket.try_write(TOO_MANY.as_bytes());
        return;
    };
    // Nothing is lost but a little time where the kernel refuses.
    let _slower = socket.set_nodelay(true);
    let peer = Peer::new(socket, address, house.timeouts);
    house.janitor.watch(&peer);
    let house = house.clone();
    tokio::spawn(async move {
        if let Err(ended) = converse(peer, &house).await {
            debug!(error = %ended, "a connection broke");
        }
        drop(open);
    });
}

/// Serves one connection to its end.
async fn converse(peer: Arc<Peer>, house: &House) -> hyper::Result<()> {
    let asking = Arc::clone(&peer);
    match &house.service {
        Service::Proxy(worker) => {
            let service = |request| {
                proxy(Arc::clone(worker), Arc::clone(&asking), request).map(Ok::<_, Infallible>)
            };
            drive(peer, house, service_fn(service)).await
        }
        Service::Pages(router) => {
            let service = |request: Request<Incoming>| router.clone().call(request.map(Body::new));
            drive(peer, house, service_fn(service)).await
        }
    }
}

/// Drives a connection to its end, which comes soon once the instance drains.
async fn drive<S, B>(peer: Arc<Peer>, house: &House, service: S) -> hyper::Result<()>
where
    S: HttpService<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>>,
    B: HttpBody<Error: Into<BoxError>> + 'static,
{
    let stream = TokioIo::new(Stream::new(Arc::clone(&peer)));
    let connection = Builder::new()
        .max_buf_size(house.max_header_bytes)
        .half_close(false)
        .serve_connection(stream, service);
    tokio::pin!(connection);
    let mut leaves = false;
    poll_fn(|cx| {
        if !leaves && peer.is_dismissed(cx) {
            leaves = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    })
    .await
}
