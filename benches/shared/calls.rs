//! What do shared buckets cost in calls, in Redis's time and in a request's?

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redis::Script;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::arena::{Arena, INSTANCES, tell};
use crate::closed_loop::ClosedLoop;
use crate::instance::{Instance, Setting};
use crate::redis::Redis;
use crate::stats::{Sorted, milliseconds, number};
use crate::table::{Goal, Row};
use crate::wire::Connection;

const CALLS: &str = "weir_store_call_seconds_count{script=\"leaky_bucket\"} ";
const SETTING: Setting = Setting {
    redis: None,
    timeout: "50ms",
    rate: "2000r/s",
    burst: 100_000,
};

pub(crate) async fn calls(arena: &Arena) -> Result<Vec<Row>> {
    let mut rows = idle(arena).await?;
    rows.extend(busy(arena).await?);
    rows.extend(added(arena).await?);
    Ok(rows)
}

async fn calls_of(instances: &[Instance]) -> Result<f64> {
    let mut sum = 0.0;
    for instance in instances {
        sum += instance.metric(CALLS).await?;
    }
    Ok(sum)
}

fn alone(key: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: bench.test\r\nX-Key: {key}\r\n\r\n")
}

async fn asks(connection: &mut Connection, key: &str) -> Result<Duration> {
    let begun = Instant::now();
    let status = connection.ask(alone(key).as_bytes()).await?;
    ensure!(status == 200, "answered with {status}");
    Ok(begun.elapsed())
}

/// One request to a key that is idle, again and again; new keys, and one that has drained.
async fn idle(arena: &Arena) -> Result<Vec<Row>> {
    const COUNT: u32 = 500;
    tell("calls, an idle key");
    let redis = Redis::start().await?;
    let instances = arena.three(SETTING, &redis).await?;
    let instance = instances.first().context("an instance")?;
    let mut connection = Connection::open(instance.address).await?;
    let mut figures = [0.0; 2];
    for (figure, same) in figures.iter_mut().zip([false, true]) {
        let before = calls_of(&instances).await?;
        for count in 0..COUNT {
            let key = if same {
                "same".to_owned()
            } else {
                format!("new-{count}")
            };
            asks(&mut connection, &key).await?;
            sleep(Duration::from_millis(2)).await;
        }
        // Whatever is said of them afterwards counts, too.
        sleep(Duration::from_millis(300)).await;
        *figure = (calls_of(&instances).await? - before) / f64::from(COUNT);
    }
    let [new, same] = figures;
    Ok(vec![
        Row::new("calls per request, a new key each", new, Goal::Exactly(1.0)),
        Row::new("calls per request, one idle key", same, Goal::Exactly(1.0)),
    ])
}

/// A line that is always full at 2000 a second, drained by one, two and four instances, and a
/// plain limiter for as many requests.
async fn busy(arena: &Arena) -> Result<Vec<Row>> {
    let window = arena.length.window(Duration::from_secs(6));
    tell("calls, a plain limiter");
    let expected = usize::try_from(window.as_millis())? * 2;
    let plain_cpu = plain(&Redis::start().await?, expected).await?;
    let plain_cpu = micros(plain_cpu, expected)?;
    let mut rows = Vec::new();
    for count in [1, 2, 4] {
        tell(&format!("calls, 2000 a second by {count}"));
        let Busy {
            admitted,
            calls,
            cpu,
        } = drained_by(arena, count, window).await?;
        let kept = number(u64::try_from(admitted)?) / window.as_secs_f64() / 20.0;
        let calls = calls / number(u64::try_from(admitted)?);
        let figure = |name: &str| format!("2000 r/s by {count}: {name}");
        rows.extend([
            Row::new(figure("rate kept, %"), kept, Goal::None),
            Row::new(figure("calls per request"), calls, Goal::AtMost(0.4))
                .beside(1.0)
                .note("one EVALSHA a request"),
            Row::new(
                figure("Redis CPU per request, µs"),
                micros(cpu, admitted)?,
                Goal::None,
            )
            .beside(plain_cpu)
            .note("GCRA, one EVALSHA a request"),
        ]);
    }
    Ok(rows)
}

