//! How are the proxies kept busy at a constant rate, or asked for many keys?

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::wire::{Connection, GET, keyed};

const OK: u16 = 200;
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

/// Asks once for each of `keys` keys, in the header `X-Key`, over `clients` connections.
pub(crate) async fn ask_once_per_key(
    address: SocketAddr,
    clients: u32,
    keys: u64,
) -> Result<Duration> {
    let begun = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let mut connection = Connection::open(address).await?;
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            loop {
                let key = next.fetch_add(1, Ordering::Relaxed);
                if key >= keys {
                    return anyhow::Ok(());
                }
                let status = connection.ask(keyed(key).as_bytes()).await?;
                ensure!(status == OK, "key {key} was answered with {status}");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a client panicked")??;
    }
    Ok(begun.elapsed())
}

/// What becomes of requests that were due while the machine stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// All are sent at once, as by many independent clients.
    MadeUp,
    /// Only the last is sent, as by a line that drains at a rate; the others come later instead.
    Skipped,
}

/// Asks `count` times at `rate` a second over `clients` connections, however slowly the answers
/// come, and returns for each how long after its due moment it was answered.
pub(crate) async fn ask_at(
    address: SocketAddr,
    clients: u32,
    rate: u32,
    count: usize,
    late: Late,
) -> Result<Vec<Duration>> {
    let due = Arc::new(Due::default());
    let (answered, mut answers) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let connection = Connection::open(address).await?;
        let (due, answered) = (Arc::clone(&due), answered.clone());
        tasks.spawn(async move {
            if let Err(error) = ask_when_due(connection, &due, &answered).await {
                // The receiver is gone only where an earlier error has ended the run.
                drop(answered.send(Err(error)));
            }
        });
    }
    pace(rate, count, late, &due).await?;
    let mut latencies = Vec::with_capacity(count);
    while latencies.len() < count {
        let answer = timeout(LONGEST_ANSWER, answers.recv()).await;
        let Some(latency) = answer.context("waited too long for an answer")? else {
            bail!("all clients ended early");
        };
        latencies.push(latency?);
    }
    Ok(latencies)
}

async fn ask_when_due(
    mut connection: Connection,
    due: &Due,
    answered: &mpsc::UnboundedSender<Result<Duration>>,
) -> Result<()> {
    loop {
        let at = due.next().await;
        let status = connection.ask(GET).await?;
        ensure!(status == OK, "answered with {status}");
        if answered.send(Ok(at.elapsed())).is_err() {
            return Ok(());
        }
    }
}

/// The moments at which requests are due and no client was free yet to send them.
#[derive(Debug, Default)]
struct Due {
    moments: Mutex<VecDeque<Instant>>,
    more: Notify,
}

impl Due {
    fn add(&self, at: Instant) {
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        moments.push_back(at);
        drop(moments);
        self.more.notify_one();
    }

    fn take(&self) -> Option<Instant> {
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        moments.pop_front()
    }

    async fn next(&self) -> Instant {
        loop {
            if let Some(at) = self.take() {
                return at;
            }
            self.more.notified().await;
        }
    }
}

/// Adds `count` moments to `due`, `rate` a second, each as it comes. A timerfd, because tokio's
/// own timer is a millisecond coarse: five requests at once instead of one every 200 µs.
async fn pace(rate: u32, count: usize, late: Late, due: &Due) -> Result<()> {
    let interval = Duration::from_secs(1) / rate;
    let timer = timerfd_create(
        TimerfdClockId::Monotonic,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )
    .context("create a timer")?;
    let every = Timespec {
        tv_sec: 0,
        tv_nsec: interval.subsec_nanos().into(),
    };
    let every = Itimerspec {
        it_interval: every,
        it_value: every,
    };
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for what an OwnedFd keeps by itself"
    )]
    let timer = AsyncFd::new(timer).context("watch the timer")?;
    let mut at = Instant::now();
    timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &every)
        .context("set the timer")?;
    let mut left = count;
    while left > 0 {
        let mut ready = timer.readable().await.context("wait for the timer")?;
        let mut fired = [0; 8];
        let read = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut fired)?));
        let Ok(read) = read else { continue };
        read.context("read the timer")?;
        let fired = u64::from_ne_bytes(fired);
        for one in 1..=fired {
            at += interval;
            if left > 0 && (late == Late::MadeUp || one == fired) {
                due.add(at);
                left -= 1;
            }
        }
    }
    Ok(())
}
