//! Whom does weir trust when it speaks TLS to an upstream?

use std::io;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore};

use super::target::TlsFiles;
use crate::pem::{PemError, certificates, private_key};

/// Why TLS to an upstream can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's trusted roots can't be read.
    #[error("the system's trusted roots can't be read; name a file with `ca`")]
    NativeRoots(#[source] io::Error),
    /// A file holds no PEM of the kind that is needed.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The files don't go together.
    #[error("the certificates can't be used")]
    Unusable(#[from] rustls::Error),
}

/// The TLS settings for an upstream, but for ALPN: the system's roots or a
/// private one, with a client certificate where there is one.
pub fn client_config(files: &TlsFiles) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match &files.ca {
        None => builder.with_native_roots().map_err(TlsError::NativeRoots)?,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root)?;
            }
            builder.with_root_certificates(roots)
        }
    };
    Ok(match &files.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            builder.with_client_auth_cert(certificates(chain)?, private_key(key)?)?
        }
    })
}
