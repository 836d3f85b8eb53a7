//! Is a line that is shared as even as one in memory?

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use crate::arena::{Arena, tell};
use crate::closed_loop::ClosedLoop;
use crate::instance::{Instance, Setting};
use crate::redis::Redis;
use crate::stats::{Sorted, Spacing};
use crate::table::{Goal, Row};

/// Beyond one turn of the whole line.
const WARM_UP: Duration = Duration::from_millis(500);
/// By so many milliseconds the 99th percentile may be worse than memory's.
const WORSE: f64 = 0.3;

/// One rate, and how many wait, each asking again when it was served.
struct Case {
    rate: u32,
    text: &'static str,
    clients: u32,
}

const CASES: [Case; 2] = [
    Case {
        rate: 100,
        text: "100r/s",
        clients: 60,
    },
    Case {
        rate: 1000,
        text: "1000r/s",
        clients: 300,
    },
];

pub(crate) async fn spacing(arena: &Arena) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in &CASES {
        rows.extend(at_one_rate(arena, case).await?);
    }
    Ok(rows)
}

/// Error p50 and p99 of each round.
#[derive(Default)]
struct Rounds {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, spacing: Spacing) {
        self.p50.push(spacing.error_p50);
        self.p99.push(spacing.error_p99);
    }
}

fn median(rounds: &[f64]) -> f64 {
    Sorted::new(rounds.iter().copied()).median()
}

async fn at_one_rate(arena: &Arena, case: &Case) -> Result<Vec<Row>> {
    let setting = Setting {
        redis: None,
        timeout: "50ms",
        rate: case.text,
        burst: 500,
    };
    let redis = Redis::start().await?;
    let shared = Setting {
        redis: Some(redis.address),
        ..setting
    };
    let [mut memory, mut one, mut three] = [const {
        Rounds {
            p50: Vec::new(),
            p99: Vec::new(),
        }
    }; 3];
    let rounds = arena.length.pick(5, 2);
    for round in 1..=rounds {
        tell(&format!(
            "spacing at {}, round {round} of {rounds}",
            case.text
        ));
        memory.add(one_round(arena, case, &[arena.one(&setting).await?]).await?);
        let instance = arena.one(&shared).await?;
        instance.shows("weir_store_up ", 1.0).await?;
        one.add(one_round(arena, case, &[instance]).await?);
        let redis = Redis::start().await?;
        three.add(one_round(arena, case, &arena.three(setting, &redis).await?).await?);
    }
    let bare = median(&memory.p99);
    let row = |name: &str, figure: &[f64], beside: &[f64], goal| {
        let beside = median(beside);
        Row::new(format!("{}: {name}, ms", case.text), median(figure), goal)
            .beside(beside)
            .note("memory store, one instance")
    };
    let goal = Goal::AtMost(bare + WORSE);
    Ok(vec![
        row("spacing error p50", &one.p50, &memory.p50, Goal::None),
        row("spacing error p99", &one.p99, &memory.p99, goal),
        row(
            "three instances, error p50",
            &three.p50,
            &memory.p50,
            Goal::None,
        ),
        row("three instances, error p99", &three.p99, &memory.p99, goal),
    ])
}

async fn one_round(arena: &Arena, case: &Case, instances: &[Instance]) -> Result<Spacing> {
    let interval = Duration::from_secs(1) / case.rate;
    let mut loads = Vec::new();
    for instance in instances {
        let clients = case.clients / u32::try_from(instances.len())?;
        loads.push(ClosedLoop::start(instance.address, clients).await?);
    }
    sleep(WARM_UP + interval * case.clients).await;
    arena.backend.note_arrivals();
    sleep(arena.length.window(Duration::from_secs(3))).await;
    let departures = arena.backend.moments();
    for load in loads {
        load.stop().await?;
    }
    Spacing::of(&departures, interval).context("nothing reached the backend")
}
