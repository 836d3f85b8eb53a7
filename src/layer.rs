//! How does a service keep to a limit in its own process, without a proxy before it?
//!
//! [`LimitLayer`] is one limit as a [`tower_layer::Layer`], for axum, tonic and whatever
//! else is a service of `http`. `limits` is what its requests share and `reading` how their
//! key is found; `service` is a request's way. The line is the one that the proxy has.

mod limits;
mod reading;
mod service;

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use tower_layer::Layer;

use crate::config::{Faults, is_name, parse_limit};
use crate::limit::Policy;
use limits::Limits;
use reading::Reading;

pub use service::{Answer, Limited};

/// A limit before a service: requests wait in its line, pass or are refused, as they do
/// before an upstream of weir's.
///
/// All services that one layer, or a copy of it, was put before share its buckets. A
/// request whose future is dropped while it waits gives its place up, and all behind it
/// move up; none has cost anything. A refusal is a `429` with a problem in its body,
/// `Retry-After` and the `RateLimit` fields, or the same in gRPC's terms.
///
/// ```no_run
/// use std::net::SocketAddr;
///
/// use axum::Router;
/// use axum::extract::ConnectInfo;
/// use axum::routing::get;
/// use weir::layer::LimitLayer;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> anyhow::Result<()> {
///     let limit = LimitLayer::from_toml(
///         r#"
///         [limits.per_client]
///         key = "{header.x-api-key|ip}"
///         rate = "10r/s"
///         burst = 20
///         max_wait = "5s"
///         "#,
///     )?
///     .address(|request| {
///         let peer = request.extensions.get::<ConnectInfo<SocketAddr>>()?;
///         Some(peer.0.ip())
///     });
///     let app = Router::new().route("/", get(|| async { "in turn" })).layer(limit);
///     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
///     let app = app.into_make_service_with_connect_info::<SocketAddr>();
///     axum::serve(listener, app).await?;
///     Ok(())
/// }
/// ```
///
/// Before a server of tonic it is the same; those who are refused hear of it as
/// `RESOURCE_EXHAUSTED`, with `grpc-retry-pushback-ms`:
///
/// ```no_run
/// use tonic::transport::Server;
/// use tonic::transport::server::TcpConnectInfo;
/// use weir::layer::LimitLayer;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> anyhow::Result<()> {
///     let limit = LimitLayer::from_toml(
///         r#"
///         [limits.calls]
///         key = "{header.x-user|ip}"
///         rate = "50r/s"
///         burst = 100
///         "#,
///     )?
///     .address(|request| {
///         let peer = request.extensions.get::<TcpConnectInfo>()?;
///         Some(peer.remote_addr()?.ip())
///     });
///     let (_reporter, health) = tonic_health::server::health_reporter();
///     let server = Server::builder().layer(limit).add_service(health);
///     server.serve("127.0.0.1:50051".parse()?).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LimitLayer {
    limits: Arc<Limits>,
    reading: Reading,
}

/// Why a limit can't stand before a service.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It is not written as a limit is.
    #[error("the limit has faults")]
    Faults(#[from] Faults),
    /// It would break the fields of answers.
    #[error("`{0}` is no name of a limit: it has 1 to 64 of a-z, 0-9, _ and -")]
    Name(Arc<str>),
    /// Turns are handed out in a runtime of tokio, by tasks that begin with the layer.
    #[error("a limit is made inside of a tokio runtime")]
    NoRuntime,
    /// The system gives no timer.
    #[error("no timer for the turns of those who wait")]
    Timer(#[source] std::io::Error),
}

impl LimitLayer {
    /// The limit of `policy`. Turns are handed out in the runtime in which it is made.
    pub fn new(policy: Policy) -> Result<Self, LayerError> {
        if !is_name(&policy.name) {
            return Err(LayerError::Name(policy.name));
        }
        Ok(Self {
            limits: Arc::new(Limits::begin(policy)?),
            reading: Reading::default(),
        })
    }

    /// The one limit of a TOML text: `[limits.NAME]`, as in the file of the proxy, with all
    /// its keys and `${VARIABLES}`. Fails with all that is wrong with it.
    pub fn from_toml(text: &str) -> Result<Self, LayerError> {
        Self::new(parse_limit(text)?)
    }

    /// Whence a request comes, for `{ip}` and `skip`. Without it, as where it says nothing,
    /// no request has an address. Behind proxies, [`crate::key::client_address`] finds the
    /// client's.
    #[must_use]
    pub fn address(
        mut self,
        read: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.reading.address = Some(Arc::new(read));
        self
    }

    /// Counts requests under this text, instead of under the policy's `key`. Where there
    /// is none the key is missing, and `on_missing_key` decides.
    #[must_use]
    pub fn keyed_by(
        mut self,
        read: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.reading.key = Some(Arc::new(read));
        self
    }

    /// Its metrics as Prometheus scrapes them: `weir_waiting`, `weir_refused_total`, ….
    pub fn metrics(&self) -> String {
        self.limits.render()
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited::new(inner, Arc::clone(&self.limits), self.reading.clone())
    }
}
