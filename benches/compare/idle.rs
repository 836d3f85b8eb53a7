//! How often does a proxy wake up that nobody asks for anything?

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use crate::contest::{Contest, Rounds};
use crate::speed::NEVER_REACHED;
use crate::stats::number;
use crate::table::{Goal, Row};

const SETTLED: Duration = Duration::from_secs(2);

/// Each is looked at alone: the others' clients would wake nobody, but share the machine.
pub(crate) async fn idle(contest: &Contest) -> Result<Vec<Row>> {
    let window = contest.length.window(Duration::from_secs(5));
    let mut rings = Rounds::default();
    for proxy in contest.start_all(&NEVER_REACHED).await? {
        sleep(SETTLED).await;
        let before = proxy.tree.wake_ups()?;
        sleep(window).await;
        let woken = proxy.tree.wake_ups()?.saturating_sub(before);
        rings.add(proxy.product, number(woken) / window.as_secs_f64());
    }
    Ok(vec![Row::new("wake-ups a second, idle", rings, Goal::None)])
}
