//! What is in a PEM file?

use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A file holds nothing of the kind that is needed.
#[derive(Debug, thiserror::Error)]
#[error("{} holds no usable {what}", path.display())]
pub struct PemError {
    path: PathBuf,
    what: &'static str,
    source: pem::Error,
}

/// The certificates in a file, at least one, in their order.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let failed = |source| PemError {
        path: path.to_owned(),
        what: "certificate",
        source,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if found.is_empty() {
        return Err(failed(pem::Error::NoItemsFound));
    }
    Ok(found)
}

/// The first private key in a file.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| PemError {
        path: path.to_owned(),
        what: "private key",
        source,
    })
}
