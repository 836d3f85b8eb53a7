//! How does Bottleneck do the same job?

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::arena::{Arena, INSTANCES, tell};
use crate::crowd::{Manner, Run, crowds, run};
use crate::ground::free_address;
use crate::instance::Instance;
use crate::line::{EQUAL, RATE, SETTING, UNEQUAL, WARM_UP, no_faults, used, waits};
use crate::redis::Redis;
use crate::stats::number;
use crate::table::{Goal, Row};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/shared/bottleneck");
const BLUR: Duration = Duration::from_millis(25);
const SECOND: Duration = Duration::from_secs(1);
/// When an instance is killed, and for how long the others are watched from then on.
const KILLED: Duration = Duration::from_secs(6);
const WATCHED: Duration = Duration::from_secs(8);

/// Who does the job.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Weir,
    /// With this much concurrency at most; 0: without a bound, as by default.
    Bottleneck(u32),
}

/// What the job came to.
struct Figures {
    used: f64,
    most: f64,
    order: f64,
    strict: f64,
    shares: [f64; 3],
    apart: f64,
    calls: f64,
    /// Of the time after a kill.
    after: f64,
    gap: f64,
}

pub(crate) async fn bottleneck(arena: &Arena) -> Result<Vec<Row>> {
    if let Err(missing) = install() {
        let row = Row::new("Bottleneck", f64::NAN, Goal::None);
        return Ok(vec![row.note(format!("skipped: {missing:#}"))]);
    }
    let weir = figures(arena, Peer::Weir).await?;
    let mut rows = Vec::new();
    for (peer, name) in [(0, "minTime alone"), (10, "maxConcurrent 10")] {
        let other = figures(arena, Peer::Bottleneck(peer)).await?;
        let row = |figure: &str, of: fn(&Figures) -> f64| {
            let row = Row::new(figure, of(&weir), Goal::None).beside(of(&other));
            row.note(format!("Bottleneck, {name}"))
        };
        let shares = format!("{:.1?} to {:.1?}", weir.shares, other.shares);
        rows.extend([
            row("three instances: slots used, %", |of| of.used),
            row("three instances: most in any second", |of| of.most),
            row("three instances: overtaking, %", |of| of.order),
            row("three instances: overtaking strictly, %", |of| of.strict),
            row("three instances: share of the first, %", |of| of.shares[0]).note(shares),
            row("three instances: mean waits apart, ratio", |of| of.apart),
            row("three instances: EVALSHA per job", |of| of.calls),
            row("one killed: slots used in 8 s after, %", |of| of.after),
            row("one killed: longest gap after, ms", |of| of.gap),
        ]);
    }
    Ok(rows)
}

/// What its script needs, from the lock file, unless it is there.
fn install() -> Result<()> {
    for tool in ["node", "npm"] {
        let found = Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        ensure!(
            found.is_ok_and(|status| status.success()),
            "no {tool} found"
        );
    }
    if Path::new(FOLDER).join("node_modules/bottleneck").is_dir() {
        return Ok(());
    }
    let installed = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--silent"])
        .current_dir(FOLDER)
        .stdout(Stdio::null())
        .status()
        .context("run npm")?;
    ensure!(installed.success(), "npm ci failed: {installed}");
    Ok(())
}

async fn start(arena: &Arena, peer: Peer, redis: &Redis) -> Result<Vec<Instance>> {
    let Peer::Bottleneck(concurrent) = peer else {
        return arena.three(SETTING, redis).await;
    };
    let mut instances = Vec::new();
    for _ in 0..INSTANCES {
        instances.push(job(arena.backend.address, redis, concurrent).await?);
    }
    Ok(instances)
}

async fn job(backend: SocketAddr, redis: &Redis, concurrent: u32) -> Result<Instance> {
    const MIN_TIME: u16 = 10;
    let address = free_address()?;
    let mut command = Command::new("node");
    command.arg("job.mjs").current_dir(FOLDER);
    for port in [
        address.port(),
        redis.address.port(),
        backend.port(),
        MIN_TIME,
    ] {
        command.arg(port.to_string());
    }
    command.arg(concurrent.to_string());
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    Instance::start(command, address, None, folder).await
}

async fn figures(arena: &Arena, peer: Peer) -> Result<Figures> {
    tell(&format!("bottleneck, {peer:?}"));
    let redis = Redis::start().await?;
    let instances = start(arena, peer, &redis).await?;
    let span = WARM_UP + arena.length.window(Duration::from_secs(12));
    let all = crowds(&instances, &UNEQUAL, Manner::Stay);
    let calls = redis.calls().await?;
    let Run { departures, .. } = run(&arena.backend, &all, span, no_faults()).await?;
    let calls = redis.calls().await? - calls;
    drop(instances);
    let steady = departures.between(WARM_UP, span);
    let (_, apart) = waits(&steady);
    let killed = one_killed(arena, peer).await?;
    let after = killed.departures.between(KILLED, KILLED + WATCHED);
    Ok(Figures {
        used: used(&departures, WARM_UP, span),
        most: departures.most_in(SECOND),
        order: steady.overtaking(BLUR),
        strict: steady.overtaking(Duration::ZERO),
        shares: [0, 1, 2].map(|instance| steady.share(instance)),
        apart,
        calls: number(calls) / departures.count(),
        after: after.count() / (WATCHED.as_secs_f64() * RATE) * 100.0,
        gap: after.longest_gap(),
    })
}

async fn one_killed(arena: &Arena, peer: Peer) -> Result<Run> {
    tell(&format!("bottleneck, {peer:?}, one killed"));
    let redis = Redis::start().await?;
    let instances = start(arena, peer, &redis).await?;
    let killed = instances.get(2).context("a third instance")?;
    let faults = async {
        sleep(KILLED).await;
        killed.signal(Signal::KILL)
    };
    let all = crowds(&instances, &EQUAL, Manner::Stay);
    run(&arena.backend, &all, KILLED + WATCHED, faults).await
}
