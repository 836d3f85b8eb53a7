//! What if the upstream of those who wait is full, or down?

use super::*;

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
    let ends = bursting(&stage, &claims, 5);
    sleep(millis(1_000)).await;
    drop(held);
    let ends = all_served(ends).await;
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
async fn those_in_line_keep_their_places_while_their_upstream_is_down() {
    let stage = Stage::new(Some(10), 100);
    let limit = stage.limit("l", "10r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    stage.gate.set_well(false);
    let ends = bursting(&stage, &claims, 3);
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
    let ends = bursting(&stage, &claims, 5);
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
