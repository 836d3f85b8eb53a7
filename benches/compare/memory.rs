//! How much memory does a waiting request take, and how much a key that was seen once?

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::contest::{Contest, Rounds};
use crate::load::ask_once_per_key;
use crate::procfs::Tree;
use crate::proxy::{Key, Limit, Product};
use crate::stats::number;
use crate::table::{Goal, Row};
use crate::wire::{Connection, GET};

/// Requests that wait, each on a connection of its own, in a line that hardly moves.
pub(crate) async fn waiting(contest: &Contest) -> Result<Vec<Row>> {
    const WAITING: u32 = 5000;
    let limit = Limit {
        key: Key::Address,
        rate: "1r/m",
        burst: 10_000,
        nodelay: false,
        threads: 2,
    };
    let mut figures = Rounds::default();
    for _ in contest.rounds("waiting") {
        for product in contest.products() {
            let proxy = contest.start(product, &limit).await?;
            let before = settled(&proxy.tree).await?;
            let mut clients = Vec::new();
            for _ in 0..WAITING {
                let mut client = Connection::open(proxy.address).await?;
                client.send(GET).await?;
                clients.push(client);
            }
            let grown = settled(&proxy.tree).await?.saturating_sub(before);
            let answered = clients.iter().filter(|client| client.was_answered());
            let answered = answered.count();
            ensure!(answered == 0, "{answered} of {WAITING} didn't wait");
            figures.add(product, number(grown) / f64::from(WAITING) / 1024.0);
        }
    }
    Ok(vec![Row::new(
        "memory per waiting request, KiB",
        figures,
        Goal::Ratio(1.3),
    )])
}

/// One request for each key, then silence. One round: it takes longest and varies least.
pub(crate) async fn keys(contest: &Contest) -> Result<Vec<Row>> {
    const CLIENTS: u32 = 64;
    /// NGINX forgets a key a minute after its last request.
    const LONGEST: Duration = Duration::from_secs(58);
    let keys = contest.length.pick(1_000_000, 250_000);
    let mut memory = Rounds::default();
    for product in contest.products() {
        let limit = Limit {
            key: Key::Header,
            // The slowest that each can be told, so that nothing is forgotten meanwhile.
            rate: match product {
                Product::Weir => "1r/d",
                Product::Nginx | Product::HaProxy => "1r/m",
            },
            burst: 0,
            nodelay: false,
            threads: 2,
        };
        let proxy = contest.start(product, &limit).await?;
        let before = settled(&proxy.tree).await?;
        let took = ask_once_per_key(proxy.address, CLIENTS, keys).await?;
        let grown = settled(&proxy.tree).await?.saturating_sub(before);
        ensure!(
            product == Product::Weir || took < LONGEST,
            "{keys} keys took {took:?}: the first are forgotten"
        );
        memory.add(product, number(grown) / number(keys));
    }
    let figure = format!("memory per key of {keys}, bytes");
    Ok(vec![Row::new(figure, memory, Goal::None)])
}

/// The memory of a proxy once it no longer changes, or after five seconds.
async fn settled(tree: &Tree) -> Result<u64> {
    const STEADY: u64 = 64 * 1024;
    let mut last = tree.memory()?;
    let mut steady = 0;
    for _ in 0..50 {
        sleep(Duration::from_millis(100)).await;
        let now = tree.memory()?;
        steady = if now.abs_diff(last) < STEADY {
            steady + 1
        } else {
            0
        };
        last = now;
        if steady == 3 {
            break;
        }
    }
    Ok(last)
}
