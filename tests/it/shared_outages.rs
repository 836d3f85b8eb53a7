//! What does Redis's absence cost those who come and those who wait?

use std::time::{Duration, Instant};

use crate::harness::{
    Backend, Client, Departures, Redis, Severing, Visit, Way, Weir, come, crowds, have_waiting,
    instances, know_each_other, ms, none_failed, responses, sharing, visits,
};

const LIMIT: &str = "rate = \"100r/s\"\nburst = 50";

async fn after(millis: u64) {
    tokio::time::sleep(ms(millis)).await;
}

/// What two instances at 100r/s let through while `faults` happen.
struct Run {
    visits: Vec<Visit>,
    left: Departures,
    begun: Instant,
}

impl Run {
    async fn of(
        weirs: &[Weir],
        backend: &Backend,
        span: u64,
        faults: impl Future<Output = ()>,
    ) -> Self {
        let begun = Instant::now();
        let crowds = crowds(weirs, 80.0);
        let (visits, ()) = tokio::join!(visits(&crowds, ms(span)), faults);
        Self {
            visits,
            left: Departures::to(backend),
            begun,
        }
    }

    fn none_fails(&self) {
        none_failed(&self.visits);
        assert_eq!(self.left.twice(), [""; 0], "none is sent twice");
        // Who has a place when Redis goes is refused by nobody.
        let refused = self.visits.iter().filter(|visit| visit.status() == 429);
        let late: Vec<_> = refused
            .filter(|visit| visit.took() > ms(500))
            .map(|visit| (visit.sent.duration_since(self.begun), visit.took()))
            .collect();
        assert!(late.is_empty(), "{} are refused late: {late:?}", late.len());
    }

    /// Whether the rate between these was within so much of 100 a second.
    fn keeps_the_rate(&self, from: u64, to: u64, tolerance: f64) {
        let count = self
            .left
            .between(self.begun + ms(from), self.begun + ms(to))
            .count();
        let count = f64::from(u32::try_from(count).expect("few"));
        let wanted = ms(to - from).as_secs_f64() * 100.0;
        let off = (count - wanted).abs() / wanted;
        assert!(
            off <= tolerance,
            "{count}, not {wanted}, from {from} to {to}"
        );
    }

    /// How long those took at most who were decided upon at once.
    fn slowest_refusal(&self) -> Duration {
        let refused = self.visits.iter().filter(|visit| visit.status() == 429);
        refused.map(Visit::took).max().unwrap_or_default()
    }
}

async fn two(store: &str, backend: &Backend) -> Vec<Weir> {
    instances(store, LIMIT, backend, 2).await
}

async fn are_well(weirs: &[Weir]) {
    for weir in weirs {
        weir.shows("weir_store_up", 1.0).await;
        weir.shows("weir_store_degraded", 0.0).await;
    }
}

#[tokio::test]
async fn scripts_that_are_flushed_are_loaded_anew() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = two(&redis.store(), &backend).await;
    let run = Run::of(&weirs, &backend, 4_000, async {
        for _ in 0..6 {
            after(500).await;
            redis.call(&["SCRIPT", "FLUSH"]).await;
        }
    })
    .await;
    run.none_fails();
    run.keeps_the_rate(1_000, 4_000, 0.02);
    assert!(run.left.most_in(ms(1_000)) <= 102);
    are_well(&weirs).await;
}

#[tokio::test]
async fn a_redis_that_forgets_everything_changes_little() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = two(&redis.store(), &backend).await;
    let run = Run::of(&weirs, &backend, 5_000, async {
        for _ in 0..3 {
            after(1_000).await;
            redis.call(&["FLUSHALL"]).await;
        }
    })
    .await;
    run.none_fails();
    run.keeps_the_rate(1_000, 5_000, 0.05);
    // The survivors bring `next`: what is forgotten is no burst.
    assert!(
        run.left.most_in(ms(1_000)) <= 102,
        "{}",
        run.left.most_in(ms(1_000))
    );
}

#[tokio::test]
async fn a_redis_that_restarts_costs_nobody_a_place() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = two(&redis.store(), &backend).await;
    let run = Run::of(&weirs, &backend, 5_000, async {
        after(1_500).await;
        redis.restart().await;
    })
    .await;
    run.none_fails();
    run.keeps_the_rate(1_000, 5_000, 0.2);
    are_well(&weirs).await;
}

#[tokio::test]
async fn a_redis_killed_for_three_seconds_leaves_the_rate_as_it_was() {
    let mut redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = two(&redis.store(), &backend).await;
    let run = Run::of(&weirs, &backend, 8_000, async {
        after(1_500).await;
        redis.kill();
        after(3_000).await;
        redis.restart().await;
    })
    .await;
    run.none_fails();
    run.keeps_the_rate(1_800, 4_300, 0.2);
    run.keeps_the_rate(1_000, 8_000, 0.2);
    are_well(&weirs).await;
}

