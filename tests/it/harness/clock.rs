//! What if a machine's wall clock is wrong, or steps?

use std::ffi::OsString;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

/// A wall clock for processes that a test starts. Their monotonic clock is the
/// machine's own.
#[derive(Debug)]
pub(crate) struct Clock(TempDir);

impl Clock {
    /// One that is right.
    pub(crate) fn new() -> Self {
        let clock = Self(TempDir::new().expect("a directory"));
        clock.ahead(Duration::ZERO);
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .arg(clock.0.path().join("wrong.so"))
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/it/harness/clock/wrong.c"
            ))
            .status();
        assert!(built.expect("a C compiler").success());
        clock
    }

    /// Steps it so far ahead of the machine's.
    pub(crate) fn ahead(&self, by: Duration) {
        self.set(i64::try_from(by.as_micros()).expect("a short time"));
    }

    /// Steps it so far behind the machine's.
    pub(crate) fn behind(&self, by: Duration) {
        self.set(-i64::try_from(by.as_micros()).expect("a short time"));
    }

    fn set(&self, micros: i64) {
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).truncate(false).write(true);
        let file = file.open(self.0.path().join("off")).expect("a file");
        // At once for every process that has it mapped.
        file.write_all_at(&micros.to_ne_bytes(), 0).expect("room");
    }

    /// What the environment of a process says that is to live by this clock.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 2] {
        [
            ("LD_PRELOAD", self.0.path().join("wrong.so").into()),
            ("WEIR_TEST_CLOCK", self.0.path().join("off").into()),
        ]
    }
}
