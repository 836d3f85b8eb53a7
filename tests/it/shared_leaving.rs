//! What remains in the common line of those who leave?

use std::time::Instant;

use crate::harness::{
    Backend, Client, Departures, Redis, Request, calmly, come, crowds, have_waiting, instances, ms,
    responses, until, visits,
};

#[tokio::test]
async fn those_who_leave_one_instance_make_room_at_another() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"6r/m\"\nburst = 5", &backend, 2).await;
    assert_eq!(weirs[0].get("/first").await.status, 200);
    let all = come(&weirs[0], 5, "left").await;
    have_waiting(&weirs, 5).await;
    assert_eq!(weirs[1].get("/refused").await.status, 429);
    all.into_iter().for_each(Client::reset);
    let left = Instant::now();
    let mut stays = weirs[1].client().await;
    until("a place of one who left", async || {
        stays.send(Request::get("/stays").bytes()).await;
        // Who has a place hears nothing; who has none is told at once.
        if stays.is_silent_for(ms(40)).await {
            return Ok(());
        }
        Err(format!("{}", stays.response().await.status))
    })
    .await;
    assert!(left.elapsed() < ms(500), "{:?}", left.elapsed());
    let _others = come(&weirs[1], 4, "new").await;
    have_waiting(&weirs, 5).await;
    assert_eq!(weirs[0].get("/refused").await.status, 429);
    assert_eq!(backend.targets(), ["/first"], "who left was never sent");
}

#[tokio::test]
async fn those_behind_move_up_at_every_instance() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"2r/s\"\nburst = 30", &backend, 2).await;
    let begun = Instant::now();
    assert_eq!(weirs[0].get("/first").await.status, 200);
    let before = come(&weirs[0], 20, "before").await;
    have_waiting(&weirs, 20).await;
    let behind = come(&weirs[1], 3, "behind").await;
    have_waiting(&weirs, 23).await;
    // Without them the others' turns would be ten seconds away.
    before.into_iter().for_each(Client::reset);
    let responses = responses(behind).await;
    assert!(responses.iter().all(|response| response.status == 200));
    let took = begun.elapsed();
    assert!(took < ms(4_000), "{took:?}");
    let arrivals = backend.arrivals(begun);
    let behind = arrivals.iter().rev().take(3).rev();
    let behind: Vec<_> = behind.collect();
    assert!(*behind[1] >= *behind[0] + ms(480), "{arrivals:?}");
    assert!(*behind[2] >= *behind[1] + ms(480), "{arrivals:?}");
    // One who left may have had its slot already.
    let of_those_before = backend.targets();
    let of_those_before = of_those_before.iter().filter(|it| it.contains("before"));
    assert!(of_those_before.count() <= 3);
}

#[tokio::test]
async fn when_all_have_left_all_is_as_if_nobody_had_come() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let weirs = instances(&redis.store(), "rate = \"1r/s\"\nburst = 40", &backend, 2).await;
    assert_eq!(weirs[0].get("/first").await.status, 200);
    let passed = Instant::now();
    for round in 0..10 {
        let all = come(&weirs[round % 2], 20, "left").await;
        tokio::time::sleep(ms(30)).await;
        all.into_iter().for_each(Client::reset);
    }
    have_waiting(&weirs, 0).await;
    // Within a slot of the last who was served, one more passes at once.
    let last = Instant::now();
    let passed_before = backend.seen().len();
    until("a free slot", async || {
        let answer = weirs[1].get("/after").await;
        assert_eq!(answer.status, 200);
        Ok(())
    })
    .await;
    assert!(last.elapsed() < ms(1_300), "{:?}", last.elapsed());
    let slots = usize::try_from(passed.elapsed().as_secs()).expect("few");
    assert!(passed_before <= slots + 2, "{passed_before} of {slots}");
    until("no line", async || {
        let lines = redis.keys().await;
        let lines: Vec<_> = lines
            .into_iter()
            .filter(|key| key.ends_with(":line"))
            .collect();
        lines
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{lines:?}"))
    })
    .await;
    for weir in &weirs {
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
        let waiting = weir.metric("weir_waiting{limit=\"main\"}").await;
        assert!(waiting.abs() < 1e-9, "{waiting}");
    }
}

#[tokio::test]
async fn the_patient_are_all_served_though_the_others_leave() {
    calmly("75 patient ones a second", async || {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let limit = "rate = \"100r/s\"\nburst = 50";
        let weirs = instances(&redis.store(), limit, &backend, 2).await;
        // 150 a second; the patient half, 75 a second, can all be served.
        let crowds: Vec<_> = crowds(&weirs, 75.0)
            .into_iter()
            .map(|crowd| crowd.half_leaves(ms(100)))
            .collect();
        let visits = visits(&crowds, ms(3_000)).await;
        let patient: Vec<_> = visits.iter().filter(|visit| !visit.hasty).collect();
        let served = patient.iter().filter(|visit| visit.status() == 200).count();
        assert_eq!(served, patient.len());
        let most = Departures::to(&backend).most_in(ms(1_000));
        (most <= 102)
            .then_some(())
            .ok_or_else(|| format!("{most} in a second"))
    })
    .await;
}
