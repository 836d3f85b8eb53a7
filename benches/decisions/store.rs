//! What does a decision cost that is made in Redis?

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use redis::Script;
use tokio::task::JoinSet;
use weir::bucket::SlotTimer;
use weir::key::KeyId;
use weir::limit::OnFailure;
use weir::metrics::Metrics;
use weir::store::{Addresses, RedisConfig, RedisStore, Topology};
use weir::units::Clock;

use crate::Row;
use crate::length::Length;
use crate::limits::{Limit, keys, rules};
use crate::redis::Redis;
use crate::stats::number;

/// So many ask at a time.
const CROWD: usize = 64;
const MANY: usize = 100_000;
const SYNC: Duration = Duration::from_millis(50);

/// One who asks again and again, by a key each time.
trait Asker: Send + Sync + 'static {
    fn ask(&self, key: KeyId) -> impl Future<Output = Result<bool>> + Send;
}

struct Plain {
    connection: redis::aio::MultiplexedConnection,
    script: Script,
}

impl Asker for Plain {
    async fn ask(&self, key: KeyId) -> Result<bool> {
        let mut call = self.script.key(format!("plain:{key}"));
        call.arg(10).arg(10_000_000);
        let mut connection = self.connection.clone();
        let wait: i64 = call.invoke_async(&mut connection).await?;
        Ok(wait >= 0)
    }
}

struct Weir {
    limit: Limit,
    timer: SlotTimer,
}

impl Asker for Weir {
    async fn ask(&self, key: KeyId) -> Result<bool> {
        Ok(self.limit.passes_in_time(key, &self.timer).await)
    }
}

pub(crate) fn rounds(length: Length) -> Result<Vec<(String, Vec<Row>)>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut tables = Vec::new();
        for (title, count) in [("Redis, idle keys", MANY), ("Redis, one busy key", 1)] {
            tables.push((title.to_owned(), table(length, &keys(count)).await?));
        }
        Ok(tables)
    })
}

async fn table(length: Length, keys: &[KeyId]) -> Result<Vec<Row>> {
    let redis = Redis::start().await?;
    let clock = Clock::start();
    let metrics = Metrics::new();
    let config = RedisConfig {
        urls: Addresses::new(vec![format!("redis://{}", redis.address)]),
        topology: Topology::Single,
        ca: None,
        timeout: Duration::from_secs(1),
        on_failure: OnFailure::Closed,
        prefix: "weir".to_owned(),
    };
    let (store, _news) = RedisStore::new(config, clock, metrics.store());
    let tending = tokio::spawn(Arc::clone(&store).run());
    ensure!(store.ready(Duration::from_secs(5)).await, "Redis is not up");
    let plain = Arc::new(Plain {
        connection: redis.connect().await?,
        script: Script::new(include_str!("../common/gcra.lua")),
    });
    let mut rows = vec![Row::new("a call each")];
    let mut askers = Vec::new();
    for (name, rule) in rules()? {
        let sync = (!rule.has_line()).then_some(SYNC);
        for sync in [None].into_iter().chain(sync.map(Some)) {
            let name = match sync {
                None => name.to_owned(),
                Some(_) => format!("{name}, sync"),
            };
            let limit = name.replace(", ", "_");
            let store = Some(Arc::clone(&store));
            let limit = Limit::new(&limit, rule, clock, &metrics, store, sync)?;
            let timer = limit.timer()?;
            let ringing = timer.clone();
            tokio::spawn(async move { ringing.run(weir::bucket::Limiter::rang).await });
            rows.push(Row::new(name));
            askers.push(Arc::new(Weir { limit, timer }));
        }
    }
    let span = length.pick(Duration::from_millis(1_500), Duration::from_millis(500));
    for _ in 0..length.pick(3, 1) {
        let mut rows = rows.iter_mut();
        let row = rows.next().context("the plain one's")?;
        race(row, &plain, keys, span, &redis).await?;
        for (asker, row) in askers.iter().zip(rows) {
            race(row, asker, keys, span, &redis).await?;
        }
    }
    tending.abort();
    Ok(rows)
}

/// A crowd asks as fast as it is answered.
async fn race<A: Asker>(
    row: &mut Row,
    asker: &Arc<A>,
    keys: &[KeyId],
    span: Duration,
    redis: &Redis,
) -> Result<()> {
    let (cpu, calls, begun) = (redis.cpu().await?, redis.calls().await?, Instant::now());
    let mut crowd = JoinSet::new();
    for nth in 0..CROWD {
        let asker = Arc::clone(asker);
        let own: Vec<KeyId> = keys.iter().copied().skip(nth).step_by(CROWD).collect();
        let own = if own.is_empty() { keys.to_vec() } else { own };
        crowd.spawn(async move {
            let mut asked = 0;
            for key in own.into_iter().cycle() {
                if begun.elapsed() >= span {
                    break;
                }
                // A fast one comes to its limit on one key: that is a decision, too.
                let _passes = asker.ask(key).await?;
                asked += 1;
            }
            anyhow::Ok(asked)
        });
    }
    let mut asked = 0;
    while let Some(one) = crowd.join_next().await {
        asked += one??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = redis.cpu().await?.saturating_sub(cpu);
    let calls = redis.calls().await? - calls;
    row.pace.push(number(asked) / seconds);
    row.cpu.push(cpu.as_secs_f64() * 1e6 / number(asked));
    row.calls.push(number(calls) / number(asked));
    Ok(())
}
