//! How is one connection served to its end?

use std::convert::Infallible;
use std::error::Error as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use ipnet::IpNet;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::janitor::Janitor;
use super::pages::page;
use super::welcome::Broken;
use crate::metrics::ConnectionFault;
use crate::peer::{Connections, Peer, Protocol, Stream, Timeouts};
use crate::proxy::{Worker, proxy};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Requests that may be under way at once on a connection of HTTP/2.
const STREAMS: u32 = 100;

/// Requests that may be given up before they were looked at: all at once by a client
/// that changes its mind, but not in a flood.
const UNSEEN_RESETS: usize = 2 * STREAMS as usize;

/// What a client may send of one request's body before somebody reads it.
const STREAM_WINDOW: u32 = 64 << 10;

/// The same for all requests of a connection: those who wait must not take the
/// room of those who go.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;

/// What of one answer may wait for its client, beyond what its window takes.
const SEND_BUFFER: usize = 64 << 10;

/// How often a client of HTTP/2 is asked whether it is still there, and how long
/// it may take to say so: a connection that the network forgot holds many places.
const PING: Duration = Duration::from_secs(20);

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
    /// Where clients come over TLS.
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// Whether trusted proxies say for whom they connect.
    pub(super) announced: bool,
    pub(super) draining: watch::Receiver<bool>,
}

impl House {
    /// Asks something of the proxies that are trusted at present.
    pub(super) fn trusts(&self, ask: impl FnOnce(&[IpNet]) -> bool) -> bool {
        match &self.service {
            Service::Proxy(worker) => ask(&worker.edition.load().app.settings.trusted_proxies),
            Service::Pages(_) => false,
        }
    }
}

/// Serves a connection to its end.
pub(super) async fn converse<I>(
    peer: Arc<Peer>,
    io: I,
    protocol: Protocol,
    house: &House,
) -> Result<(), Broken>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    peer.speaks(protocol);
    let asking = Arc::clone(&peer);
    match &house.service {
        Service::Proxy(worker) => {
            let worker = Arc::clone(worker);
            let service = service_fn(move |request| {
                proxy(Arc::clone(&worker), Arc::clone(&asking), request).map(Ok::<_, Infallible>)
            });
            match protocol {
                Protocol::Http1 => drive(peer, io, house, service).await,
                Protocol::Http2 => Box::pin(multiplex(peer, io, house, service)).await,
            }
        }
        // Nobody needs more than HTTP/1.1 here.
        Service::Pages(router) => {
            let service = |request| page(router.clone(), Arc::clone(&asking), request);
            drive(peer, io, house, service_fn(service)).await
        }
    }
}

/// Drives a connection of HTTP/1.1 to its end, which comes soon once the instance
/// drains.
async fn drive<I, S, B>(peer: Arc<Peer>, io: I, house: &House, service: S) -> Result<(), Broken>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>>,
    B: HttpBody<Error: Into<BoxError>> + 'static,
{
    let stream = TokioIo::new(Stream::new(io, Arc::clone(&peer)));
    let connection = http1::Builder::new()
        .max_buf_size(house.max_header_bytes)
        .max_header_size(house.max_header_bytes)
        .half_close(false)
        .serve_connection(stream, service)
        .with_upgrades();
    tokio::pin!(connection);
    let mut leaves = false;
    let served = poll_fn(|cx| {
        if !leaves && peer.is_dismissed(cx) {
            leaves = true;
            connection.as_mut().graceful_shutdown();
        }
        let ended = connection.as_mut().poll(cx);
        // hyper would wait for the first request of one that never asked.
        if leaves && ended.is_pending() && peer.is_silent() {
            return Poll::Ready(Ok(()));
        }
        ended
    });
    Ok(served.await?)
}

/// Drives a connection of HTTP/2 to its end.
async fn multiplex<I, S, B>(peer: Arc<Peer>, io: I, house: &House, service: S) -> Result<(), Broken>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>>,
    S::Future: Send + 'static,
    B: HttpBody<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    // A head that is too large is refused by the path, which says why.
    let most = u32::try_from(house.max_header_bytes).unwrap_or(u32::MAX);
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(UNSEEN_RESETS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(most.saturating_mul(2))
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .serve_connection(TokioIo::new(io), service);
    tokio::pin!(connection);
    let mut leaves = false;
    let served = poll_fn(|cx| {
        if !leaves && peer.is_dismissed(cx) {
            leaves = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    });
    let ended = served.await;
    if let Err(broken) = &ended
        && let Some(broken) = broken
            .source()
            .and_then(|source| source.downcast_ref::<h2::Error>())
        && !broken.is_io()
        && !broken.is_remote()
    {
        house
            .connections
            .metrics()
            .failed(ConnectionFault::Protocol);
    }
    Ok(ended?)
}
