//! How does a test stand on both sides of the real program?
//!
//! [`Weir`] is the binary in a process of its own, [`Backend`] the server behind
//! it and [`Client`] a connection before it. Backend and client speak bytes, so
//! that nothing is made right on the way.

mod answer;
mod backend;
mod certificates;
mod client;
mod clock;
mod departures;
pub(crate) mod frames;
mod http2;
mod instances;
mod machine;
mod message;
mod metrics;
mod multiplexed;
mod redis;
mod request;
mod running;
mod serving;
mod severing;
mod strict;
pub(crate) mod structured;
mod visits;
mod weir;
mod wire;

use std::time::{Duration, Instant};

pub(crate) use answer::Answer;
pub(crate) use backend::{Backend, Seen};
pub(crate) use certificates::{Authority, Certificate, server_tls};
pub(crate) use client::{Client, clients, responses};
pub(crate) use clock::Clock;
pub(crate) use departures::Departures;
pub(crate) use http2::{Http2Backend, Play};
pub(crate) use instances::{at_once, come, have_waiting, instances, know_each_other, sharing};
pub(crate) use machine::{black_hole, free_port, reserved_port};
pub(crate) use message::Response;
pub(crate) use metrics::Metrics;
pub(crate) use multiplexed::{Exchange, Multiplexed, agreed, get, over_tls, post};
pub(crate) use redis::{Caller, Cluster, Redis, Secure, Sentinels, Value};
pub(crate) use request::Request;
pub(crate) use severing::{Severing, Way};
pub(crate) use visits::{Crowd, Visit, crowds, none_failed, visits};
pub(crate) use weir::{Ran, Weir, run, run_knowing};
pub(crate) use wire::{Heard, Wire};

/// How long anything may take that is certain to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How often something is looked at that gives no signal.
pub(crate) const GLANCE: Duration = Duration::from_millis(4);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What comes of `wait`, which must not take forever.
#[expect(clippy::panic, reason = "who waits in vain says for what")]
pub(crate) async fn soon<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_elapsed| panic!("{what}: not within {PATIENCE:?}"))
}

/// Looks again and again until `look` is true, or says what it saw last.
pub(crate) async fn until(what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(seen) = look().await {
        assert!(begun.elapsed() < PATIENCE, "{what}: {seen}");
        tokio::time::sleep(GLANCE).await;
    }
}

/// Tries again what a busy machine may spoil: it must hold once.
pub(crate) async fn calmly(what: &str, mut attempt: impl AsyncFnMut() -> Result<(), String>) {
    let mut spoilt = Vec::new();
    while let Err(why) = attempt().await {
        spoilt.push(why);
        assert!(spoilt.len() < 5, "{what}: {spoilt:#?}");
    }
}

/// Whether these follow each other at a pace: each is so many intervals after the first,
/// but for what a busy machine may have kept that one back. A burst is far below.
pub(crate) fn keeps_pace(arrivals: &[Duration], interval: Duration) {
    let (Some(first), mut slot) = (arrivals.first(), Duration::ZERO) else {
        return;
    };
    for arrival in arrivals {
        assert!(*arrival + ms(30) >= *first + slot, "evenly: {arrivals:?}");
        slot += interval;
    }
}

/// What comes of all of these, which run at once, in their order.
pub(crate) async fn together<T: 'static>(
    cases: impl IntoIterator<Item = impl Future<Output = T> + 'static>,
) -> Vec<T> {
    let here = tokio::task::LocalSet::new();
    let running: Vec<_> = cases
        .into_iter()
        .map(|case| here.spawn_local(case))
        .collect();
    let all = async {
        let mut done = Vec::with_capacity(running.len());
        for case in running {
            done.push(case.await.expect("a case that holds"));
        }
        done
    };
    here.run_until(all).await
}

/// The tables that follow `[server]`: a limit `main` before everything, on a
/// route `main` to an upstream `main`.
pub(crate) fn one_limit(limit: &str, backend: &Backend) -> String {
    format!(
        "[limits.main]\nkey = \"all\"\n{limit}\n{}",
        route("limits = [\"main\"]", backend)
    )
}

/// A route `main` that takes everything to an upstream `main`.
pub(crate) fn route(keys: &str, backend: &Backend) -> String {
    upstream("", keys, backend)
}

/// The same, with more to say of the upstream.
pub(crate) fn upstream(upstream: &str, route: &str, backend: &Backend) -> String {
    format!(
        "[upstreams.main]\nurl = \"{}\"\n{upstream}\n\
         [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n{route}\n",
        backend.url()
    )
}
