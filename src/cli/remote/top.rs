//! How does a running instance look from second to second?

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::signal::ctrl_c;
use tokio::time::sleep;

use super::Instance;
use super::link::Link;
use super::say::{Since, overview};

/// How often it is drawn.
const EVERY: Duration = Duration::from_secs(1);

/// Another screen, and no cursor on it; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Draws an instance until it is interrupted: over and over on a terminal, one
/// picture below the other into a pipe, which then may say how many.
pub(super) async fn top(instance: &Instance, pictures: Option<u32>) -> anyhow::Result<ExitCode> {
    let link = instance.link()?;
    let live = std::io::stdout().is_terminal();
    if live {
        write(ENTER)?;
    }
    let drawn = tokio::select! {
        drawn = draw(&link, live, pictures) => drawn,
        interrupted = ctrl_c() => interrupted.map_err(Into::into),
    };
    if live {
        write(LEAVE)?;
    }
    drawn.map(|()| ExitCode::SUCCESS)
}

async fn draw(link: &Link, live: bool, pictures: Option<u32>) -> anyhow::Result<()> {
    let mut before: Option<(Value, Instant)> = None;
    let mut left = pictures;
    loop {
        let asked = Instant::now();
        let picture = match link.status().await {
            Ok(status) => {
                let since = before.as_ref().map(|(status, at)| Since {
                    status,
                    span: asked.duration_since(*at),
                });
                let picture = overview(&status, since);
                before = Some((status, asked));
                picture
            }
            // It may be starting again; without a terminal somebody wants to know.
            Err(away) if live => format!("{away:#}\n"),
            Err(away) => return Err(away),
        };
        write(&if live { over(&picture) } else { picture + "\n" })?;
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) {
            return Ok(());
        }
        sleep(EVERY).await;
    }
}

/// The picture over the one before: each line clears what was behind it.
fn over(picture: &str) -> String {
    format!("\x1b[H{}\x1b[J", picture.replace('\n', "\x1b[K\r\n"))
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
