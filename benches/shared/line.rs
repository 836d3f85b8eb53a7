//! Do three instances drain one line as one?

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::arena::{Arena, INSTANCES, tell};
use crate::crowd::{Manner, Run, crowds, run};
use crate::delay::Delay;
use crate::departures::Departures;
use crate::instance::Setting;
use crate::redis::Redis;
use crate::table::{Goal, Row};

pub(crate) const SETTING: Setting = Setting {
    redis: None,
    timeout: "50ms",
    rate: "100r/s",
    burst: 100_000,
};
pub(crate) const RATE: f64 = 100.0;
/// More than the rate, and very different.
pub(crate) const UNEQUAL: [f64; 3] = [150.0, 30.0, 10.0];
/// So that two of three still bring more than the rate.
pub(crate) const EQUAL: [f64; 3] = [60.0; 3];
/// Until the line is long enough that nobody finds it empty.
pub(crate) const WARM_UP: Duration = Duration::from_millis(1500);
/// The order in which clients send is not that in which instances tell Redis of them: a call is
/// on its way, or gathers. By this much it may differ.
const BLUR: Duration = Duration::from_millis(25);
const SECOND: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);

pub(crate) async fn line(arena: &Arena) -> Result<Vec<Row>> {
    let mut rows = drained(arena, "150/30/10 a second", Manner::Stay).await?;
    rows.extend(drained(arena, "half of them leave", Manner::HalfLeave).await?);
    rows.extend(with_faults(arena).await?);
    rows.extend(far_away(arena).await?);
    Ok(rows)
}

pub(crate) async fn no_faults() -> Result<()> {
    Ok(())
}

/// How many of the slots between two moments were used, in percent.
pub(crate) fn used(departures: &Departures, from: Duration, to: Duration) -> f64 {
    let slots = to.abs_diff(from).as_secs_f64() * RATE;
    departures.between(from, to).count() / slots * 100.0
}

/// The mean wait of each instance, in seconds, and the longest to the shortest.
pub(crate) fn waits(departures: &Departures) -> ([f64; 3], f64) {
    let waits = [0, 1, 2].map(|instance| departures.mean_wait(instance));
    let longest = waits.iter().copied().fold(0.0, f64::max);
    let shortest = waits.iter().copied().fold(f64::MAX, f64::min);
    (waits, longest / shortest)
}

async fn drained(arena: &Arena, name: &str, manner: Manner) -> Result<Vec<Row>> {
    tell(&format!("line, {name}"));
    let redis = Redis::start().await?;
    let instances = arena.three(SETTING, &redis).await?;
    let span = WARM_UP + arena.length.window(Duration::from_secs(12));
    let crowds = crowds(&instances, &UNEQUAL, manner);
    let Run { departures, .. } = run(&arena.backend, &crowds, span, no_faults()).await?;
    let steady = departures.between(WARM_UP, span);
    let (waits, apart) = waits(&steady);
    let order = match manner {
        Manner::Stay => Goal::AtMost(1.0),
        Manner::HalfLeave | Manner::Alone => Goal::None,
    };
    let row = |figure: &str, weir, goal| Row::new(format!("{name}: {figure}"), weir, goal);
    Ok(vec![
        row(
            "slots used, %",
            used(&departures, WARM_UP, span),
            Goal::AtLeast(99.0),
        ),
        row(
            "most in any second",
            departures.most_in(SECOND),
            Goal::AtMost(RATE + 1.0),
        ),
        row("most in any 100 ms", departures.most_in(TENTH), Goal::None),
        row("overtaking, %", steady.overtaking(BLUR), order).note("of one sent 25 ms earlier"),
        row(
            "overtaking strictly, %",
            steady.overtaking(Duration::ZERO),
            Goal::None,
        )
        .note("of one sent earlier at all"),
        row("mean waits, longest to shortest", apart, Goal::AtMost(1.1))
            .note(format!("{waits:.3?} s")),
    ])
}

async fn with_faults(arena: &Arena) -> Result<Vec<Row>> {
    tell("line, one stopped for 2 s and one killed");
    let redis = Redis::start().await?;
    let instances = arena.three(SETTING, &redis).await?;
    let span = Duration::from_secs(20);
    let stopped = instances.get(1).context("a second instance")?;
    let killed = instances.get(2).context("a third instance")?;
    let faults = async {
        sleep(Duration::from_secs(4)).await;
        stopped.signal(Signal::STOP)?;
        sleep(Duration::from_secs(2)).await;
        stopped.signal(Signal::CONT)?;
        sleep(Duration::from_secs(5)).await;
        killed.signal(Signal::KILL)
    };
    let crowds = crowds(&instances, &EQUAL, Manner::Stay);
    let Run { departures, .. } = run(&arena.backend, &crowds, span, faults).await?;
    let row = |figure: &str, weir, goal| Row::new(format!("faults: {figure}"), weir, goal);
    let lost = |from, to| {
        let [from, to] = [from, to].map(Duration::from_secs);
        100.0 - used(&departures, from, to)
    };
    let lost_where = format!(
        "stopped: {:.1}, after: {:.1}, killed: {:.1}",
        lost(4, 6),
        lost(6, 11),
        lost(11, 16)
    );
    Ok(vec![
        row("slots lost of 20 s, %", lost(0, 20), Goal::AtMost(8.0)).note(lost_where),
        row(
            "most in any second",
            departures.most_in(SECOND),
            Goal::AtMost(RATE + 1.0),
        ),
        row("most in any 100 ms", departures.most_in(TENTH), Goal::None),
        row("longest gap, ms", departures.longest_gap(), Goal::None),
    ])
}

async fn far_away(arena: &Arena) -> Result<Vec<Row>> {
    tell("line, one instance 80 ms away");
    let redis = Redis::start().await?;
    let far = Delay::before(redis.address, Duration::from_millis(40)).await?;
    let setting = Setting {
        timeout: "500ms",
        ..SETTING
    };
    let ways = [far.address, redis.address, redis.address];
    let instances = arena.several(setting, &ways).await?;
    let span = WARM_UP + arena.length.window(Duration::from_secs(12));
    let crowds = crowds(&instances, &EQUAL, Manner::Stay);
    let Run { departures, .. } = run(&arena.backend, &crowds, span, no_faults()).await?;
    let steady = departures.between(WARM_UP, span);
    let (waits, _) = waits(&steady);
    let row = |figure: &str, weir, goal| Row::new(format!("80 ms away: {figure}"), weir, goal);
    Ok(vec![
        row(
            "slots used, %",
            used(&departures, WARM_UP, span),
            Goal::AtLeast(85.0),
        ),
        row("share of the far one, %", steady.share(0), Goal::None)
            .beside(100.0 / f64::from(INSTANCES))
            .note(format!("its part of those who come; waits {waits:.3?} s")),
        row(
            "most in any second",
            departures.most_in(SECOND),
            Goal::AtMost(RATE + 1.0),
        ),
    ])
}
