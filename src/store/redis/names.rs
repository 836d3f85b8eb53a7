//! Under which keys is a bucket in Redis?

use crate::key::KeyId;
use crate::window::Kind;

/// How many parts the hash slots of a cluster are watched in: each lies on one
/// server, but where two servers' ranges meet.
pub(super) const PARTS: usize = 64;
const HASH_SLOTS: usize = 16_384;

/// The names of all keys of a prefix.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
}

/// The names of one bucket's keys: one hash tag, so one hash slot.
#[derive(Clone, Debug)]
pub(super) struct BucketNames {
    pub(super) bucket: String,
    pub(super) line: String,
    pub(super) probe: String,
    /// Which part of a cluster it is in.
    pub(super) part: usize,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    pub(super) fn bucket(&self, limit: &str, key: KeyId) -> BucketNames {
        let tag = format!("{limit}:{key}");
        let bucket = format!("{}:{{{tag}}}", self.prefix);
        BucketNames {
            line: format!("{bucket}:line"),
            probe: format!("{bucket}:probe"),
            part: usize::from(crc16(tag.as_bytes())) % HASH_SLOTS / (HASH_SLOTS / PARTS),
            bucket,
        }
    }

    /// Where instances say that they live.
    pub(super) fn instances(&self) -> String {
        format!("{}:instances", self.prefix)
    }

    /// What is paused.
    pub(super) fn pauses(&self) -> String {
        format!("{}:pauses", self.prefix)
    }

    /// The channel on which instances wake each other.
    pub(super) fn channel(&self) -> String {
        format!("{}:wake", self.prefix)
    }
}

impl BucketNames {
    /// The keys of a window. Each kind has its own, so that a limit may change from one
    /// to another.
    pub(super) fn window(&self, kind: Kind) -> Vec<String> {
        let bucket = &self.bucket;
        match kind {
            Kind::Fixed => vec![format!("{bucket}:fixed")],
            Kind::Counter => vec![format!("{bucket}:counter")],
            Kind::Log => vec![format!("{bucket}:log"), format!("{bucket}:log:entries")],
        }
    }
}

/// The checksum by which a cluster spreads keys: CRC16 of XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHasher;

    #[test]
    fn a_bucket_has_one_hash_tag_whatever_its_key() {
        let names = Names::new("weir");
        for key in ["a", "{", "}", "{}", "a{b}c", "", "\0\r\n", "%2F"] {
            let BucketNames { bucket, line, .. } =
                names.bucket("db", KeyHasher::new("weir").hash(key));
            assert_eq!(line, format!("{bucket}:line"));
            let tag = bucket
                .strip_prefix("weir:{db:")
                .and_then(|rest| rest.strip_suffix('}'))
                .expect("a tag");
            assert!(tag.len() == 32 && tag.bytes().all(|b| b.is_ascii_hexdigit()));
        }
    }

    #[test]
    fn the_checksum_is_the_cluster_s() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }
}
