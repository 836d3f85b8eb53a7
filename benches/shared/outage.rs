//! What is felt of a Redis that is killed, or stands still?

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::arena::{Arena, tell};
use crate::crowd::{Manner, Run, crowds, run};
use crate::instance::Setting;
use crate::line::used;
use crate::redis::Redis;
use crate::stats::milliseconds;
use crate::table::{Goal, Row};

/// So few places that most who come are refused at once.
const SETTING: Setting = Setting {
    redis: None,
    timeout: "50ms",
    rate: "100r/s",
    burst: 50,
};
/// The timeout and 20 ms.
const SLOWEST: f64 = 70.0;
/// A decision that takes no call, on a machine that has other work.
const AT_ONCE: f64 = 20.0;
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(4);
/// Those who come in this time may have to wait for the timeout before anyone knows.
const NOTICED: Duration = Duration::from_millis(150);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Stopped,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed for 3 s",
            Self::Stopped => "stopped for 2 s",
        }
    }

    fn length(self) -> Duration {
        match self {
            Self::Killed => Duration::from_secs(3),
            Self::Stopped => Duration::from_secs(2),
        }
    }

    fn begin(self, redis: &mut Redis) -> Result<()> {
        match self {
            Self::Killed => redis.kill(),
            Self::Stopped => redis.signal(Signal::STOP),
        }
    }

    async fn end(self, redis: &mut Redis) -> Result<()> {
        match self {
            Self::Killed => redis.start_again().await,
            Self::Stopped => redis.signal(Signal::CONT),
        }
    }
}

pub(crate) async fn outage(arena: &Arena) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for fault in [Fault::Killed, Fault::Stopped] {
        rows.extend(one_fault(arena, fault).await?);
    }
    Ok(rows)
}

async fn one_fault(arena: &Arena, fault: Fault) -> Result<Vec<Row>> {
    tell(&format!("outage, {}", fault.name()));
    let mut redis = Redis::start().await?;
    let instances = arena.three(SETTING, &redis).await?;
    let mut all = crowds(&instances, &[60.0; 3], Manner::Stay);
    all.extend(crowds(&instances, &[20.0; 3], Manner::Alone));
    let span = BEFORE + fault.length() + AFTER;
    let mut moments = Vec::new();
    let faults = async {
        sleep(BEFORE).await;
        moments.push(Instant::now());
        fault.begin(&mut redis)?;
        sleep(fault.length()).await;
        fault.end(&mut redis).await?;
        moments.push(Instant::now());
        Ok(())
    };
    let run = run(&arena.backend, &all, span, faults).await?;
    let [gone, back] = *moments.as_slice() else {
        bail!("the fault didn't happen");
    };
    let [gone, back] = [gone, back].map(|at| at.duration_since(run.begun));
    Ok(rows(fault, &run, gone, back))
}

/// `gone` and `back` are when Redis went and came, since the run began.
fn rows(fault: Fault, run: &Run, gone: Duration, back: Duration) -> Vec<Row> {
    let row =
        |figure: &str, weir, goal| Row::new(format!("{}: {figure}", fault.name()), weir, goal);
    let rate = |from, to| used(&run.departures, from, to);
    let calm = gone.saturating_sub(Duration::from_secs(2));
    let settled = back + AFTER / 2;
    let within = Goal::Within(80.0, 120.0);
    let before = slowest(run, calm, gone.saturating_sub(NOTICED));
    let [all, noticed, after] = [(gone, settled), (gone + NOTICED, back), (back, settled)]
        .map(|(from, to)| slowest(run, from, to));
    vec![
        row("5xx", failed(run), Goal::AtMost(0.0)),
        row("served twice", run.departures.twice(), Goal::AtMost(0.0)),
        row("rate while gone, % of the limit", rate(gone, back), within)
            .beside(rate(calm, gone))
            .note("before"),
        row(
            "rate gone and back, % of the limit",
            rate(gone, settled),
            within,
        ),
        row("slowest decision, ms", all.took, Goal::AtMost(SLOWEST))
            .beside(before.took)
            .note(format!("before; {all}")),
        row(
            "slowest once noticed, ms",
            noticed.took,
            Goal::AtMost(AT_ONCE),
        )
        .note(format!(
            "from 150 ms after it went until it was back; {noticed}"
        )),
        row("slowest once back, ms", after.took, Goal::AtMost(AT_ONCE)).note(after.to_string()),
    ]
}

fn failed(run: &Run) -> f64 {
    let failed = run.visits.iter().filter(|visit| {
        let status = visit.answer.map(|(status, _)| status);
        status.is_some_and(|status| status >= 500)
    });
    failed.fold(0.0, |sum, _| sum + 1.0)
}

/// The one that took longest.
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    /// In milliseconds.
    took: f64,
    status: u16,
    alone: bool,
    /// When it was sent, since the run began.
    sent: Duration,
}

impl fmt::Display for Slowest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.alone {
            "alone with its key"
        } else {
            "of the line"
        };
        let sent = self.sent.as_secs_f64();
        write!(f, "a {} {key} at {sent:.2} s", self.status)
    }
}

/// The slowest of the requests sent in this time that were refused, or were alone with their keys
/// and should pass at once.
fn slowest(run: &Run, from: Duration, to: Duration) -> Slowest {
    let decided = run.visits.iter().filter_map(|visit| {
        let (status, took) = visit.answer?;
        let slow = Slowest {
            took: milliseconds(took),
            status,
            alone: visit.is_alone(),
            sent: visit.sent.duration_since(run.begun),
        };
        let due_at_once = status != 200 || slow.alone;
        (due_at_once && (from..to).contains(&slow.sent)).then_some(slow)
    });
    let slower = |one: Slowest, other: Slowest| if other.took > one.took { other } else { one };
    decided.fold(Slowest::default(), slower)
}
