//! What would a burst see at a limit?
//!
//! `fates` plays it, by the arithmetic that serves requests; `picture` draws it.

mod fates;
mod picture;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::screen::{Manner, Screen};
use crate::config::load;
use crate::limit::Policy;
use fates::{Fate, fates};

/// More are not drawn.
const MOST: u64 = 1_000_000;

/// A limit and a burst.
#[derive(Args, Debug)]
pub(super) struct Explain {
    /// The config file.
    #[arg(short, long, value_name = "FILE", default_value = "config/weir.toml")]
    config: PathBuf,
    /// The limit; needless where the config has but one.
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// One of its overrides, by the name that it has there.
    #[arg(long = "override", value_name = "KEY")]
    overridden: Option<String>,
    /// How many requests with one key come at once; by default two more than have a place.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    burst: Option<u64>,
    /// Say it as JSON.
    #[arg(long)]
    json: bool,
}

/// Draws who of a burst passes at once, who waits for how long and who is refused.
///
/// Fails where the config has a fault or no such limit.
pub(super) fn explain(asked: &Explain) -> anyhow::Result<ExitCode> {
    let config = load(&asked.config)?;
    let policy = match (&asked.limit, config.limits.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), limits) => limits.iter().find(|policy| *policy.name == **name),
    };
    let Some(policy) = policy else {
        let known: Vec<_> = config.limits.iter().map(|policy| &*policy.name).collect();
        let file = asked.config.display();
        match (&asked.limit, known.is_empty()) {
            (_, true) => bail!("{file} has no limits"),
            (None, false) => bail!("which of the limits: --limit {}?", known.join(", ")),
            (Some(name), false) => bail!(
                "{file} has no limit `{name}`; known are {}",
                known.join(", ")
            ),
        }
    };
    let overridden = asked.overridden.as_deref();
    let policy = &match overridden {
        None => policy.clone(),
        Some(name) => {
            let rule = policy.overrides.iter().find(|(known, _)| *known == name);
            let Some((_, rule)) = rule else {
                bail!("limit `{}` has no override `{name}`", policy.name);
            };
            policy.with_rule(*rule)
        }
    };
    let count = asked.burst.unwrap_or_else(|| {
        let all = u64::from(policy.rule.burst()).saturating_add(3);
        all.min(MOST)
    });
    let fates = fates(policy, count);
    let mut out = std::io::stdout();
    if asked.json {
        writeln!(out, "{:#}", told(policy, &fates))?;
    } else {
        let manner = Manner::of_stdout();
        let mut screen = Screen::new(out, manner)?;
        let rows = picture::picture(policy, &fates, screen.width());
        screen.keep(&rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The same for programs.
fn told(policy: &Policy, fates: &[Fate]) -> Value {
    let requests = (1_u64..).zip(fates).map(|(request, fate)| match fate {
        Fate::Passes => json!({ "request": request, "fate": "passes", "wait_seconds": 0.0 }),
        Fate::Waits(wait) => json!({
            "request": request,
            "fate": "waits",
            "wait_seconds": wait.as_secs_f64(),
        }),
        Fate::Refused {
            reason,
            retry_after,
        } => json!({
            "request": request,
            "fate": "refused",
            "status": policy.status.as_u16(),
            "reason": reason,
            "retry_after_seconds": retry_after,
        }),
    });
    json!({
        "limit": &*policy.name,
        "key": policy.key.to_string(),
        "algorithm": policy.rule.algorithm(),
        "rate": policy.rule.to_string(),
        "dry_run": policy.dry_run,
        "requests": requests.collect::<Vec<_>>(),
    })
}
