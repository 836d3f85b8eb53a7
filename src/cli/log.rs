//! Where do log lines go?

use tracing::Level;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::{fmt, util::SubscriberInitExt as _};

use crate::config::{LogConfig, LogFormat};

/// Begins to log to standard output, from a thread of its own: no request waits
/// for a slow terminal. `WEIR_LOG` sets other levels than `info`. Lines are
/// written until the guard is dropped.
///
/// Libraries never say more than `info`: below that some write down the headers
/// and bytes that pass through them.
pub(super) fn begin(config: LogConfig) -> WorkerGuard {
    let (writer, guard) = tracing_appender::non_blocking(std::io::stdout());
    let levels =
        EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_unset| EnvFilter::new("info"));
    let discreet =
        filter_fn(|line| line.target().starts_with("weir") || *line.level() <= Level::INFO);
    let lines = fmt::layer().with_writer(writer);
    let lines = match config.format {
        LogFormat::Text => {
            use std::io::IsTerminal as _;
            lines.with_ansi(std::io::stdout().is_terminal()).boxed()
        }
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let lines = lines.with_filter(levels.and(discreet));
    // A second logger in one process is a test's; the first one stays.
    let _second = tracing_subscriber::registry().with(lines).try_init();
    guard
}
