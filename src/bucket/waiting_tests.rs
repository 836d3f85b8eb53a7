//! Do those who wait get their turns, and do those who leave give theirs back?

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::key::{KeyHasher, KeyId};
use crate::limit::{OnMissingKey, Policy};
use crate::line::Pace;
use crate::metrics::{Metrics, Reason};
use crate::store::Room;
use crate::units::Clock;

/// An instance without sockets, on tokio's clock.
struct Stage {
    metrics: Arc<Metrics>,
    room: Arc<Room>,
    crowd: Arc<Crowd>,
    clock: Clock,
    timer: SlotTimer,
    gate: Gate,
}

impl Stage {
    fn new(max_in_flight: Option<u32>, max_waiting: usize) -> Arc<Self> {
        let metrics = Metrics::new();
        let clock = Clock::start();
        let timer = SlotTimer::coarse(clock);
        let ringing = timer.clone();
        tokio::spawn(async move { ringing.run(Limiter::rang).await });
        let gate = Gate::new(max_in_flight, Arc::new(metrics.upstream("up")));
        Arc::new(Self {
            metrics,
            room: Room::new(1_000),
            crowd: Crowd::new(max_waiting),
            clock,
            timer,
            gate,
        })
    }

    fn limit(
        &self,
        name: &str,
        rate: &str,
        burst: u32,
        delay: u32,
        max_wait: Option<Duration>,
    ) -> Arc<Limiter> {
        let policy = Policy {
            name: name.into(),
            key: "{ip}".parse().expect("a key"),
            ipv6_prefix: 64,
            on_missing_key: OnMissingKey::Reject,
            pace: Pace::new(rate.parse().expect("a rate"), burst, delay).expect("a pace"),
            max_wait,
            status: StatusCode::TOO_MANY_REQUESTS,
            dry_run: false,
            on_failure: None,
        };
        Limiter::new(
            policy,
            Arc::clone(&self.room),
            Arc::clone(&self.crowd),
            self.clock,
            self.metrics.limit(name),
            None,
        )
    }

    /// Enters and waits; the answer, with the permit that comes of it.
    async fn pass(&self, claims: &[Claim], prefer: Option<Duration>) -> Result<Pass, String> {
        let mut places = Places::enter(claims, &self.gate, prefer, &self.timer)
            .map_err(|refused| refused.refusal.reason.as_str().to_owned())?;
        let passed = places.wait(&self.crowd, Duration::from_secs(1)).await;
        passed.map_err(|unserved| match unserved {
            Unserved::Refused(refused) => refused.refusal.reason.as_str().to_owned(),
            Unserved::Evicted(evicted) => format!("evicted: {}", evicted.reason.as_str()),
        })
    }

    fn shows(&self, line: &str) -> bool {
        self.metrics.render().lines().any(|shown| shown == line)
    }
}

fn key(text: &str) -> KeyId {
    KeyHasher::new("test").hash(text)
}

