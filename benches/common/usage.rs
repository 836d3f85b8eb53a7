//! How much of the machine did others have meanwhile?

use std::fs;

use anyhow::{Context, Result, bail};

use crate::stats::number;

/// What all of the machine's processes used since it started, and this one with those it has
/// started and outlived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    all: u64,
    own: u64,
    idle: u64,
}

impl Usage {
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
        let line = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "));
        let fields = line
            .context("no sum in /proc/stat")?
            .split_ascii_whitespace();
        let ticks = fields.map(str::parse).collect::<Result<Vec<u64>, _>>();
        let [user, nice, system, idle, disk, interrupts, softirq, ..] = *ticks?.as_slice() else {
            bail!("too few fields in /proc/stat");
        };
        let own = fields_after_name(std::process::id())?;
        let own = own.split(' ').skip(11).take(4).map(str::parse::<u64>);
        Ok(Self {
            all: user + nice + system + interrupts + softirq,
            own: own.sum::<Result<_, _>>()?,
            idle: idle + disk,
        })
    }

    /// The share of the machine that others took since `before`, in percent.
    pub(crate) fn others_since(self, before: Self) -> f64 {
        let (all, own) = (self.all - before.all, self.own - before.own);
        let whole = all + self.idle.saturating_sub(before.idle);
        number(all.saturating_sub(own)) / number(whole) * 100.0
    }
}

/// `/proc/PID/stat` from its third field on: the name before may hold spaces and brackets.
pub(crate) fn fields_after_name(pid: u32) -> Result<String> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let (_, fields) = text
        .rsplit_once(") ")
        .with_context(|| format!("no name in {path}"))?;
    Ok(fields.to_owned())
}
