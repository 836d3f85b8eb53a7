//! What if a limit is paused while requests wait in it, or come?

use super::*;

const HOUR: Duration = Duration::from_hours(1);

/// Pauses a limit, or ends that.
fn pause(stage: &Stage, limit: &Arc<Limiter>, key: Option<KeyId>, span: Duration) {
    let end = stage.clock.now().after(span);
    limit.pause(key, end).expect("room for a pause");
}

fn all_well(ends: &[Result<u128, String>]) -> Vec<u128> {
    let went = ends.iter().map(|end| *end.as_ref().expect("served"));
    went.collect()
}

#[tokio::test(start_paused = true)]
async fn those_in_line_wait_for_the_end_and_leave_at_the_rate() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "10r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let ends = bursting(&stage, &claims, 5);
    sleep(millis(150)).await;
    pause(&stage, &limit, None, millis(5_000));
    assert!(stage.shows("weir_paused{limit=\"l\"} 1"));
    sleep(millis(1_000)).await;
    let late = bursting(&stage, &claims, 2);
    let went = all_well(&ends.await.expect("no panic"));
    assert!(went[1] < 110 && went[2] >= 5_150, "{went:?}");
    for (nth, went) in (0..).zip(&went[2..]) {
        assert!(*went >= 5_150 + nth * 98, "no burst: {went:?}");
    }
    let late = all_well(&late.await.expect("no panic"));
    assert!(late[1] >= 4_390 && late[1] < 4_420, "behind all: {late:?}");
    limit.observe();
    assert!(stage.shows("weir_paused{limit=\"l\"} 0"));
    assert!(stage.shows("weir_slots_total{limit=\"l\",fate=\"missed\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_ended_lets_them_go_at_once() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "10r/s", 10, 0, None);
    pause(&stage, &limit, None, HOUR);
    let ends = bursting(&stage, &[claim(&limit, "a")], 3);
    sleep(millis(2_000)).await;
    assert_eq!(stage.crowd.waiting(), 3);
    pause(&stage, &limit, None, Duration::ZERO);
    let went = all_well(&ends.await.expect("no panic"));
    for (nth, went) in (0..).zip(&went) {
        let due = 2_000 + nth * 100;
        assert!((due - 5..due + 10).contains(went), "{went}");
    }
    assert!(stage.shows("weir_slots_total{limit=\"l\",fate=\"missed\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn one_key_is_paused_and_others_go() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "10r/s", 10, 0, None);
    pause(&stage, &limit, Some(key("a")), HOUR);
    let held = bursting(&stage, &[claim(&limit, "a")], 2);
    let went = all_well(&burst(&stage, &[claim(&limit, "b")], 2).await);
    assert!(went[1] < 110, "{went:?}");
    assert_eq!(stage.crowd.waiting(), 2, "those of the key");
    pause(&stage, &limit, Some(key("a")), Duration::ZERO);
    let ends = held.await.expect("no panic");
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_without_a_line_says_when_to_come_back() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "10r/s", 5, 5, None);
    pause(&stage, &limit, None, HOUR);
    let claims = [claim(&limit, "a")];
    let refused = Places::enter(&claims, &stage.gate, None, &stage.timer).expect_err("paused");
    assert_eq!(refused.refusal.reason, Reason::Paused);
    assert_eq!(refused.refusal.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.retry_after, HOUR);
    assert!(stage.shows("weir_refused_total{limit=\"l\",reason=\"paused\"} 1"));
    assert_eq!(limit.remaining(key("a"), 1, None).admits, 0);
    sleep(HOUR).await;
    assert!(
        stage.pass(&claims, None).await.is_ok(),
        "it ended by itself"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_outlasts_their_patience_refuses_those_who_come_and_ends_those_who_wait() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit("l", "1r/s", 10, 0, Some(millis(3_000)));
    let claims = [claim(&limit, "a")];
    let ends = bursting(&stage, &claims, 3);
    sleep(millis(500)).await;
    pause(&stage, &limit, None, HOUR);
    assert_eq!(
        stage.pass(&claims, None).await.err(),
        Some("max_wait".to_owned())
    );
    let ends = ends.await.expect("no panic");
    assert!(ends[0].is_ok());
    assert_eq!(ends[1], Err("evicted: paused".to_owned()));
    assert_eq!(ends[2], Err("evicted: paused".to_owned()));
    assert_eq!(stage.crowd.waiting(), 0);
    assert!(stage.shows("weir_waiting{limit=\"l\"} 0"));
    pause(&stage, &limit, None, Duration::ZERO);
    assert!(stage.pass(&claims, None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_or_is_purged_in_a_pause_leaves_nothing_behind() {
    let stage = Stage::new(None, 10_000);
    let limit = stage.limit("l", "100r/s", 1_000, 0, None);
    for round in 0..20 {
        pause(&stage, &limit, None, HOUR);
        let claims = [claim(&limit, "a")];
        let comes = |_| {
            let (stage, claims) = (Arc::clone(&stage), claims.clone());
            tokio::spawn(async move { drop(stage.pass(&claims, None).await) })
        };
        let waiting: Vec<_> = (0..50).map(comes).collect();
        sleep(millis(1) * round).await;
        for leaving in waiting.iter().skip(1).step_by(3) {
            leaving.abort();
        }
        if round % 2 == 0 {
            limit.purge(Some(key("a")), Reason::Purged);
        }
        pause(&stage, &limit, None, Duration::ZERO);
        limit.purge(None, Reason::Purged);
        for ended in waiting {
            // Some were aborted, the others were told or went.
            drop(ended.await);
        }
        tokio::task::yield_now().await;
        assert_eq!(stage.crowd.waiting(), 0, "round {round}");
        assert!(stage.shows("weir_waiting{limit=\"l\"} 0"), "round {round}");
    }
    sleep(millis(1_000)).await;
    assert_eq!(limit.remaining(key("a"), 1, None).admits, 1_001);
}
