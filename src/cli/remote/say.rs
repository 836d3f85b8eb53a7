//! How is it told to people what an instance answered?

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::units::Human;

/// An earlier status, for what went on since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since<'a> {
    pub(super) status: &'a Value,
    pub(super) span: Duration,
}

/// How an instance stands.
pub(super) fn status(status: &Value) -> anyhow::Result<ExitCode> {
    write(&overview(status, None))
}

/// The same as text; what is counted is told by the second where there is an earlier
/// status.
pub(super) fn overview(status: &Value, since: Option<Since<'_>>) -> String {
    let store = &status["store"];
    let mut text = format!(
        "weir {}: {}, up {}, {} waiting; store {} {}, {} instances\n",
        shown(&status["version"]),
        shown(&status["state"]),
        span(&status["uptime_seconds"]),
        shown(&status["waiting"]),
        shown(&store["kind"]),
        shown(&store["state"]),
        shown(&store["instances"]),
    );
    let each = |name: &str| match since {
        None => name.to_owned(),
        Some(_) => format!("{name}/s"),
    };
    let limits = rows(&status["limits"], |limit| {
        let count = |what| counted("limits", limit, what, since);
        [
            shown(&limit["name"]),
            shown(&limit["rate"]),
            shown(&limit["burst"]),
            shown(&limit["waiting"]),
            shown(&limit["line_length"]),
            span(&limit["oldest_wait_seconds"]),
            count("admitted"),
            count("refused"),
            paused(limit),
        ]
    });
    let (admitted, refused) = (each("admitted"), each("refused"));
    let heads = [
        "limit", "rate", "burst", "waiting", "longest", "oldest", &admitted, &refused, "paused",
    ];
    table(&mut text, heads, limits);
    let upstreams = rows(&status["upstreams"], |upstream| {
        let count = |what| counted("upstreams", upstream, what, since);
        [
            shown(&upstream["name"]),
            shown(&upstream["target"]),
            shown(&upstream["state"]),
            shown(&upstream["in_flight"]),
            count("answers"),
            count("errors"),
        ]
    });
    let (answers, errors) = (each("answers"), each("errors"));
    let heads = [
        "upstream",
        "target",
        "state",
        "in flight",
        &answers,
        &errors,
    ];
    table(&mut text, heads, upstreams);
    text
}

/// What is paused from now on.
pub(super) fn pause(said: &Value) -> anyhow::Result<ExitCode> {
    let what = what(said);
    let mut text = match said["paused"].as_bool() {
        Some(true) => {
            let left = said["paused_for_seconds"].as_f64().unwrap_or_default();
            let left = span(&left.ceil().into());
            format!("{what} is paused for {left}\n")
        }
        _ => format!("{what} is not paused\n"),
    };
    heard(&mut text, said);
    write(&text)
}

/// How many were sent away.
pub(super) fn purged(said: &Value) -> anyhow::Result<ExitCode> {
    let mut text = format!(
        "{}: {} who waited in this instance were sent away\n",
        what(said),
        shown(&said["purged"])
    );
    heard(&mut text, said);
    write(&text)
}

/// What a reload changed.
pub(super) fn reloaded(said: &Value) -> anyhow::Result<ExitCode> {
    let mut text = String::from("config reloaded\n");
    for (title, list) in [
        ("changed", &said["changed"]),
        ("holds from the next start", &said["needs_restart"]),
    ] {
        for one in list.as_array().into_iter().flatten() {
            // A String takes whatever is written.
            let _infallible = writeln!(text, "  {title}: {}", shown(one));
        }
    }
    write(&text)
}

fn heard(text: &mut String, said: &Value) {
    if said["shared"] == Value::Bool(false) {
        text.push_str("Redis is away: the other instances have not heard of it\n");
    }
}

fn what(said: &Value) -> String {
    let limit = shown(&said["limit"]);
    match said["bucket"].as_str() {
        Some(bucket) => format!("{limit}, key {bucket}"),
        None => limit,
    }
}

fn paused(limit: &Value) -> String {
    match limit["paused"].as_bool() {
        Some(true) => span(&limit["paused_for_seconds"]),
        _ => "-".to_owned(),
    }
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A count of one of `list`: all of it, or how much a second since then.
fn counted(list: &str, one: &Value, what: &str, since: Option<Since<'_>>) -> String {
    let now = total(&one[what]);
    let Some(since) = since else {
        return now.to_string();
    };
    let same = |other: &&Value| other["name"] == one["name"];
    let earlier = since.status[list].as_array().into_iter().flatten();
    // Counts begin anew where the instance does.
    let before = earlier
        .clone()
        .find(same)
        .map_or(0, |one| total(&one[what]));
    let more = Duration::from_secs(now.checked_sub(before).unwrap_or(now));
    format!("{:.1}", more.div_duration_f64(since.span))
}

/// A count, or the sum of several by what they count.
fn total(counts: &Value) -> u64 {
    match counts {
        Value::Object(map) => map.values().filter_map(Value::as_u64).sum(),
        count => count.as_u64().unwrap_or_default(),
    }
}

fn span(seconds: &Value) -> String {
    let span = seconds
        .as_f64()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Human(span.unwrap_or_default()).to_string()
}

fn rows<const N: usize>(list: &Value, row: impl Fn(&Value) -> [String; N]) -> Vec<[String; N]> {
    list.as_array().into_iter().flatten().map(row).collect()
}

/// Columns side by side: the first to the left, numbers to the right.
fn table<const N: usize>(text: &mut String, heads: [&str; N], rows: Vec<[String; N]>) {
    let mut widths = heads.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    text.push('\n');
    for row in std::iter::once(heads.map(str::to_owned)).chain(rows) {
        let mut line = String::new();
        for (place, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _infallible = if place == 0 {
                write!(line, "{cell:width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn write(text: &str) -> anyhow::Result<ExitCode> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
