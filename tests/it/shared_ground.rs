//! Do the Redis and the faults of the tests do what tests of weir rely on?

use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::harness::{
    Backend, Caller, Clock, Cluster, Crowd, Departures, Redis, Secure, Sentinels, Severing, Value,
    Way, Weir, calmly, ms, none_failed, sharing, visits,
};

#[tokio::test]
async fn a_redis_comes_back_empty_on_its_port() {
    let mut redis = Redis::start().await;
    redis.call(&["SET", "a", "1"]).await;
    assert_eq!(redis.call(&["TTL", "a"]).await.number(), -1);
    assert_eq!(redis.keys().await, ["a"]);
    redis.stop();
    assert!(redis.try_call(&["PING"]).await.is_err());
    redis.go_on();
    assert_eq!(redis.call(&["GET", "a"]).await.text(), "1");
    redis.kill();
    let refused = TcpStream::connect(redis.address()).await;
    assert!(refused.is_err());
    redis.restart().await;
    assert_eq!(redis.call(&["GET", "a"]).await, Value::Nothing);
    redis.call(&["EVAL", "return 1", "0"]).await;
    assert!((redis.script_calls().await - 1.0).abs() < 1e-9);
    assert!(redis.info("used_memory").await > 0.0);
}

#[tokio::test]
async fn the_way_to_redis_can_be_cut_hung_slowed_deafened_and_filled_with_babble() {
    let redis = Redis::start().await;
    let way = Severing::before(redis.address());
    let through = Caller::to(way.address());
    assert_eq!(through.call(&["INCR", "n"]).await.number(), 1);
    for closed in [Way::Severed, Way::Hung] {
        way.set(closed);
        assert!(
            through.try_call(&["INCR", "n"]).await.is_err(),
            "{closed:?}"
        );
    }
    // What was under way when it hung arrives after all.
    way.set(Way::Open);
    let now = through.call(&["GET", "n"]).await.number();
    assert!((1..=2).contains(&now), "{now}");
    way.set(Way::Deaf);
    assert!(through.try_call(&["SET", "n", "9"]).await.is_err());
    way.set(Way::Babbling("+odd\r\n"));
    assert_eq!(through.call(&["GET", "n"]).await.text(), "odd");
    way.set(Way::Slow(ms(60)));
    let begun = Instant::now();
    assert_eq!(through.call(&["GET", "n"]).await.number(), 9);
    assert!(begun.elapsed() >= ms(120));
}

#[tokio::test]
async fn a_cluster_spreads_keys_over_three_masters() {
    let cluster = Cluster::start().await;
    let mut stored = 0;
    for number in 0..30 {
        for master in cluster.masters() {
            let set = master.try_call(&["SET", &format!("k{number}"), "1"]).await;
            let moved = matches!(set, Ok(Value::Error(ref fault)) if fault.starts_with("MOVED"));
            stored += usize::from(!moved);
        }
    }
    assert_eq!(stored, 30);
    for master in cluster.masters() {
        assert!(!master.keys().await.is_empty());
    }
}

#[tokio::test]
async fn sentinels_put_a_replica_in_the_masters_place() {
    let mut sentinels = Sentinels::start().await;
    sentinels.first().call(&["SET", "a", "1"]).await;
    sentinels.first().kill();
    sentinels.have_failed_over().await;
    assert!(matches!(
        sentinels.second().call(&["SET", "a", "2"]).await,
        Value::Text(_)
    ));
}

#[tokio::test]
async fn a_secure_redis_lets_nobody_in_without_a_password() {
    let secure = Secure::start().await;
    let users = secure.redis().call(&["ACL", "USERS"]).await.texts();
    assert_eq!(users, ["default", "tester", "weir-user"]);
    let (name, password) = ("weir-user", Secure::password());
    let auth = secure.redis().call(&["AUTH", name, password]).await;
    assert_eq!(auth.text(), "OK");
}

#[tokio::test]
async fn one_instance_with_its_buckets_in_memory_keeps_what_is_asked_of_several() {
    const SPAN: Duration = ms(4_000);
    calmly("150 a second at 100 a second", async || {
        let backend = Backend::start();
        let config = sharing("", "rate = \"100r/s\"\nburst = 100", &backend, "a");
        let weir = Weir::start(&config).await;
        let begun = Instant::now();
        let visits = visits(&[Crowd::of(&weir, "a", 150.0)], SPAN).await;
        none_failed(&visits);
        let left = Departures::to(&backend);
        assert_eq!((left.twice(), left.by("a")), (Vec::new(), left.count()));
        let steady = left.between(begun + ms(1_500), begun + SPAN);
        let wait = steady.mean_wait("a", &visits);
        let most = left.most_in(ms(1_000));
        let holds = steady.count() >= 240
            && most <= 101
            && left.most_in(ms(100)) <= 11
            && left.overtaken(&visits) < 0.001
            && (0.3..1.05).contains(&wait);
        holds
            .then_some(())
            .ok_or_else(|| format!("{} of 250, {most} in a second, wait {wait}", steady.count()))
    })
    .await;
}

#[tokio::test]
async fn the_clock_of_a_redis_can_be_stepped() {
    let clock = Clock::new();
    let redis = Redis::by_clock(&clock).await;
    let now = async || {
        redis.call(&["TIME"]).await.texts()[0]
            .parse::<i64>()
            .expect("seconds")
    };
    let right = now().await;
    clock.ahead(ms(60_000));
    assert!((59..=65).contains(&(now().await - right)));
    clock.behind(ms(60_000));
    assert!((55..=61).contains(&(right - now().await)));
    clock.ahead(ms(0));
    assert!((0..=10).contains(&(now().await - right)));
}
