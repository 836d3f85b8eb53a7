//! How does weir compare with NGINX and HAProxy under the same limit, on this machine, in one run?
//!
//! `cargo bench --bench compare` runs everything (seven minutes) and draws the pictures in
//! `docs/pictures`; `cargo bench --bench compare -- cpu spacing --quick` runs parts, for fewer and
//! shorter rounds, and draws into `target/compare`.
//! The proxies, the clients and the backend share the machine, and the proxies take turns, so the
//! ratios count, not the figures. Where the machine has other work, `chrt --fifo 1` before the
//! command, once built, keeps that out of `spacing` and `latency`.

#[path = "../common/backend.rs"]
#[expect(
    dead_code,
    reason = "what each request asked for interests the other benchmark"
)]
mod backend;
#[path = "../common/closed_loop.rs"]
mod closed_loop;
mod contest;
#[path = "../common/ground.rs"]
mod ground;
mod growth;
mod idle;
#[path = "../common/length.rs"]
mod length;
mod load;
mod memory;
mod picture;
mod procfs;
mod proxy;
mod spacing;
mod speed;
#[path = "../common/stats.rs"]
mod stats;
mod table;
#[path = "../common/usage.rs"]
mod usage;
#[path = "../common/wire.rs"]
mod wire;

use std::fs::create_dir_all;
use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::contest::{Contest, how_many_rounds};
use crate::ground::allow_many_sockets;
use crate::length::Length;
use crate::table::{Row, write_head, write_rows};
use crate::usage::Usage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Cpu,
    Latency,
    Spacing,
    Waiting,
    Keys,
    Growth,
    Idle,
}

impl Part {
    const ALL: [Self; 7] = [
        Self::Cpu,
        Self::Latency,
        Self::Spacing,
        Self::Waiting,
        Self::Keys,
        Self::Growth,
        Self::Idle,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Latency => "latency",
            Self::Spacing => "spacing",
            Self::Waiting => "waiting",
            Self::Keys => "keys",
            Self::Growth => "growth",
            Self::Idle => "idle",
        }
    }

    async fn run(self, contest: &Contest, pictures: &Path) -> Result<Vec<Row>> {
        match self {
            Self::Cpu => speed::cpu(contest).await,
            Self::Latency => speed::latency(contest).await,
            Self::Spacing => spacing::spacing(contest, pictures).await,
            Self::Waiting => memory::waiting(contest).await,
            Self::Keys => memory::keys(contest).await,
            Self::Growth => growth::growth(contest).await,
            Self::Idle => idle::idle(contest).await,
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

    /// Where pictures go: what is kept shows a full run of all.
    fn pictures(&self) -> PathBuf {
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        if self.length == Length::Full && self.parts == Part::ALL {
            project.join("docs/pictures")
        } else {
            project.join("target/compare")
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let order = Order::read(std::env::args().skip(1))?;
    if !order.bench {
        writeln!(
            stderr(),
            "nothing compared: run `cargo bench --bench compare`"
        )?;
        return Ok(());
    }
    allow_many_sockets()?;
    let (begun, usage) = (Instant::now(), Usage::now()?);
    let contest = Contest::new(order.length)?;
    let mut out = stdout();
    write_title(&mut out, &contest)?;
    write_head(&mut out)?;
    let pictures = order.pictures();
    create_dir_all(&pictures).with_context(|| format!("make {}", pictures.display()))?;
    let (mut failed, mut all) = (Vec::new(), Vec::new());
    for part in order.parts {
        match part.run(&contest, &pictures).await {
            Ok(rows) => {
                write_rows(&mut out, &rows)?;
                all.extend(rows);
            }
            Err(error) => {
                writeln!(out, "{}: failed: {error:#}\n", part.name())?;
                failed.push(part.name());
            }
        }
    }
    picture::ratios(&all, &pictures.join("beside-nginx.svg"))?;
    writeln!(
        out,
        "Medians of {} rounds, and the rounds' least..most; memory per key: one round.\n\
         ratio: the median of each round's weir/nginx, and weir/haproxy. bare: the same without a\n\
         proxy (spacing: a fine timer in its place), or without what grows; NOISY: a goal missed\n\
         where that alone would have missed it. Pictures are in {}.\n\
         Took {:.0} s, in which other processes had {:.1} % of the machine.",
        how_many_rounds(order.length),
        pictures.display(),
        begun.elapsed().as_secs_f64(),
        Usage::now()?.others_since(usage)
    )?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn write_title(out: &mut impl Write, contest: &Contest) -> Result<()> {
    let cores = available_parallelism().context("count the cores")?;
    let weir = match &contest.weir {
        Some(binary) => binary.display().to_string(),
        None => "none (WEIR_BIN names one)".to_owned(),
    };
    let haproxy = match &contest.haproxy {
        Some(binary) => binary.display().to_string(),
        None => "none (`apt-get install haproxy`, or HAPROXY_BIN names one)".to_owned(),
    };
    writeln!(
        out,
        "weir: {weir}\nnginx: {}\nhaproxy: {haproxy}\ncores: {cores}\n",
        contest.nginx.display()
    )?;
    Ok(())
}