fn claim(limiter: &Arc<Limiter>, text: &str) -> Claim {
    Claim {
        limiter: Arc::clone(limiter),
        key: key(text),
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Starts `count` requests that come at once; tells when each went, in the order
/// in which they came, and why the others did not.
async fn burst(stage: &Arc<Stage>, claims: &[Claim], count: usize) -> Vec<Result<u128, String>> {
    let begun = Instant::now();
    let mut requests = Vec::new();
    for _ in 0..count {
        let (stage, claims) = (Arc::clone(stage), claims.to_vec());
        requests.push(tokio::spawn(async move {
            stage
                .pass(&claims, None)
                .await
                .map(|_pass| begun.elapsed().as_millis())
        }));
        tokio::task::yield_now().await;
    }
    let mut ends = Vec::new();
    for request in requests {
        ends.push(request.await.expect("no panic"));
    }
    ends
}

/// Departures in steps of `step`, each at most a few timer ticks late.
fn assert_steps(ends: &[Result<u128, String>], step: u128) {
    for (index, end) in ends.iter().enumerate() {
        let (due, at) = (index as u128 * step, *end.as_ref().expect("admitted"));
        assert!(
            at >= due && at <= due + 5,
            "number {index} was due at {due} and went at {at}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_drains_at_the_rate_and_the_overflow_is_refused() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "5r/m", 5, 0, None);
    let ends = burst(&stage, &[claim(&limit, "a")], 7).await;
    assert_eq!(ends[6], Err("full".to_owned()));
    assert_steps(&ends[..6], 12_000);
    assert!(stage.shows("weir_waiting{limit=\"l\"} 0"));
    assert!(
        stage.shows("weir_slots_total{limit=\"l\",fate=\"used\"} 6"),
        "{}",
        stage.metrics.render()
    );
    assert_eq!(stage.crowd.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_up_is_free_at_once() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "1r/s", 5, 0, None);
    let claims = [claim(&limit, "a")];
    let _first = stage.pass(&claims, None).await.expect("the line is empty");
    let patient = |name: u8| {
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        tokio::spawn(async move {
            (
                name,
                stage.pass(&claims, None).await.map(|_| Instant::now()),
            )
        })
    };
    let begun = Instant::now();
    let waiting: Vec<_> = (0..5).map(patient).collect();
    tokio::task::yield_now().await;
    assert_eq!(stage.crowd.waiting(), 5);
    sleep(millis(50)).await;
    for leaving in waiting.iter().take(4) {
        leaving.abort();
    }
    tokio::task::yield_now().await;
    assert_eq!(stage.crowd.waiting(), 1, "four places are free");
    let (_, went) = waiting
        .into_iter()
        .last()
        .expect("five")
        .await
        .expect("no panic");
    let took = went.expect("served").duration_since(begun);
    assert!(
        took >= millis(1_000) && took < millis(1_010),
        "the last one moved up: {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_use_its_slot_keeps_its_place_and_others_go() {
    let stage = Stage::new(Some(1), 100);
    let limit = stage.limit("l", "10r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let held = stage
        .pass(&claims, None)
        .await
        .expect("the upstream is free");
    let begun = Instant::now();
    let full = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move {
            stage
                .pass(&claims, None)
                .await
                .map(|pass| (pass.waited, Instant::now()))
        }
    });
    sleep(millis(350)).await;
    // Another upstream's request passes the one whose own is full.
    let free = Gate::new(None, Arc::new(stage.metrics.upstream("other")));
    let mut places = Places::enter(&claims, &free, None, &stage.timer).expect("a place");
    let passed = places
        .wait(&stage.crowd, millis(1))
        .await
        .expect("its upstream is free");
    assert_eq!(passed.waited, None, "its slot had come");
    assert!(begun.elapsed() < millis(360));
    drop(held);
    let (waited, went) = full.await.expect("no panic").expect("served");
    assert!(waited.expect("it waited") >= millis(350));
    let took = went.duration_since(begun);
    assert!(
        took >= millis(450) && took < millis(460),
        "one interval after the other: {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn after_an_upstream_was_full_there_is_no_burst() {
    let stage = Stage::new(Some(1), 100);
    let limit = stage.limit("l", "10r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let held = stage
        .pass(&claims, None)
        .await
        .expect("the upstream is free");
    let begun = Instant::now();
    let ends = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move { burst(&stage, &claims, 5).await }
    });
    sleep(millis(1_000)).await;
    drop(held);
    let ends: Vec<u128> = ends
        .await
        .expect("no panic")
        .into_iter()
        .map(|end| end.expect("served"))
        .collect();
    assert!(
        begun.elapsed() >= millis(1_395),
        "five slots from then on: {ends:?}"
    );
    assert!(
        ends.windows(2).all(|pair| pair[1] >= pair[0] + 98),
        "evenly: {ends:?}"
    );
    assert!(ends[0] >= 1_000 && ends[0] < 1_010, "at once: {ends:?}");
}

#[tokio::test(start_paused = true)]
async fn what_one_limit_refuses_the_others_get_back() {
    let stage = Stage::new(None, 100);
    let quota = stage.limit("quota", "1r/m", 9, 9, None);
    let line = stage.limit("line", "1r/s", 1, 0, None);
    let claims = [claim(&quota, "a"), claim(&line, "a")];
    let ends = burst(&stage, &claims, 5).await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 2);
    let left = quota.remaining(key("a"), None);
    assert_eq!(left.admits, 8, "two were served, three had theirs back");
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_before_its_turn_has_paid_nothing_anywhere() {
    let stage = Stage::new(None, 100);
    let quota = stage.limit("quota", "1r/m", 9, 9, None);
    let first = stage.limit("first", "10r/s", 5, 5, None);
    let last = stage.limit("last", "1r/s", 20, 0, None);
    let claims = [claim(&quota, "a"), claim(&first, "a"), claim(&last, "a")];
    let _served = stage.pass(&claims, None).await.expect("all are free");
    let leaving = timeout(millis(20), burst(&stage, &claims, 5));
    assert!(leaving.await.is_err(), "they wait in the last line");
    tokio::task::yield_now().await;
    // burst() runs them as tasks of their own: they are ended by the purge.
    last.purge(Reason::Purged);
    tokio::task::yield_now().await;
    assert_eq!(quota.remaining(key("a"), None).admits, 9);
    assert_eq!(first.remaining(key("a"), None).admits, 5);
    assert_eq!(last.remaining(key("a"), None).admits, 20);
    assert_eq!(stage.crowd.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_lines_let_no_more_through_than_the_last_one_says() {
    let stage = Stage::new(None, 1_000);
    let each = stage.limit("each", "10r/s", 9, 0, None);
    let all = stage.limit("all", "100r/s", 15, 0, None);
    let begun = Instant::now();
    let mut requests = Vec::new();
    for client in 0..20 {
        for _ in 0..10 {
            let claims = vec![claim(&each, &client.to_string()), claim(&all, "all")];
            let stage = Arc::clone(&stage);
            requests.push(tokio::spawn(async move {
                stage
                    .pass(&claims, None)
                    .await
                    .expect("a place in the first line is enough");
                begun.elapsed().as_millis()
            }));
        }
    }
    let mut ends = Vec::new();
    for request in requests {
        ends.push(request.await.expect("no panic"));
    }
    ends.sort_unstable();
    assert_eq!(ends.len(), 200);
    for window in ends.windows(12) {
        assert!(
            window[11] - window[0] >= 98,
            "twelve within {} ms",
            window[11] - window[0]
        );
    }
    assert!(
        ends[190] >= 1_895 && ends[190] < 1_910,
        "no slot was lost while enough of them waited: {ends:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_a_hold_lengthens_ends_at_max_wait() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "10r/s", 10, 0, Some(millis(500)));
    let claims = [claim(&limit, "a")];
    let _first = stage.pass(&claims, None).await.expect("the line is empty");
    let waiting = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move { stage.pass(&claims, None).await.map(|_| ()) }
    });
    tokio::task::yield_now().await;
    limit.hold(key("a"), Duration::from_mins(1));
    assert_eq!(
        stage.pass(&claims, None).await.err(),
        Some("max_wait".to_owned()),
        "refused on arrival"
    );
    let begun = Instant::now();
    assert_eq!(
        waiting.await.expect("no panic"),
        Err("evicted: max_wait".to_owned())
    );
    assert!(begun.elapsed() < millis(600));
    assert_eq!(stage.crowd.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_may_say_how_long_it_would_wait() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "1r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let _first = stage.pass(&claims, None).await.expect("the line is empty");
    let places = Places::enter(&claims, &stage.gate, Some(millis(1_500)), &stage.timer)
        .expect("one second is fine");
    let refused = Places::enter(&claims, &stage.gate, Some(millis(1_500)), &stage.timer)
        .expect_err("two are not");
    assert_eq!(refused.refusal.reason, Reason::MaxWait);
    assert!(
        refused.retry_after <= millis(500) && refused.retry_after > millis(400),
        "{:?}",
        refused.retry_after
    );
    drop(places);
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_than_the_instance_may_hold() {
    let stage = Stage::new(None, 3);
    let limit = stage.limit("l", "1r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let ends = burst(&stage, &claims, 6).await;
    assert_eq!(
        ends.iter().filter(|end| end.is_ok()).count(),
        4,
        "one goes at once and three wait"
    );
    let refused = Places::enter(&claims, &stage.gate, None, &stage.timer);
    assert!(refused.is_ok(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn those_in_line_keep_their_places_while_their_upstream_is_down() {
    let stage = Stage::new(Some(10), 100);
    let limit = stage.limit("l", "10r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    stage.gate.set_well(false);
    let ends = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move { burst(&stage, &claims, 3).await }
    });
    sleep(millis(2_000)).await;
    assert_eq!(stage.crowd.waiting(), 3);
    assert_eq!(
        stage.pass(&[], None).await.err(),
        Some("evicted: full".to_owned()),
        "no line, no wait"
    );
    stage.gate.set_well(true);
    let ends = ends.await.expect("no panic");
    let went: Vec<u128> = ends.into_iter().map(|end| end.expect("served")).collect();
    assert!(
        went[0] >= 2_000 && went[0] < 2_010 && went[2] < 2_210,
        "{went:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_slot_keeps_no_permit_from_others() {
    let stage = Stage::new(Some(1), 100);
    let limit = stage.limit("l", "1r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let held = stage
        .pass(&claims, None)
        .await
        .expect("the upstream is free");
    let ends = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move { burst(&stage, &claims, 5).await }
    });
    sleep(millis(3_500)).await;
    drop(held);
    sleep(millis(100)).await;
    let waiting = stage.crowd.waiting();
    assert_eq!(waiting, 4, "one went at once, four wait for their slots");
    assert!(
        stage.gate.try_enter().is_some(),
        "the upstream is free meanwhile"
    );
    let ends = ends.await.expect("no panic");
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
}

/// Changes the limit's pace as a reload would.
fn repace(limit: &Arc<Limiter>, rate: &str) {
    let mut policy = Policy::clone(&limit.policy());
    let (burst, delay) = (policy.pace.burst(), policy.pace.delay());
    policy.pace = Pace::new(rate.parse().expect("a rate"), burst, delay).expect("a pace");
    limit.change(policy);
}

#[tokio::test(start_paused = true)]
async fn a_faster_pace_drains_the_same_line_in_the_same_order() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "1r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let ends = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move { burst(&stage, &claims, 4).await }
    });
    sleep(millis(300)).await;
    repace(&limit, "10r/s");
    let newcomer = burst(&stage, &claims, 1).await;
    let ends: Vec<u128> = ends
        .await
        .expect("no panic")
        .into_iter()
        .map(|end| end.expect("served"))
        .collect();
    for (end, due) in ends.iter().zip([0, 400, 500, 600]) {
        assert!(
            *end >= due && *end <= due + 5,
            "due at {due}, went at {end}: {ends:?}"
        );
    }
    let newcomer = *newcomer[0].as_ref().expect("served");
    assert!(
        (400..=405).contains(&newcomer),
        "behind all who waited: {newcomer}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slower_pace_keeps_places_and_debt() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "100r/s", 60, 0, None);
    let claims = [claim(&limit, "a")];
    let ends = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move { burst(&stage, &claims, 51).await }
    });
    sleep(millis(5)).await;
    repace(&limit, "10r/s");
    let ends: Vec<u128> = ends
        .await
        .expect("no panic")
        .into_iter()
        .map(|end| end.expect("served"))
        .collect();
    assert!(
        ends.windows(2).skip(1).all(|pair| pair[1] - pair[0] >= 98),
        "{ends:?}"
    );
    assert!(
        (4_910..4_930).contains(&ends[50]),
        "all fifty kept their places: {ends:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_slot_that_a_slower_pace_had_set() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "1r/d", 2, 0, None);
    let claims = [claim(&limit, "a")];
    let ends = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.to_vec());
        async move { burst(&stage, &claims, 3).await }
    });
    sleep(millis(50)).await;
    repace(&limit, "10r/s");
    let ends: Vec<u128> = ends
        .await
        .expect("no panic")
        .into_iter()
        .map(|end| end.expect("served"))
        .collect();
    assert!(ends[1] <= 155 && ends[2] <= 260, "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_would_wait_too_long_in_the_next_line_is_ended_in_its_place() {
    let stage = Stage::new(None, 100);
    let first = stage.limit("first", "5r/s", 20, 0, None);
    let second = stage.limit("second", "2r/s", 20, 0, None);
    let others = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), vec![claim(&second, "a")]);
        async move { burst(&stage, &claims, 7).await }
    });
    sleep(millis(5)).await;
    let claims = [claim(&first, "a"), claim(&second, "a")];
    let begun = Instant::now();
    let ended = stage.pass(&claims, Some(millis(1_000))).await.map(|_| ());
    assert_eq!(ended, Err("evicted: max_wait".to_owned()));
    assert!(begun.elapsed() < millis(1_100), "{:?}", begun.elapsed());
    others.await.expect("no panic");
    assert_eq!(
        first.remaining(key("a"), None).admits,
        21,
        "it has paid nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_for_which_the_next_limit_has_no_room_is_sent_away() {
    let stage = Stage::new(None, 100);
    let first = stage.limit("first", "5r/s", 20, 0, None);
    let second = stage.limit("second", "1r/d", 20, 0, None);
    for owing in 0..999 {
        let claims = [claim(&second, &owing.to_string())];
        stage.pass(&claims, None).await.expect("there is room");
    }
    let claims = [claim(&first, "a"), claim(&second, "new")];
    let ended = stage.pass(&claims, None).await.map(|_| ());
    assert_eq!(ended, Err("evicted: keys".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_use_the_room_yet_leaves_it_to_others() {
    let stage = Stage::new(None, 100);
    let each = stage.limit("each", "6r/m", 9, 0, None);
    let all = stage.limit("all", "1r/s", 1, 0, None);
    let start = |claims: Vec<Claim>| {
        let stage = Arc::clone(&stage);
        let begun = Instant::now();
        tokio::spawn(async move { stage.pass(&claims, None).await.map(|_| begun.elapsed()) })
    };
    let (one, two) = ("one", "two");
    let mut requests = vec![
        start(vec![claim(&all, "all")]),
        start(vec![claim(&all, "all")]),
    ];
    sleep(millis(2)).await;
    for name in [one, one, two] {
        requests.push(start(vec![claim(&each, name), claim(&all, "all")]));
        sleep(millis(2)).await;
    }
    let mut went = Vec::new();
    for request in requests {
        went.push(
            request
                .await
                .expect("no panic")
                .expect("served")
                .as_millis(),
        );
    }
    assert!(went[2] < 3_000, "the first of key one: {went:?}");
    assert!(
        went[4] < 4_000,
        "key two does not wait for key one's next slot: {went:?}"
    );
    assert!(
        went[3] >= 10_000 && went[3] < 13_100,
        "the second of key one: {went:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reload_lets_go_who_stood_before_a_line_that_is_no_more() {
    let stage = Stage::new(None, 100);
    let first = stage.limit("first", "100r/s", 20, 0, None);
    let second = stage.limit("second", "1r/m", 1, 0, None);
    let claims = vec![claim(&first, "a"), claim(&second, "a")];
    let ends = tokio::spawn({
        let (stage, claims) = (Arc::clone(&stage), claims.clone());
        async move { burst(&stage, &claims, 8).await }
    });
    sleep(millis(500)).await;
    let mut policy = Policy::clone(&second.policy());
    policy.dry_run = true;
    second.change(policy);
    let ends = timeout(Duration::from_mins(2), ends)
        .await
        .expect("nobody is stranded")
        .expect("no panic");
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_overtaken_while_others_take_the_upstreams_permits() {
    let stage = Stage::new(Some(1), 1_000);
    let limit = stage.limit("l", "4r/s", 50, 0, None);
    let busy = tokio::spawn({
        let stage = Arc::clone(&stage);
        async move {
            for _ in 0..200 {
                let pass = stage.pass(&[], None).await;
                sleep(millis(30)).await;
                drop(pass);
                tokio::task::yield_now().await;
            }
        }
    });
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut requests = Vec::new();
    for number in 0..16 {
        let (stage, order, claims) = (Arc::clone(&stage), Arc::clone(&order), [claim(&limit, "a")]);
        requests.push(tokio::spawn(async move {
            let pass = stage.pass(&claims, None).await.expect("served");
            order.lock().push(number);
            sleep(millis(20)).await;
            drop(pass);
        }));
        sleep(millis(7)).await;
    }
    for request in requests {
        request.await.expect("no panic");
    }
    let order = order.lock().clone();
    assert!(order.is_sorted(), "{order:?}");
    busy.abort();
}
