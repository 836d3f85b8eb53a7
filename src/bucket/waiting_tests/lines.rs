//! Does a line drain at its rate, and is a place that is given up free?

use super::*;

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
