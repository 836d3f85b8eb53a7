//! What do several instances of weir that share their lines in Redis keep, and what does it cost?
//!
//! `cargo bench --bench shared` runs everything (under six minutes);
//! `cargo bench --bench shared -- line spacing --quick` runs parts, for less long. It starts its
//! own `redis-server`, three weirs, a backend that notes what comes and clients, all on this
//! machine; `bottleneck` needs node and npm. What the machine did meanwhile is said below each
//! part; where it has other work, `chrt --fifo 1` before the command, once built, keeps that out
//! of `spacing`.

mod arena;
#[path = "../common/backend.rs"]
mod backend;
mod bottleneck;
mod calls;
#[path = "../common/closed_loop.rs"]
#[expect(
    dead_code,
    reason = "how many were served interests the other benchmark"
)]
mod closed_loop;
mod crowd;
mod delay;
mod departures;
#[path = "../common/ground.rs"]
mod ground;
mod instance;
#[path = "../common/length.rs"]
mod length;
mod line;
mod outage;
#[path = "../common/redis.rs"]
mod redis;
mod spacing;
#[path = "../common/stats.rs"]
#[expect(dead_code, reason = "the other benchmark wants more of it")]
mod stats;
mod table;
#[path = "../common/usage.rs"]
mod usage;
mod weather;
#[path = "../common/wire.rs"]
#[expect(dead_code, reason = "the other benchmark wants more of it")]
mod wire;

use std::io::{Write, stderr, stdout};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::arena::Arena;
use crate::ground::allow_many_sockets;
use crate::length::Length;
use crate::table::{Row, write_head, write_rows};
use crate::weather::Weather;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Line,
    Calls,
    Spacing,
    Outage,
    Bottleneck,
}

impl Part {
    const ALL: [Self; 5] = [
        Self::Line,
        Self::Calls,
        Self::Spacing,
        Self::Outage,
        Self::Bottleneck,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Calls => "calls",
            Self::Spacing => "spacing",
            Self::Outage => "outage",
            Self::Bottleneck => "bottleneck",
        }
    }

    async fn run(self, arena: &Arena) -> Result<Vec<Row>> {
        match self {
            Self::Line => line::line(arena).await,
            Self::Calls => calls::calls(arena).await,
            Self::Spacing => spacing::spacing(arena).await,
            Self::Outage => outage::outage(arena).await,
            Self::Bottleneck => bottleneck::bottleneck(arena).await,
        }
    }
}

/// What the command line asks for.
#[derive(Debug)]
struct Order {
    parts: Vec<Part>,
    length: Length,
    /// Set by `cargo bench`, not by `cargo test`, which also runs benchmarks when told to.
    bench: bool,
}

impl Order {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut order = Self {
            parts: Vec::new(),
            length: Length::Full,
            bench: false,
        };
        for argument in arguments {
            match argument.as_str() {
                "--bench" => order.bench = true,
                "--quick" => order.length = Length::Quick,
                name => match Part::ALL.into_iter().find(|part| part.name() == name) {
                    Some(part) => order.parts.push(part),
                    None => bail!(
                        "unknown part {name:?}: there are {}, and --quick",
                        Part::ALL.map(Part::name).join(", ")
                    ),
                },
            }
        }
        if order.parts.is_empty() {
            order.parts.extend(Part::ALL);
        }
        Ok(order)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let order = Order::read(std::env::args().skip(1))?;
    if !order.bench {
        writeln!(
            stderr(),
            "nothing measured: run `cargo bench --bench shared`"
        )?;
        return Ok(());
    }
    allow_many_sockets()?;
    let (begun, mut weather) = (Instant::now(), Weather::watch()?);
    let arena = Arena::new(order.length)?;
    let mut out = stdout();
    writeln!(out, "weir: {}\n", arena.weir.display())?;
    write_head(&mut out)?;
    let mut failed = Vec::new();
    for part in order.parts {
        match part.run(&arena).await {
            Ok(rows) => write_rows(&mut out, &rows)?,
            Err(error) => {
                writeln!(out, "{}: failed: {error:#}\n", part.name())?;
                failed.push(part.name());
            }
        }
        writeln!(out, "{}: {}\n", part.name(), weather.since()?)?;
    }
    writeln!(
        out,
        "spacing: medians of the rounds; all else: one run. Took {:.0} s.",
        begun.elapsed().as_secs_f64()
    )?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
