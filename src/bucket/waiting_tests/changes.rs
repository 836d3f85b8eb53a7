//! What if a limit changes while requests wait in it?

use super::*;

/// Changes the limit's pace as a reload would.
fn repace(limit: &Arc<Limiter>, rate: &str) {
    let mut policy = Policy::clone(&limit.policy());
    let (burst, delay) = (policy.rule.burst(), policy.rule.delay());
    let pace = Pace::new(rate.parse().expect("a rate"), burst, delay).expect("a pace");
    policy.rule = Rule::Pace(pace);
    limit.change(policy);
}

#[tokio::test(start_paused = true)]
async fn a_faster_pace_drains_the_same_line_in_the_same_order() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "1r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let ends = bursting(&stage, &claims, 4);
    sleep(millis(300)).await;
    repace(&limit, "10r/s");
    let newcomer = burst(&stage, &claims, 1).await;
    let ends = all_served(ends).await;
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
    let ends = bursting(&stage, &claims, 51);
    sleep(millis(5)).await;
    repace(&limit, "10r/s");
    let ends = all_served(ends).await;
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
    let ends = bursting(&stage, &claims, 3);
    sleep(millis(50)).await;
    repace(&limit, "10r/s");
    let ends = all_served(ends).await;
    assert!(ends[1] <= 155 && ends[2] <= 260, "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reload_lets_go_who_stood_before_a_line_that_is_no_more() {
    let stage = Stage::new(None, 100);
    let first = stage.limit("first", "100r/s", 20, 0, None);
    let second = stage.limit("second", "1r/m", 1, 0, None);
    let claims = vec![claim(&first, "a"), claim(&second, "a")];
    let ends = bursting(&stage, &claims, 8);
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