#[tokio::test]
async fn a_redis_stopped_for_two_seconds_leaves_the_rate_as_it_was() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = two(&redis.prompt_store(), &backend).await;
    let run = Run::of(&weirs, &backend, 7_000, async {
        after(1_500).await;
        redis.stop();
        after(2_000).await;
        redis.go_on();
    })
    .await;
    run.none_fails();
    run.keeps_the_rate(1_800, 3_300, 0.2);
    run.keeps_the_rate(1_000, 7_000, 0.2);
    let slowest = run.slowest_refusal();
    assert!(slowest < ms(250), "a refusal took {slowest:?}");
    are_well(&weirs).await;
}

#[tokio::test]
async fn answers_that_are_lost_lose_nobody_and_serve_nobody_twice() {
    let redis = Redis::start().await;
    let way = Severing::before(redis.address());
    let backend = Backend::start();
    let weirs = two(&way.store(), &backend).await;
    let run = Run::of(&weirs, &backend, 6_000, async {
        for lost in [Way::Deaf, Way::Severed, Way::Deaf, Way::Hung] {
            after(900).await;
            way.set(lost);
            after(100).await;
            way.set(Way::Open);
        }
    })
    .await;
    run.none_fails();
    run.keeps_the_rate(1_000, 6_000, 0.2);
    are_well(&weirs).await;
    for weir in &weirs {
        weir.shows("weir_waiting{limit=\"main\"}", 0.0).await;
    }
}

#[tokio::test]
async fn one_that_is_cut_off_does_not_hold_up_the_other() {
    let redis = Redis::start().await;
    let way = Severing::before(redis.address());
    let backend = Backend::start();
    let closed = "on_failure = \"closed\"\n";
    let mut weirs = Vec::new();
    for (store, name) in [(redis.store(), "a"), (way.store(), "b")] {
        let config = sharing(&(store + closed), LIMIT, &backend, name);
        weirs.push(Weir::start(&config).await);
    }
    know_each_other(&weirs).await;
    let run = Run::of(&weirs, &backend, 8_000, async {
        after(1_500).await;
        way.set(Way::Severed);
        after(5_000).await;
        way.set(Way::Open);
    })
    .await;
    assert_eq!(run.left.twice(), [""; 0]);
    assert!(
        run.left.most_in(ms(1_000)) <= 102,
        "{}",
        run.left.most_in(ms(1_000))
    );
    // Once it counts as dead, the other has the line for itself: 80 a second come.
    let alone = run
        .left
        .between(run.begun + ms(5_000), run.begun + ms(6_400));
    assert!(alone.by("a") >= 100, "{}", alone.by("a"));
    let statuses = run.visits.iter().filter(|it| it.target.starts_with("/0-"));
    assert!(
        statuses
            .map(Visit::status)
            .all(|it| matches!(it, 200 | 429))
    );
    are_well(&weirs).await;
}

#[tokio::test]
async fn connections_that_break_are_made_anew() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = two(&redis.store(), &backend).await;
    let run = Run::of(&weirs, &backend, 5_000, async {
        for kind in ["normal", "pubsub", "normal", "pubsub"] {
            after(800).await;
            redis.call(&["CLIENT", "KILL", "TYPE", kind]).await;
        }
    })
    .await;
    run.none_fails();
    run.keeps_the_rate(1_000, 5_000, 0.1);
    are_well(&weirs).await;
}

/// Two instances with a slow line, after their connections were cut.
async fn reconnected(redis: &Redis, backend: &Backend, pause: u64) -> Vec<Weir> {
    let limit = "rate = \"2r/s\"\nburst = 30";
    let weirs = instances(&redis.store(), limit, backend, 2).await;
    for kind in ["normal", "pubsub"] {
        redis.call(&["CLIENT", "KILL", "TYPE", kind]).await;
    }
    after(pause).await;
    are_well(&weirs).await;
    weirs
}

#[tokio::test]
async fn a_connection_that_broke_is_made_anew_before_anyone_needs_it() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = reconnected(&redis, &backend, 400).await;
    let _all = come(&weirs[0], 31, "all").await;
    // By itself an instance would have room for half of them.
    have_waiting(&weirs, 30).await;
}

#[tokio::test]
async fn wake_ups_come_again_after_a_connection_broke() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = reconnected(&redis, &backend, 1_500).await;
    let before = come(&weirs[0], 20, "before").await;
    have_waiting(&weirs, 19).await;
    let behind = come(&weirs[1], 1, "behind").await;
    have_waiting(&weirs, 20).await;
    before.into_iter().for_each(Client::reset);
    let left = Instant::now();
    assert_eq!(responses(behind).await[0].status, 200);
    assert!(left.elapsed() < ms(2_500), "{:?}", left.elapsed());
}
