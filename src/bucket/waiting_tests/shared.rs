//! What if a call to the store has no answer?

use super::*;
use crate::bucket::ask::{Ask, Entry, Usable};
use crate::bucket::standing::Standing;
use crate::limit::OnFailure;
use crate::store::{Addresses, RedisConfig, StoreError, Topology};

/// A store that nobody connects: calls wait for it until they time out.
fn store(stage: &Stage) -> Arc<RedisStore> {
    let config = RedisConfig {
        urls: Addresses::new(vec!["redis://127.0.0.1:1".to_owned()]),
        topology: Topology::Single,
        ca: None,
        timeout: millis(50),
        on_failure: OnFailure::Local,
        prefix: "weir".to_owned(),
    };
    let (store, _news) = RedisStore::new(config, stage.clock, stage.metrics.store());
    store
}

/// The number of the call that is under way for a key.
fn under_way(limit: &Limiter, key: KeyId) -> Option<u64> {
    let calling = |number: &u64| {
        let known = limit.with_known(key, |bucket, _| bucket.is_calling(*number));
        known == Some(true)
    };
    (0..100).find(calling)
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_made_anew_where_the_store_is_back_by_then() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit_in(Some(store(&stage)), "l", "10r/s", 10, 0, None);
    let claims = [claim(&limit, "a")];
    let waits = bursting(&stage, &claims, 2);
    sleep(millis(5)).await;
    let first = under_way(&limit, key("a")).expect("a call");
    // Lost and found again before the call's end is looked at.
    limit.unanswered(&limit.policy(), key("a"), first, &StoreError::Timeout);
    sleep(millis(5)).await;
    let second = under_way(&limit, key("a")).expect("a call");
    assert!(second > first, "{first} is still waited for");
    let ends = timeout(millis(1_000), waits).await.expect("turns");
    let ends = ends.expect("no panic");
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_as_the_store_is_found_again_asks_the_store() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit_in(Some(store(&stage)), "l", "10r/s", 10, 0, None);
    let waits = bursting(&stage, &[claim(&limit, "a")], 1);
    sleep(millis(5)).await;
    // It had looked before, when the store was away.
    let policy = limit.policy();
    let ask = Ask {
        key: key("a"),
        cost: 1,
        max_wait: None,
        usable: Usable::ForGood,
        gate: None,
        knocked: false,
        timer: &stage.timer,
    };
    let entry = limit.ask_here(&policy, &policy.rule.pace(), ask, None);
    assert!(
        matches!(entry, Ok(Entry::Asked(_))),
        "a place beside the line"
    );
    let ends = waits.await.expect("no panic");
    assert!(ends[0].is_ok(), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_parts_as_the_store_is_found_again_does_not_stay_apart() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit_in(Some(store(&stage)), "l", "10r/s", 10, 0, None);
    let waits = bursting(&stage, &[claim(&limit, "a")], 2);
    sleep(millis(5)).await;
    let policy = limit.policy();
    let alone = Standing::Alone(policy.rule.pace());
    let standing = limit.keep(&policy, key("a"), alone);
    assert!(matches!(standing, Standing::Shared), "{standing:?}");
    let is_attached = limit.with_known(key("a"), |bucket, _| bucket.is_attached());
    assert_eq!(is_attached, Some(true));
    let ends = waits.await.expect("no panic");
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_go_by_themselves_when_the_store_does_not_answer() {
    let stage = Stage::new(None, 100);
    let limit = stage.limit_in(Some(store(&stage)), "l", "10r/s", 10, 0, None);
    let ends = burst(&stage, &[claim(&limit, "a")], 3).await;
    let went: Vec<_> = ends
        .iter()
        .map(|end| *end.as_ref().expect("served"))
        .collect();
    assert!(went[0] >= 50 && went[2] < 300, "{went:?}");
}
