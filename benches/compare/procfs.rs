//! What has a proxy used so far, all its processes and threads together?

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::usage::fields_after_name;

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

    /// How often any of their threads went to sleep by itself.
    pub(crate) fn wake_ups(&self) -> Result<u64> {
        let mut switches = 0;
        for pid in &self.0 {
            let tasks = format!("/proc/{pid}/task");
            for task in fs::read_dir(&tasks).with_context(|| format!("read {tasks}"))? {
                let path = task.context("read a thread's name")?.path().join("status");
                let text = fs::read_to_string(&path).context("read a thread's status")?;
                let count = text.lines().find_map(|line| {
                    let count = line.strip_prefix("voluntary_ctxt_switches:")?;
                    count.trim().parse::<u64>().ok()
                });
                switches += count.context("no count of switches")?;
            }
        }
        Ok(switches)
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
