//! What do wrong clocks do to a common line?

use std::time::{Duration, Instant};

use crate::harness::{
    Backend, Clock, Departures, Redis, Visit, Weir, crowds, instances, know_each_other, ms,
    none_failed, sharing, visits,
};

const SECOND: Duration = ms(1_000);

#[tokio::test]
async fn no_instance_goes_by_its_own_clock() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let (late, early) = (Clock::new(), Clock::new());
    late.behind(SECOND * 10);
    early.ahead(SECOND * 60);
    for (limit, least) in [
        ("rate = \"10r/s\"\nburst = 5", 38),
        ("rate = \"10r/s\"\nburst = 5\nnodelay = true", 38),
    ] {
        redis.call(&["FLUSHALL"]).await;
        let mut weirs = Vec::new();
        for (clock, name) in [(&late, "a"), (&early, "b")] {
            let config = sharing(&redis.store(), limit, &backend, name);
            weirs.push(Weir::by_clock(clock, &config).await);
        }
        know_each_other(&weirs).await;
        let begun = Instant::now();
        let before = backend.seen().len();
        let visits = visits(&crowds(&weirs, 20.0), SECOND * 4).await;
        none_failed(&visits);
        let slots = usize::try_from(begun.elapsed().as_millis() / 100).expect("few");
        let passed = backend.seen().len() - before;
        assert!(passed <= 6 + 1 + slots, "{passed} of {slots}: {limit}");
        assert!(passed >= least, "{passed}: {limit}");
        let slowest = visits.iter().map(Visit::took).max();
        assert!(slowest < Some(ms(1_500)), "{slowest:?}: {limit}");
    }
}

#[tokio::test]
async fn a_clock_of_redis_that_steps_freezes_nobody_and_makes_no_burst() {
    let clock = Clock::new();
    let redis = Redis::by_clock(&clock).await;
    let backend = Backend::start();
    let limit = "rate = \"100r/s\"\nburst = 50";
    let weirs = instances(&redis.store(), limit, &backend, 2).await;
    let begun = Instant::now();
    let steps = async {
        tokio::time::sleep(ms(1_500)).await;
        clock.behind(SECOND * 60);
        tokio::time::sleep(ms(2_000)).await;
        clock.ahead(SECOND * 60);
        tokio::time::sleep(ms(2_000)).await;
        clock.behind(ms(300));
    };
    let crowds = crowds(&weirs, 80.0);
    let (visits, ()) = tokio::join!(visits(&crowds, ms(7_000)), steps);
    none_failed(&visits);
    let left = Departures::to(&backend);
    let gap = left.longest_gap();
    assert!(gap < ms(1_000), "nothing for {gap:?}");
    let used = left.between(begun + SECOND, begun + SECOND * 7).count();
    assert!(used >= 450, "{used} of 600");
    // With each step forward a bucket may have what it is owed at most.
    assert!(left.most_in(SECOND) <= 110, "{}", left.most_in(SECOND));
}

#[tokio::test]
async fn a_slow_line_outlives_a_step_back_of_an_hour() {
    let clock = Clock::new();
    clock.ahead(SECOND * 3_600);
    let redis = Redis::by_clock(&clock).await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"12r/m\"\nburst = 3", &backend, 2).await;
    assert_eq!(weirs[0].get("/first").await.status, 200);
    // By the old time the next slot is an hour away.
    clock.ahead(Duration::ZERO);
    let stepped = Instant::now();
    assert_eq!(weirs[1].get("/second").await.status, 200);
    let took = stepped.elapsed();
    assert!(took < ms(6_500), "{took:?}");
    assert!(backend.arrivals(stepped)[1] >= ms(4_800), "{took:?}");
}
