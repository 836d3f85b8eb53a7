//! Does a request cost more where there are many keys, many who wait, or a second thread?

use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::{Resource, getrlimit};
use tokio::time::sleep;

use crate::contest::{Between, Contest, Rounds};
use crate::load::ask_once_per_key;
use crate::proxy::{Key, Limit, Product, Proxy, SLOW};
use crate::speed::{NEVER_REACHED, busy};
use crate::stats::number;
use crate::table::{Goal, Row};
use crate::wire::Connection;

/// No request may cost more than so many times what it cost before.
const FLAT: Goal = Goal::OfBare(1.1);

pub(crate) async fn growth(contest: &Contest) -> Result<Vec<Row>> {
    if contest.weir.is_none() {
        return Ok(Vec::new());
    }
    Ok(vec![
        many_keys(contest).await?,
        many_waiting(contest).await?,
        two_threads(contest).await?,
    ])
}

/// Every key is kept: none of them is idle before a minute is over.
async fn many_keys(contest: &Contest) -> Result<Row> {
    const CLIENTS: u32 = 64;
    let limit = Limit {
        key: Key::Header,
        rate: "1r/m",
        burst: 2_000_000,
        ..NEVER_REACHED
    };
    let keys = contest.length.pick(1_000_000, 250_000);
    let one = contest.start(Product::Weir, &limit).await?;
    let many = contest.start(Product::Weir, &limit).await?;
    ask_once_per_key(many.address, CLIENTS, keys).await?;
    let cost = in_turn(
        contest,
        "growth, keys",
        (&one, Some(1)),
        (&many, Some(keys)),
    )
    .await?;
    let figure = format!("CPU, µs: {keys} keys (bare: 1)");
    Ok(Row::new(figure, cost, FLAT))
}

async fn many_waiting(contest: &Contest) -> Result<Row> {
    let waiting = contest.length.pick(20_000_usize, 5_000);
    // Each takes a descriptor here and one in weir, which has some for other things.
    let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let waiting = waiting.min(usize::try_from(open)?.saturating_sub(1000));
    let none = contest.start(Product::Weir, &NEVER_REACHED).await?;
    let many = contest.start(Product::Weir, &NEVER_REACHED).await?;
    let request = format!("GET {SLOW} HTTP/1.1\r\nHost: bench.test\r\n\r\n");
    let mut clients = Vec::with_capacity(waiting);
    // The first one doesn't wait.
    let mut first = Connection::open(many.address).await?;
    ensure!(first.ask(request.as_bytes()).await? == 200, "refused");
    for _ in 0..waiting {
        let mut client = Connection::open(many.address).await?;
        client.send(request.as_bytes()).await?;
        clients.push(client);
    }
    sleep(Duration::from_secs(1)).await;
    let cost = in_turn(contest, "growth, waiting", (&none, None), (&many, None)).await?;
    let answered = clients.iter().filter(|client| client.was_answered());
    let answered = number(u64::try_from(answered.count())?);
    ensure!(answered <= 1.0, "{answered} of {waiting} didn't wait");
    let figure = format!("CPU, µs: {waiting} waiting (bare: none)");
    Ok(Row::new(figure, cost, FLAT))
}

/// All threads share the one bucket.
async fn two_threads(contest: &Contest) -> Result<Row> {
    let one = Limit {
        threads: 1,
        ..NEVER_REACHED
    };
    let one = contest.start(Product::Weir, &one).await?;
    let two = contest.start(Product::Weir, &NEVER_REACHED).await?;
    let cost = in_turn(contest, "growth, threads", (&one, None), (&two, None)).await?;
    Ok(Row::new("CPU, µs: 2 threads (bare: 1)", cost, FLAT))
}

/// What a request costs in the one and in the other, each with so many keys.
async fn in_turn(
    contest: &Contest,
    what: &str,
    (before, few): (&Proxy, Option<u64>),
    (after, many): (&Proxy, Option<u64>),
) -> Result<Rounds> {
    let window = contest.length.window(Duration::from_secs(1));
    let mut cost = Rounds::default();
    for _ in contest.rounds(what) {
        let pace = busy(before, few, window).await?;
        cost.add(Between::Nothing, pace.micros);
        let pace = busy(after, many, window).await?;
        cost.add(Product::Weir, pace.micros);
    }
    Ok(cost)
}
