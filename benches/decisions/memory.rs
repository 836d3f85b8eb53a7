//! What does a decision cost that a bucket in this process makes?

use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use weir::key::KeyId;
use weir::metrics::Metrics;
use weir::units::Clock;

use crate::Row;
use crate::length::Length;
use crate::limits::{Limit, keys, rules};
use crate::stats::number;

const MANY: usize = 10_000;

/// Tables by the number of keys and of threads.
pub(crate) fn rounds(length: Length) -> Result<Vec<(String, Vec<Row>)>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = runtime.enter();
    let mut tables = Vec::new();
    for (keys_of, threads) in [(MANY, 1), (MANY, 2), (1, 1), (1, 2)] {
        let what = if keys_of == 1 {
            "one key, mostly refused"
        } else {
            "10,000 keys, all pass"
        };
        let title = format!("memory, {what}, threads: {threads}");
        tables.push((title, table(length, &keys(keys_of), threads)?));
    }
    Ok(tables)
}

fn table(length: Length, keys: &[KeyId], threads: u32) -> Result<Vec<Row>> {
    let clock = Clock::start();
    let metrics = Metrics::new();
    let most = NonZeroU32::new(1_000_000).context("a burst")?;
    let governor: DefaultKeyedRateLimiter<KeyId> =
        RateLimiter::keyed(Quota::per_second(most).allow_burst(most));
    let mut rows = vec![Row::new("governor")];
    let mut limits = Vec::new();
    for (name, rule) in rules()? {
        rows.push(Row::new(name));
        limits.push(Limit::new(name, rule, clock, &metrics, None, None)?);
    }
    let span = length.pick(Duration::from_millis(800), Duration::from_millis(200));
    for _ in 0..length.pick(5, 3) {
        let mut rows = rows.iter_mut();
        let row = rows.next().context("governor's")?;
        let decide = |key: &KeyId| governor.check_key(key).is_ok();
        note(row, race(keys, threads, span, || Ok(decide))?);
        for (limit, row) in limits.iter().zip(rows) {
            let decider = || {
                let timer = limit.timer()?;
                Ok(move |key: &KeyId| limit.passes(*key, &timer))
            };
            note(row, race(keys, threads, span, decider)?);
        }
    }
    Ok(rows)
}

/// All threads decide as fast as they can: decisions a second, and microseconds of a core
/// for each.
fn race<D>(
    keys: &[KeyId],
    threads: u32,
    span: Duration,
    decider: impl Fn() -> Result<D> + Sync,
) -> Result<(f64, f64)>
where
    D: FnMut(&KeyId) -> bool,
{
    let begun = Instant::now();
    let counts = thread::scope(|scope| {
        let racer = |nth: u32| {
            let (decider, keys) = (&decider, keys);
            move || -> Result<u64> {
                let mut decide = decider()?;
                let mut count = 0;
                let mut keys = keys.iter().cycle().skip(nth as usize * keys.len() / 2);
                while begun.elapsed() < span {
                    for key in keys.by_ref().take(64) {
                        std::hint::black_box(decide(key));
                        count += 1;
                    }
                }
                Ok(count)
            }
        };
        let racing: Vec<_> = (0..threads).map(|nth| scope.spawn(racer(nth))).collect();
        let ended = racing.into_iter().map(thread::ScopedJoinHandle::join);
        ended.collect::<Vec<_>>()
    });
    let mut all = 0;
    for count in counts {
        all += count.map_err(|_panicked| anyhow::anyhow!("a thread panicked"))??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let each = seconds * f64::from(threads) * 1e6 / number(all);
    Ok((number(all) / seconds, each))
}

fn note(row: &mut Row, (pace, cpu): (f64, f64)) {
    row.pace.push(pace);
    row.cpu.push(cpu);
    row.calls.push(0.0);
}
