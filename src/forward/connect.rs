//! How does a connection to an upstream come up?

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use tower_service::Service;

use super::body::BoxError;
use super::http2::NoLink;
use super::target::{Protocol, ServerTarget};
use super::tls::{TlsError, client_config};

/// After how long a silence the kernel asks whether the other side is still there.
const KEEP_ALIVE: Duration = Duration::from_mins(1);

/// A stream to an upstream, with TLS or without.
pub(super) type Stream = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;

/// Connects to one upstream, TLS included.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    https: HttpsConnector<HttpConnector>,
    /// The same for HTTP/1.1 alone.
    http1: HttpsConnector<HttpConnector>,
    uri: Uri,
    most: Duration,
    protocol: Protocol,
}

impl Connector {
    /// Connects to `target`, and speaks what `protocol` says.
    pub(super) fn new(target: &ServerTarget, protocol: Protocol) -> Result<Self, TlsError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEP_ALIVE));
        let mut tls = if target.scheme == http::uri::Scheme::HTTPS {
            client_config(&target.tls)?
        } else {
            // Never used: the scheme decides.
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth()
        };
        tls.alpn_protocols = protocols(Protocol::Http1);
        let http1 = HttpsConnector::from((http.clone(), tls.clone()));
        tls.alpn_protocols = protocols(protocol);
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(target.scheme.clone());
        uri.authority = Some(target.authority.clone());
        uri.path_and_query = Some(PathAndQuery::from_static("/"));
        let uri = Uri::from_parts(uri).unwrap_or_default();
        Ok(Self {
            https: HttpsConnector::from((http, tls)),
            http1,
            uri,
            most: target.connect_timeout,
            protocol,
        })
    }

    /// How long a connection may take to come up.
    pub(super) const fn most(&self) -> Duration {
        self.most
    }

    /// A stream, with TLS where the upstream has it.
    pub(super) async fn connect(&self) -> Result<Stream, BoxError> {
        self.connect_by(self.https.clone()).await
    }

    /// The same for HTTP/1.1, whatever else the upstream speaks.
    pub(super) async fn connect_http1(&self) -> Result<Stream, BoxError> {
        self.connect_by(self.http1.clone()).await
    }

    async fn connect_by(&self, mut by: HttpsConnector<HttpConnector>) -> Result<Stream, BoxError> {
        poll_fn(|cx| by.poll_ready(cx)).await?;
        by.call(self.uri.clone()).await
    }

    /// Whether HTTP/2 is to be spoken on a stream; a fault where the upstream
    /// chose nothing that the config allows.
    pub(super) fn is_http2(&self, stream: &Stream) -> Result<bool, NoLink> {
        let chosen = match stream {
            MaybeHttpsStream::Http(_) => return Ok(self.protocol == Protocol::Http2),
            MaybeHttpsStream::Https(tls) => tls.inner().get_ref().1.alpn_protocol(),
        };
        match (self.protocol, chosen) {
            (Protocol::Http1, _) => Ok(false),
            (_, Some(b"h2")) => Ok(true),
            (Protocol::Auto, _) => Ok(false),
            (Protocol::Http2, _) => Err(NoLink::Foreign),
        }
    }
}

/// What is offered by ALPN, the best first.
pub(super) fn protocols(protocol: Protocol) -> Vec<Vec<u8>> {
    let names: &[&[u8]] = match protocol {
        Protocol::Auto => &[b"h2", b"http/1.1"],
        Protocol::Http1 => &[b"http/1.1"],
        Protocol::Http2 => &[b"h2"],
    };
    names.iter().map(|name| name.to_vec()).collect()
}
