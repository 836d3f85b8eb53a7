//! What has a proxy used so far, all its processes and threads together?

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::stats::number;

/// A process and those that it started, theirs too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(Vec<u32>);

impl Tree {
    /// Those alive now: a proxy must have started all its workers.
    pub(crate) fn of(root: u32) -> Result<Self> {
        let all = parents()?;
        let mut tree = vec![root];
        let mut seen = 0;
        while let Some(&parent) = tree.get(seen) {
            let children = all.iter().filter(|(_, its_parent)| *its_parent == parent);
            tree.extend(children.map(|(child, _)| *child));
            seen += 1;
        }
        Ok(Self(tree))
    }

    /// User and system time.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let mut ticks = 0;
        for pid in &self.0 {
            // The 14th and 15th fields of the whole line; the first two end with the name.
            let fields = fields_after_name(*pid)?;
            for field in fields.split(' ').skip(11).take(2) {
                ticks += field.parse::<u64>().context("read a process's CPU time")?;
            }
        }
        let second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_secs(ticks) / u32::try_from(second).context("clock ticks")?)
    }

    /// Resident bytes that hold no file; what several of the processes share counts once.
    pub(crate) fn memory(&self) -> Result<u64> {
        let mut kib = 0;
        for pid in &self.0 {
            let path = format!("/proc/{pid}/smaps_rollup");
            let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
            let kinds = ["Pss_Anon:", "Pss_Shmem:"].map(|kind| {
                let size = text.lines().find_map(|line| line.strip_prefix(kind))?;
                size.trim().strip_suffix(" kB")?.parse::<u64>().ok()
            });
            for kind in kinds {
                kib += kind.with_context(|| format!("no such memory in {path}"))?;
            }
        }
        Ok(kib * 1024)
    }
}

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

/// Every process with its parent.
fn parents() -> Result<Vec<(u32, u32)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").context("read /proc")? {
        let name = entry.context("read /proc")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Processes that are none of ours may end between the listing and this.
        let Ok(fields) = fields_after_name(pid) else {
            continue;
        };
        if let Some(parent) = fields.split(' ').nth(1).and_then(|pid| pid.parse().ok()) {
            all.push((pid, parent));
        }
    }
    Ok(all)
}

/// `/proc/PID/stat` from its third field on: the name before may hold spaces and brackets.
fn fields_after_name(pid: u32) -> Result<String> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let (_, fields) = text
        .rsplit_once(") ")
        .with_context(|| format!("no name in {path}"))?;
    Ok(fields.to_owned())
}
