//! What if a request falls under several limits?

use super::*;

#[tokio::test(start_paused = true)]
async fn what_one_limit_refuses_the_others_get_back() {
    let stage = Stage::new(None, 100);
    let quota = stage.limit("quota", "1r/m", 9, 9, None);
    let line = stage.limit("line", "1r/s", 1, 0, None);
    let claims = [claim(&quota, "a"), claim(&line, "a")];
    let ends = burst(&stage, &claims, 5).await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 2);
    let left = quota.remaining(key("a"), 1, None);
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
    last.purge(None, Reason::Purged);
    tokio::task::yield_now().await;
    assert_eq!(quota.remaining(key("a"), 1, None).admits, 9);
    assert_eq!(first.remaining(key("a"), 1, None).admits, 5);
    assert_eq!(last.remaining(key("a"), 1, None).admits, 20);
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
async fn whoever_would_wait_too_long_in_the_next_line_is_ended_in_its_place() {
    let stage = Stage::new(None, 100);
    let first = stage.limit("first", "5r/s", 20, 0, None);
    let second = stage.limit("second", "2r/s", 20, 0, None);
    let others = bursting(&stage, &[claim(&second, "a")], 7);
    sleep(millis(5)).await;
    let claims = [claim(&first, "a"), claim(&second, "a")];
    let begun = Instant::now();
    let ended = stage.pass(&claims, Some(millis(1_000))).await.map(|_| ());
    assert_eq!(ended, Err("evicted: max_wait".to_owned()));
    assert!(begun.elapsed() < millis(1_100), "{:?}", begun.elapsed());
    others.await.expect("no panic");
    assert_eq!(
        first.remaining(key("a"), 1, None).admits,
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
