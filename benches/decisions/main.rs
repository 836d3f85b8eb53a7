//! How many decisions a second does each algorithm make, and what does one cost?
//!
//! `cargo bench --bench decisions` runs both stores (about three minutes); `-- memory` or
//! `-- redis` one of them, `-- --quick` either for less long. In memory the limits run in
//! this process, beside the `governor` crate; with Redis they call a `redis-server` of their
//! own, beside a script that is called once for each request.

#[path = "../common/ground.rs"]
#[expect(dead_code, reason = "the other benchmarks want more of it")]
mod ground;
#[path = "../common/length.rs"]
#[expect(dead_code, reason = "the other benchmarks want more of it")]
mod length;
mod limits;
mod memory;
#[path = "../common/redis.rs"]
#[expect(dead_code, reason = "the other benchmark wants more of it")]
mod redis;
#[path = "../common/stats.rs"]
#[expect(dead_code, reason = "the other benchmarks want more of it")]
mod stats;
mod store;
#[path = "../common/usage.rs"]
#[expect(dead_code, reason = "the other benchmarks want more of it")]
mod usage;

use std::io::{Write as _, stderr, stdout};

use anyhow::{Result, bail};

use crate::length::Length;
use crate::stats::Sorted;

/// What came of the rounds of one contender.
#[derive(Debug)]
struct Row {
    name: String,
    /// Decisions a second.
    pace: Vec<f64>,
    /// CPU a decision, in microseconds: this process's, or Redis's.
    cpu: Vec<f64>,
    /// Calls of the store a decision.
    calls: Vec<f64>,
}

impl Row {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            pace: Vec::new(),
            cpu: Vec::new(),
            calls: Vec::new(),
        }
    }
}

fn main() -> Result<()> {
    let (mut bench, mut length, mut stores) = (false, Length::Full, Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => bench = true,
            "--quick" => length = Length::Quick,
            "memory" | "redis" => stores.push(argument),
            other => bail!("unknown part {other:?}: there are memory, redis, and --quick"),
        }
    }
    if !bench {
        writeln!(
            stderr(),
            "nothing measured: run `cargo bench --bench decisions`"
        )?;
        return Ok(());
    }
    let wants = |store: &str| stores.is_empty() || stores.iter().any(|one| one == store);
    if wants("memory") {
        for (title, rows) in memory::rounds(length)? {
            write(&title, "governor", &rows)?;
        }
    }
    if wants("redis") {
        for (title, rows) in store::rounds(length)? {
            write(&title, "a call each", &rows)?;
        }
    }
    Ok(())
}

/// Writes medians, their spread, and ratios to the first row.
fn write(title: &str, beside: &str, rows: &[Row]) -> Result<()> {
    let mut out = stdout();
    writeln!(
        out,
        "{title}\n  {:24} {:>14} {:>18} {:>9} {:>8} {:>12}",
        "", "decisions/s", "spread", "CPU µs", "calls", "CPU ratio"
    )?;
    let first = rows
        .first()
        .map(|row| Sorted::new(row.cpu.clone()).median());
    for row in rows {
        let pace = Sorted::new(row.pace.clone());
        let cpu = Sorted::new(row.cpu.clone()).median();
        let calls = Sorted::new(row.calls.clone()).median();
        writeln!(
            out,
            "  {:24} {:>14.0} {:>8.0}-{:<9.0} {cpu:>9.3} {calls:>8.3} {:>12.2}",
            row.name,
            pace.median(),
            pace.least(),
            pace.most(),
            cpu / first.unwrap_or(f64::NAN),
        )?;
    }
    writeln!(out, "  (CPU ratio: to {beside})\n")?;
    Ok(())
}
