//! How does a connection to an upstream come up?

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tower_service::Service;

use super::target::ServerTarget;
use super::tls::{TlsError, client_config};

/// A stream to an upstream, with TLS or without.
pub(super) type Stream = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;

/// Connects to one upstream, TLS included, in bounded time.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    https: HttpsConnector<HttpConnector>,
    uri: Uri,
    most: Duration,
}

/// Why no connection came up.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// It took too long.
    #[error("no connection within {0:?}")]
    TooSlow(Duration),
    /// The network, the upstream or its certificate said no.
    #[error("no connection")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Connector {
    pub(super) fn new(target: &ServerTarget) -> Result<Self, TlsError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let tls = if target.scheme == http::uri::Scheme::HTTPS {
            client_config(&target.tls)?
        } else {
            // Never used: the scheme decides.
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth()
        };
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(target.scheme.clone());
        uri.authority = Some(target.authority.clone());
        uri.path_and_query = Some(PathAndQuery::from_static("/"));
        let uri = Uri::from_parts(uri).unwrap_or_default();
        Ok(Self {
            https,
            uri,
            most: target.connect_timeout,
        })
    }

    pub(super) async fn connect(&self) -> Result<Stream, ConnectError> {
        let mut https = self.https.clone();
        let connected = async {
            poll_fn(|cx| https.poll_ready(cx)).await?;
            https.call(self.uri.clone()).await
        };
        let in_time = tokio::time::timeout(self.most, connected).await;
        in_time
            .map_err(|_elapsed| ConnectError::TooSlow(self.most))?
            .map_err(ConnectError::Failed)
    }
}
