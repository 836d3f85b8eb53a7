//! What must be found on the machine before anything is started?

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A port that nobody listens on, below those that outgoing connections are given.
pub(crate) fn free_address() -> Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        ensure!(port < 32_000, "no free port between 20000 and 32000");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
}

/// The weir to measure: `WEIR_BIN`, or the one that Cargo built for this benchmark. None where
/// `WEIR_BIN` is empty.
pub(crate) fn find_weir() -> Result<Option<PathBuf>> {
    let named = std::env::var_os("WEIR_BIN").map(PathBuf::from);
    let built = option_env!("CARGO_BIN_EXE_weir").map(PathBuf::from);
    let Some(binary) = named.or(built).filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(None);
    };
    ensure!(binary.is_file(), "no weir at {}", binary.display());
    Ok(Some(binary))
}

/// Thousands of requests wait on a connection each, here and in what is started, which inherits
/// this.
pub(crate) fn allow_many_sockets() -> Result<()> {
    const WANTED: u64 = 50_000;
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|open| open < WANTED) {
        let wanted = Rlimit {
            current: Some(WANTED),
            maximum: now.maximum.map(|most| most.max(WANTED)),
        };
        // Only root may go beyond the maximum.
        if setrlimit(Resource::Nofile, wanted).is_err() {
            let most = Rlimit {
                current: now.maximum,
                maximum: now.maximum,
            };
            setrlimit(Resource::Nofile, most).context("raise the limit of open files")?;
        }
    }
    Ok(())
}
