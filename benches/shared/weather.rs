//! How much was the machine itself to blame meanwhile?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::usage::Usage;

const TICK: Duration = Duration::from_millis(5);

/// What others had of the machine, and for how long a thread that only waits was kept from going
/// on. It watches until the benchmark ends.
#[derive(Debug)]
pub(crate) struct Weather {
    /// In microseconds.
    longest: Arc<AtomicU64>,
    usage: Usage,
}

impl Weather {
    pub(crate) fn watch() -> Result<Self> {
        let longest = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&longest);
        thread::Builder::new()
            .name("weather".to_owned())
            .spawn(move || {
                loop {
                    let begun = Instant::now();
                    thread::park_timeout(TICK);
                    let late = begun.elapsed().saturating_sub(TICK).as_micros();
                    seen.fetch_max(late.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            })
            .context("start a thread")?;
        Ok(Self {
            longest,
            usage: Usage::now()?,
        })
    }

    /// Since this was last asked.
    pub(crate) fn since(&mut self) -> Result<String> {
        let now = Usage::now()?;
        let others = now.others_since(self.usage);
        self.usage = now;
        let longest = Duration::from_micros(self.longest.swap(0, Ordering::Relaxed));
        Ok(format!(
            "others had {others:.0} % of the machine, a bare timer was up to {:.1} ms late",
            longest.as_secs_f64() * 1e3
        ))
    }
}
