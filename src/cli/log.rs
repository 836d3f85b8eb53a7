//! Where do log lines go?

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Begins to log to standard output, from a thread of its own: no request waits
/// for a slow terminal. `WEIR_LOG` sets other levels than `info`. Lines are
/// written until the guard is dropped.
pub(super) fn begin(config: LogConfig) -> WorkerGuard {
    let (writer, guard) = tracing_appender::non_blocking(std::io::stdout());
    let levels =
        EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_unset| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(levels)
        .with_writer(writer);
    // A second logger in one process is a test's; the first one stays.
    let _second = match config.format {
        LogFormat::Text => {
            use std::io::IsTerminal as _;
            lines.with_ansi(std::io::stdout().is_terminal()).try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    guard
}
