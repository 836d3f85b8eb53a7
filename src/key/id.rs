//! By which name is a bucket known outside the process that counts it?

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// 128 bits of HMAC-SHA-256 over a key's parts: the bucket's name in logs, in
/// Redis and in the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(u128);

impl KeyId {
    /// The id that was written so.
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| u128::from_str_radix(text, 16).ok().map(Self))?
    }

    /// The same key among those of a tier: it begins with the tier's number.
    pub(crate) fn in_tier(self, tier: u16) -> Self {
        Self((self.0 << 16 >> 16) | (u128::from(tier) << 112))
    }

    /// The tier that it is in, where its limit has tiers.
    pub(crate) fn tier(self) -> u16 {
        u16::try_from(self.0 >> 112).unwrap_or(0)
    }

    /// A number below `shards` that is even over all keys.
    pub(crate) fn spread(self, shards: usize) -> usize {
        usize::try_from(self.0 % (shards as u128)).unwrap_or(0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Turns the parts of a key into its id.
#[derive(Clone)]
pub struct KeyHasher(Hmac<Sha256>);

impl KeyHasher {
    /// A hasher under `secret`: two with the same secret give the same ids.
    #[expect(clippy::missing_panics_doc, reason = "HMAC takes a key of any length")]
    pub fn new(secret: &str) -> Self {
        Self(Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length"))
    }

    /// The id of a single constant.
    pub fn hash(&self, text: &str) -> KeyId {
        let mut key = self.begin();
        key.add("", text.as_bytes());
        key.finish()
    }

    pub(super) fn begin(&self) -> KeyParts {
        KeyParts(self.0.clone())
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(…)")
    }
}

/// A key that is being put together.
pub(super) struct KeyParts(Hmac<Sha256>);

impl KeyParts {
    /// Adds one part with its source and its length, so that no two lists of
    /// parts are the same bytes.
    pub(super) fn add(&mut self, source: &str, value: &[u8]) {
        for bytes in [source.as_bytes(), value] {
            self.0.update(&(bytes.len() as u64).to_be_bytes());
            self.0.update(bytes);
        }
    }

    pub(super) fn finish(self) -> KeyId {
        let digest = self.0.finalize().into_bytes();
        let head = digest
            .iter()
            .take(16)
            .fold(0, |id, byte| (id << 8) | u128::from(*byte));
        KeyId(head)
    }
}