struct Busy {
    admitted: usize,
    calls: f64,
    cpu: Duration,
}

/// So many instances drain one line, which is always full.
async fn drained_by(arena: &Arena, count: u32, window: Duration) -> Result<Busy> {
    let redis = Redis::start().await?;
    let ways = vec![redis.address; usize::try_from(count)?];
    let instances = arena.several(SETTING, &ways).await?;
    let mut loads = Vec::new();
    for instance in &instances {
        let load = ClosedLoop::start(instance.address, 480 / count);
        loads.push(load.await?);
    }
    sleep(Duration::from_secs(1)).await;
    let (calls, cpu) = (calls_of(&instances).await?, redis.cpu().await?);
    arena.backend.note_arrivals();
    sleep(window).await;
    let admitted = arena.backend.moments().len();
    let (calls, cpu) = (
        calls_of(&instances).await? - calls,
        redis.cpu().await?.saturating_sub(cpu),
    );
    for load in loads {
        load.stop().await?;
    }
    Ok(Busy {
        admitted,
        calls,
        cpu,
    })
}

/// What each of so many requests took.
fn micros(cpu: Duration, count: usize) -> Result<f64> {
    Ok(cpu.as_secs_f64() * 1e6 / number(u64::try_from(count)?))
}

/// The CPU that Redis takes for as many requests with one call for each, as often a second, from
/// as many clients. None is refused.
async fn plain(redis: &Redis, count: usize) -> Result<Duration> {
    const AT_ONCE: u32 = 2;
    let script = Script::new(include_str!("../common/gcra.lua"));
    let mut clients = Vec::new();
    for _ in 0..INSTANCES {
        clients.push(redis.connect().await?);
    }
    let mut turns = clients.iter().cycle();
    let mut calls = JoinSet::new();
    let mut tick = interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let before = redis.cpu().await?;
    let mut sent = 0;
    while sent < count {
        tick.tick().await;
        for _ in 0..AT_ONCE {
            let mut client = turns.next().context("a client")?.clone();
            let script = script.clone();
            calls.spawn(async move {
                let mut call = script.prepare_invoke();
                call.key("plain").arg(500).arg(1_000_000_000);
                call.invoke_async::<i64>(&mut client).await
            });
            sent += 1;
        }
        while let Some(ended) = calls.try_join_next() {
            ended.context("a call panicked")?.context("a call failed")?;
        }
    }
    while let Some(ended) = calls.join_next().await {
        ended.context("a call panicked")?.context("a call failed")?;
    }
    Ok(redis.cpu().await?.saturating_sub(before))
}

/// The same request through a weir with Redis and one without, and a PING, in turn.
async fn added(arena: &Arena) -> Result<Vec<Row>> {
    tell("calls, what they add to a request");
    let count = arena.length.pick(3000, 1000);
    let redis = Redis::start().await?;
    let shared = Setting {
        redis: Some(redis.address),
        ..SETTING
    };
    let (shared, memory) = (arena.one(&shared).await?, arena.one(&SETTING).await?);
    shared.shows("weir_store_up ", 1.0).await?;
    let mut through_redis = Connection::open(shared.address).await?;
    let mut through_memory = Connection::open(memory.address).await?;
    let mut client = redis.connect().await?;
    let mut took = [const { Vec::new() }; 3];
    for number in 0..count {
        let key = format!("new-{number}");
        let begun = Instant::now();
        redis::cmd("PING")
            .exec_async(&mut client)
            .await
            .context("PING")?;
        let ping = begun.elapsed();
        let redis = asks(&mut through_redis, &key).await?;
        let memory = asks(&mut through_memory, &key).await?;
        for (all, one) in took.iter_mut().zip([ping, redis, memory]) {
            all.push(milliseconds(one));
        }
        sleep(Duration::from_millis(1)).await;
    }
    let [ping, redis, memory] = took.map(Sorted::new);
    let row = |name: &str, per_mille| {
        let added = redis.percentile(per_mille) - memory.percentile(per_mille);
        Row::new(format!("idle key: added to {name}, ms"), added, Goal::None)
            .beside(ping.percentile(per_mille))
            .note("a bare PING")
    };
    Ok(vec![row("p50", 500), row("p99", 990)])
}
