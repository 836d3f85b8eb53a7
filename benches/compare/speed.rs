//! What does forwarding cost where the limit is never reached: CPU, and time at a constant rate?

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::sleep;

use crate::closed_loop::ClosedLoop;
use crate::contest::{Between, Contest, Rounds};
use crate::load::{Late, ask_at};
use crate::proxy::{Key, Limit, Proxy};
use crate::stats::{Sorted, milliseconds, number};
use crate::table::{Goal, Row};

pub(crate) const NEVER_REACHED: Limit = Limit {
    key: Key::Address,
    rate: "100000r/s",
    burst: 1_000_000,
    nodelay: true,
    threads: 2,
};
const CLIENTS: u32 = 64;
const WARM_UP: Duration = Duration::from_millis(400);

/// What forwarding a request costs, and how many a second are forwarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) micros: f64,
    pub(crate) thousands: f64,
}

/// Keeps a proxy busy for `window`, as fast as it answers.
pub(crate) async fn busy(proxy: &Proxy, keys: Option<u64>, window: Duration) -> Result<Pace> {
    let load = ClosedLoop::start_with(proxy.address, CLIENTS, keys).await?;
    sleep(WARM_UP).await;
    let (begun, served, used) = (Instant::now(), load.served(), proxy.tree.cpu()?);
    sleep(window).await;
    let used = proxy.tree.cpu()?.saturating_sub(used);
    let served = number(load.served() - served);
    let took = begun.elapsed();
    load.stop().await?;
    Ok(Pace {
        micros: used.as_secs_f64() * 1e6 / served,
        thousands: served / took.as_secs_f64() / 1e3,
    })
}

/// As fast as the proxy answers.
pub(crate) async fn cpu(contest: &Contest) -> Result<Vec<Row>> {
    let window = contest.length.window(Duration::from_millis(1500));
    let (mut cost, mut speed) = (Rounds::default(), Rounds::default());
    let proxies = contest.start_all(&NEVER_REACHED).await?;
    for _ in contest.rounds("cpu") {
        for proxy in &proxies {
            let pace = busy(proxy, None, window).await?;
            cost.add(proxy.product, pace.micros);
            speed.add(proxy.product, pace.thousands);
        }
    }
    Ok(vec![
        Row::new("CPU per request, µs", cost, Goal::Ratio(0.95)),
        Row::gain("requests a second, thousands", speed),
    ])
}

/// At a rate that leaves both cores idle most of the time; what the way to the backend takes
/// without a proxy is measured in each round, too.
pub(crate) async fn latency(contest: &Contest) -> Result<Vec<Row>> {
    const RATE: u32 = 5000;
    let warm_up = 1500;
    let count = warm_up + contest.length.pick(10_000, 5000);
    let (mut p50, mut p99) = (Rounds::default(), Rounds::default());
    let (mut added_p50, mut added_p99) = (Rounds::default(), Rounds::default());
    let proxies = contest.start_all(&NEVER_REACHED).await?;
    for _ in contest.rounds("latency") {
        let latency = async |address| -> Result<Sorted> {
            let all = ask_at(address, CLIENTS, RATE, count, Late::MadeUp).await?;
            Ok(Sorted::new(all.into_iter().skip(warm_up).map(milliseconds)))
        };
        let bare = latency(contest.backend.address).await?;
        p50.add(Between::Nothing, bare.percentile(500));
        p99.add(Between::Nothing, bare.percentile(990));
        for proxy in &proxies {
            let through = latency(proxy.address).await?;
            let added = |per_mille| through.percentile(per_mille) - bare.percentile(per_mille);
            p50.add(proxy.product, through.percentile(500));
            p99.add(proxy.product, through.percentile(990));
            added_p50.add(proxy.product, added(500));
            added_p99.add(proxy.product, added(990));
        }
    }
    Ok(vec![
        Row::new("5000/s: latency p50, ms", p50, Goal::None),
        Row::new("5000/s: latency p99, ms", p99, Goal::None),
        Row::new("5000/s: added to p50, ms", added_p50, Goal::Ratio(1.0)),
        Row::new("5000/s: added to p99, ms", added_p99, Goal::Ratio(1.0)),
    ])
}
