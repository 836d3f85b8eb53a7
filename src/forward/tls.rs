//! Whom does weir trust when it speaks TLS to an upstream?

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::target::TlsFiles;

/// Why TLS to an upstream can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's trusted roots can't be read.
    #[error("the system's trusted roots can't be read; name a file with `ca`")]
    NativeRoots(#[source] io::Error),
    /// A file holds no PEM of the kind that is needed.
    #[error("{} holds no usable {what}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What the parser said.
        source: rustls::pki_types::pem::Error,
    },
    /// The files don't go together.
    #[error("the certificates can't be used")]
    Unusable(#[from] rustls::Error),
}

/// The TLS settings for an upstream: HTTP/1.1 by ALPN, the system's roots or a
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Pem {
        path: path.to_owned(),
        what: "certificate",
        source,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if found.is_empty() {
        return Err(failed(rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Pem {
        path: path.to_owned(),
        what: "private key",
        source,
    })
}
