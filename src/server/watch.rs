//! Does a file of the config say something else now?
//!
//! Files are looked at twice a second. That finds what editors and Kubernetes do, who
//! put another file or link in the place of the old one, on any file system, and
//! misses nothing where a directory is made anew.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Files, fingerprint};

/// How often files are looked at.
const ROUND: Duration = Duration::from_millis(500);

/// How long a file must stay as it is before it is read: who writes it is done then.
const STILL: Duration = Duration::from_millis(200);

/// For how many rounds a file may be missing before that is taken for a change.
const PATIENCE: u32 = 4;

/// By what a file shows that somebody wrote it: its inode, length and times.
type Stamp = (u64, u64, i64, i64, i64, i64);

/// The files of a config, as they were read last.
#[derive(Debug)]
pub(super) struct Watch {
    files: Files,
    stamps: BTreeMap<PathBuf, Option<Stamp>>,
}

impl Watch {
    /// Watches the files that were read.
    pub(super) fn new(files: Files) -> Self {
        Self {
            files,
            stamps: BTreeMap::new(),
        }
    }

    /// Resolves when a file is there and still that says something else than what was
    /// read last.
    pub(super) async fn changed(&mut self) {
        let mut rounds = 0;
        loop {
            tokio::time::sleep(ROUND).await;
            let mut stamps = self.stamps();
            if stamps == self.stamps {
                continue;
            }
            loop {
                tokio::time::sleep(STILL).await;
                let later = self.stamps();
                if later == stamps {
                    break;
                }
                stamps = later;
            }
            // Somebody may be about to put another in its place.
            if stamps.values().any(Option::is_none) && rounds < PATIENCE {
                rounds += 1;
                continue;
            }
            rounds = 0;
            self.stamps = stamps;
            if self.differs() {
                return;
            }
        }
    }

    fn differs(&self) -> bool {
        let mut files = self.files.iter();
        files.any(|(path, read)| fingerprint(path) != *read)
    }

    fn stamps(&self) -> BTreeMap<PathBuf, Option<Stamp>> {
        let files = self.files.keys();
        files.map(|path| (path.clone(), stamp(path))).collect()
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let seen = std::fs::metadata(path).ok()?;
    Some((
        seen.ino(),
        seen.len(),
        seen.mtime(),
        seen.mtime_nsec(),
        seen.ctime(),
        seen.ctime_nsec(),
    ))
}
