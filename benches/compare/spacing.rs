//! How evenly do requests leave a line that is always full?

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::time::sleep;

use crate::closed_loop::ClosedLoop;
use crate::contest::{Between, Contest, Rounds};
use crate::load::{Late, ask_at};
use crate::picture::{self, Stream};
use crate::proxy::{Key, Limit, Product};
use crate::stats::{Spacing, number};
use crate::table::{Goal, Row};

/// Beyond one turn of the whole line: how evenly the first burst was taken in is another matter.
const WARM_UP: Duration = Duration::from_millis(300);

/// One rate and what is asked of it.
struct Case {
    rate: u32,
    text: &'static str,
    /// So many wait, each asking again when it was served: more than are ever on their way.
    clients: u32,
    window: Duration,
    error_goal: Goal,
    crowd_goal: Goal,
}

const CASES: [Case; 4] = [
    Case {
        rate: 100,
        text: "100r/s",
        clients: 50,
        window: Duration::from_secs(3),
        error_goal: Goal::AtMost(0.25),
        crowd_goal: Goal::None,
    },
    Case {
        rate: 1000,
        text: "1000r/s",
        clients: 300,
        window: Duration::from_secs(2),
        error_goal: Goal::AtMost(0.25),
        crowd_goal: Goal::None,
    },
    Case {
        rate: 5000,
        text: "5000r/s",
        clients: 400,
        window: Duration::from_secs(2),
        error_goal: Goal::None,
        crowd_goal: Goal::AtMost(8.0),
    },
    Case {
        rate: 20_000,
        text: "20000r/s",
        clients: 480,
        window: Duration::from_secs(1),
        error_goal: Goal::None,
        crowd_goal: Goal::AtMost(30.0),
    },
];

impl Case {
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.rate
    }
}

pub(crate) async fn spacing(contest: &Contest, pictures: &Path) -> Result<Vec<Row>> {
    let (mut rows, mut streams) = (Vec::new(), Vec::new());
    for case in &CASES {
        let (more, stream) = at_one_rate(contest, case).await?;
        rows.extend(more);
        streams.push(stream);
    }
    picture::streams(&streams, &pictures.join("streams.svg"))?;
    Ok(rows)
}

async fn at_one_rate(contest: &Contest, case: &Case) -> Result<(Vec<Row>, Stream)> {
    let mut figures = Figures::default();
    let mut stream = Stream::new(case.text, case.interval());
    for _ in contest.rounds(&format!("spacing at {}", case.text)) {
        for product in contest.products() {
            let (departures, cost) = one_round(contest, product, case).await?;
            let spacing = Spacing::of(&departures, case.interval());
            figures.add(
                product.into(),
                spacing.context("nothing reached the backend")?,
            );
            figures.cost.add(product, cost);
            // The last round's, whatever it was like.
            stream.keep(product, &departures);
        }
        figures.add(Between::Nothing, bare(contest, case).await?);
    }
    Ok((figures.rows(case), stream))
}

/// A proxy of its own each time: NGINX keeps the places of clients that have left.
async fn one_round(
    contest: &Contest,
    product: Product,
    case: &Case,
) -> Result<(Vec<Instant>, f64)> {
    let limit = Limit {
        key: Key::Address,
        rate: case.text,
        burst: 5000,
        nodelay: false,
        threads: 2,
    };
    let proxy = contest.start(product, &limit).await?;
    let load = ClosedLoop::start(proxy.address, case.clients).await?;
    let interval = case.interval();
    sleep(WARM_UP + interval * case.clients).await;
    let used = proxy.tree.cpu()?;
    contest.backend.note_arrivals();
    sleep(contest.length.window(case.window)).await;
    let departures = contest.backend.moments();
    let used = proxy.tree.cpu()?.saturating_sub(used);
    load.stop().await?;
    let count = u64::try_from(departures.len()).context("count departures")?;
    Ok((departures, used.as_secs_f64() * 1e6 / number(count)))
}

/// A fine timer in place of a proxy: as even as this machine and this benchmark can tell.
async fn bare(contest: &Contest, case: &Case) -> Result<Spacing> {
    let interval = case.interval();
    let window = contest.length.window(case.window) / 2;
    let count = usize::try_from(window.as_nanos() / interval.as_nanos())?;
    contest.backend.note_arrivals();
    ask_at(contest.backend.address, 16, case.rate, count, Late::Skipped).await?;
    let departures = contest.backend.moments();
    Spacing::of(&departures, interval).context("nothing reached the backend")
}

#[derive(Default)]
struct Figures {
    error_p50: Rounds,
    error_p99: Rounds,
    error_p999: Rounds,
    crowd_p999: Rounds,
    crowd_most: Rounds,
    kept: Rounds,
    cost: Rounds,
}

impl Figures {
    fn add(&mut self, between: Between, spacing: Spacing) {
        self.error_p50.add(between, spacing.error_p50);
        self.error_p99.add(between, spacing.error_p99);
        self.error_p999.add(between, spacing.error_p999);
        self.crowd_p999.add(between, spacing.crowd_p999);
        self.crowd_most.add(between, spacing.crowd_most);
        self.kept.add(between, spacing.kept);
    }

    fn rows(self, case: &Case) -> Vec<Row> {
        let row =
            |name: &str, rounds, goal| Row::new(format!("{}: {name}", case.text), rounds, goal);
        let mut rows = vec![
            row("spacing error p50, ms", self.error_p50, Goal::None),
            row("spacing error p99, ms", self.error_p99, case.error_goal),
            row("spacing error p99.9, ms", self.error_p999, Goal::None),
            row("in one ms, p99.9", self.crowd_p999, case.crowd_goal),
            row("in one ms, most", self.crowd_most, Goal::None),
            Row::gain(format!("{}: rate kept, %", case.text), self.kept),
        ];
        // Below that, a round's CPU is a few ticks of the clock it is counted in.
        if case.rate >= 1000 {
            rows.push(row("CPU per request, µs", self.cost, Goal::None));
        }
        rows
    }
}
