//! Is a PEM file there, and does it hold what it should?

use std::path::PathBuf;

use super::field::Field;

/// The label of a certificate.
pub(super) const CERTIFICATE: &str = "CERTIFICATE-----";
/// The end of every private key's label, whatever its algorithm.
pub(super) const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// The path of a file that holds such a block, seen from the config's directory.
pub(super) fn pem(field: &Field<'_>, block: &str) -> Option<PathBuf> {
    let path = field.document().beside(&field.text()?.value);
    match field.document().read(&path) {
        Ok(Some(bytes)) if holds(&bytes, block) => return Some(path),
        Ok(_) => {
            let block = block.trim_end_matches('-').to_ascii_lowercase();
            field.refuse(format_args!("holds no {block} in PEM form"));
        }
        Err(error) => field.refuse(format_args!("cannot be read: {error}")),
    }
    None
}

fn holds(bytes: &[u8], block: &str) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.lines().any(|line| {
        let label = line.trim().strip_prefix("-----BEGIN ");
        label.is_some_and(|label| label.ends_with(block))
    })
}
