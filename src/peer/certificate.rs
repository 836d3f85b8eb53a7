//! With which certificate does weir show itself to clients?

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::pem::{PemError, certificates, private_key};

/// PEM files: a chain of certificates, weir's own first, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Why a certificate can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file holds no PEM of the kind that is needed.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// They don't go together, or are of a kind that is not known.
    #[error("the certificate and its key can't be used")]
    Unusable(#[from] rustls::Error),
}

impl CertificateFiles {
    /// Reads both files; fails where they don't belong to each other.
    pub fn load(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        let (chain, key) = (certificates(&self.cert)?, private_key(&self.key)?);
        let provider = ring::default_provider();
        Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider)?))
    }
}

/// The certificate that new connections are shown; it can be exchanged.
#[derive(Debug)]
pub struct Certificate(ArcSwap<CertifiedKey>);

impl Certificate {
    /// One to begin with.
    pub fn new(certified: Arc<CertifiedKey>) -> Arc<Self> {
        Arc::new(Self(ArcSwap::new(certified)))
    }

    /// Shows another from now on; connections that are open stay.
    pub fn exchange(&self, certified: Arc<CertifiedKey>) {
        self.0.store(certified);
    }

    /// TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1; sessions are resumed by tickets,
    /// whichever thread their clients come back to.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Self>::clone(self);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = ring::Ticketer::new()?;
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}
