//! Which laws hold in every history?

use std::time::Duration;

use proptest::prelude::*;

use super::cases;
use super::events::{Mood, beginnings, policies, spans, steps};
use super::history::Scene;
use super::model::{Fate, TOLERANCE};
use crate::line::Bucket;

const ANYTHING: Mood = Mood {
    max_wait: true,
    hold: true,
};

/// How much sooner than its slot one may go, and how much later than its slot
/// another may have gone: a window is longer by both.
fn leeway(scene: &Scene) -> i128 {
    let limit = scene.policy.limit;
    if limit.has_line() {
        limit.tolerance() + limit.requests
    } else {
        limit.patience()
    }
}

/// A bucket to which only those came who were served, when they were.
fn twin(scene: &Scene) -> Bucket<usize> {
    let pace = scene.policy.pace;
    let mut twin = Bucket::new(&pace, scene.began);
    for exit in scene.model.gone() {
        let cost = u32::try_from(exit.cost).expect("few");
        let ticket = exit.waited.then(|| {
            twin.hold(exit.from);
            twin.join(cost, exit.from, exit.who)
        });
        if let Some(promise) = ticket.and_then(|_| twin.promise(&pace, exit.at)) {
            twin.settle(&pace, promise.loan, exit.at);
        } else {
            let _: Option<bool> = ticket.map(|ticket| twin.leave(ticket, exit.at));
            twin.take(&pace, cost, exit.at);
        }
    }
    twin.hold(scene.model.held_until());
    twin
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_window_sees_more_than_the_rate_and_the_delay(
        policy in policies(), began in beginnings(), steps in steps(ANYTHING),
    ) {
        let scene = Scene::new(policy, began).live(&steps);
        let limit = policy.limit;
        let gone: Vec<_> = scene.model.gone().collect();
        for (first, from) in gone.iter().enumerate() {
            // The first one's slots may all have come before.
            let mut slots = 0;
            for to in gone.iter().skip(first + 1) {
                slots += to.cost;
                let window = limit.ticks(to.at.since(from.at)) + leeway(&scene);
                let steady = (slots - limit.delay) * limit.micros;
                prop_assert!(steady <= window, "{slots} slots went from {from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn nobody_overtakes_one_who_could_go(
        policy in policies(), began in beginnings(), steps in steps(ANYTHING),
    ) {
        let scene = Scene::new(policy, began).live(&steps);
        for turn in &scene.turns {
            let first = turn.looking_on.iter().all(|other| turn.who < *other);
            prop_assert!(first, "{turn:?}");
        }
    }

    #[test]
    fn no_slot_goes_by_while_someone_can_go(
        policy in policies(), began in beginnings(), steps in steps(ANYTHING),
    ) {
        let scene = Scene::new(policy, began).live(&steps);
        for (step, due) in scene.dues.iter().enumerate() {
            prop_assert_eq!(due.bucket, due.model, "after step {}", step);
        }
        for promise in &scene.promises {
            prop_assert_eq!(promise.bucket, promise.model);
        }
        for (due, timer) in &scene.alarms {
            let set = due.is_none_or(|due| timer.is_some_and(|timer| timer <= due));
            prop_assert!(set, "due {due:?}, timer {timer:?}");
        }
    }

    #[test]
    fn nothing_remains_of_those_who_were_not_served(
        policy in policies(), began in beginnings(), steps in steps(ANYTHING), later in spans(),
    ) {
        let mut scene = Scene::new(policy, began).live(&steps);
        scene.empty();
        prop_assert!(scene.model.gone().all(|exit| exit.fate == Fate::Served));
        prop_assert_eq!((scene.bucket.waiting(), scene.bucket.oldest()), (0, None));
        prop_assert_eq!(scene.bucket.due(&scene.policy.pace), None);
        let (pace, bucket, twin) = (policy.pace, &scene.bucket, twin(&scene));
        let idle_in = |bucket: &Bucket<usize>| bucket.remaining(&pace, 1, scene.now, None).idle_in;
        let (idle, twins) = (idle_in(bucket), idle_in(&twin));
        let close = idle.abs_diff(twins) <= TOLERANCE;
        prop_assert!(close, "idle in {idle:?}, its twin in {twins:?}");
        if scene.model.is_without_trace() {
            let mut now = scene.now;
            for _ in 0..4 {
                prop_assert_eq!(bucket.verdict(&pace, 1, now, None), twin.verdict(&pace, 1, now, None));
                prop_assert_eq!(bucket.remaining(&pace, 1, now, None), twin.remaining(&pace, 1, now, None));
                prop_assert_eq!(bucket.is_idle(&pace, now), twin.is_idle(&pace, now));
                prop_assert_eq!(bucket.goes_at_once(&pace, 1, now), twin.goes_at_once(&pace, 1, now));
                now = now.after(later.of(policy.limit));
            }
        }
        prop_assert!(bucket.is_idle(&pace, scene.now.after(idle)));
        let early = idle.saturating_sub(Duration::from_micros(1));
        prop_assert!(idle.is_zero() || !bucket.is_idle(&pace, scene.now.after(early)));
    }
}
