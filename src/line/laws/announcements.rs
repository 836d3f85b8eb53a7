//! Does what a request is told come true?

use std::time::Duration;

use proptest::prelude::*;

use super::cases;
use super::events::{Mood, Policy, Step, Waker, beginnings, costs, lines, policies, spans, steps};
use super::history::Scene;
use super::model::TOLERANCE;
use crate::line::{Crowded, Verdict};
use crate::units::Moment;

const PLAIN: Mood = Mood {
    max_wait: false,
    hold: false,
};
const HURRIED: Mood = Mood {
    max_wait: true,
    hold: false,
};
const HELD: Mood = Mood {
    max_wait: true,
    hold: true,
};

/// Slots taken as they come leave nothing to chance. After a hold the first one
/// may be up to [`TOLERANCE`] old, and still keep the grid.
const EXACT: Duration = Duration::ZERO;

fn scene(policy: Policy, began: Moment, steps: &[Step]) -> Scene {
    Scene::new(policy, began).live(steps)
}

/// Every reply was what the definitions say.
fn is_told_the_truth(scene: &Scene) -> Result<(), TestCaseError> {
    for reply in &scene.replies {
        prop_assert_eq!(reply.bucket, reply.model);
    }
    Ok(())
}

/// A newcomer goes when it was told that it would, to the microsecond; earlier
/// by no more than `slack` and the hair that a limit without places allows.
fn goes_when_announced(mut scene: Scene, cost: u32, slack: Duration) -> Result<(), TestCaseError> {
    scene.unblock();
    let Policy { pace, limit } = scene.policy;
    let cost = scene.policy.cost(cost);
    if let Verdict::Admitted(wait) = scene.bucket.verdict(&pace, cost, scene.now, None) {
        let turn = scene.now.after(wait);
        let who = scene
            .arrive(cost, None, true, false)
            .expect("it was admitted");
        scene.pass_until(turn, Waker::OnTime, false);
        let early = limit.ticks(turn.since(scene.went(who).expect("its turn has come")));
        let hair = (!limit.has_line()).then(|| limit.patience());
        let most = limit.ticks(slack) + hair.unwrap_or(0) + limit.requests;
        prop_assert!(early <= most, "told {wait:?}, went {early} ticks early");
    }
    Ok(())
}

/// Coming back after the time announced succeeds; a microsecond and `slack`
/// earlier it fails.
fn is_admitted_on_return(
    mut scene: Scene,
    cost: u32,
    max_wait: Option<Duration>,
    slack: Duration,
) -> Result<(), TestCaseError> {
    scene.unblock();
    let (pace, cost) = (scene.policy.pace, scene.policy.cost(cost));
    let mut verdict = scene.bucket.verdict(&pace, cost, scene.now, max_wait);
    // With less patience it would never be its turn.
    let credit = i128::from(cost) - 1 - scene.policy.limit.delay;
    let least = credit.max(0) * scene.policy.limit.micros;
    prop_assume!(max_wait.is_none_or(|most| scene.policy.limit.ticks(most) >= least));
    for _ in 0..=pace.burst() {
        if matches!(verdict, Verdict::Admitted(_)) {
            scene.arrive(cost, None, true, true);
            verdict = scene.bucket.verdict(&pace, cost, scene.now, max_wait);
        }
    }
    if let Verdict::Refused(Crowded::Full(free) | Crowded::MaxWait(free)) = verdict {
        let told = scene.now.after(free);
        if let Some(before) = free.checked_sub(slack + Duration::from_micros(1)) {
            scene.pass_until(scene.now.after(before), Waker::OnTime, false);
            let early = scene.bucket.verdict(&pace, cost, scene.now, max_wait);
            let refused = matches!(early, Verdict::Refused(_));
            prop_assert!(refused, "told {free:?}, after {before:?} {early:?}");
        }
        scene.pass_until(told, Waker::OnTime, false);
        let again = scene.bucket.verdict(&pace, cost, scene.now, max_wait);
        let admitted = matches!(again, Verdict::Admitted(_));
        prop_assert!(admitted, "told {free:?}, then {again:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_request_is_told_what_the_definitions_say(
        policy in policies(), began in beginnings(), steps in steps(PLAIN),
    ) {
        is_told_the_truth(&scene(policy, began, &steps))?;
    }

    #[test]
    fn a_hurried_request_is_told_what_the_definitions_say(
        policy in policies(), began in beginnings(), steps in steps(HURRIED),
    ) {
        is_told_the_truth(&scene(policy, began, &steps))?;
    }

    #[test]
    fn a_held_request_is_told_what_the_definitions_say(
        policy in lines(), began in beginnings(), steps in steps(HELD),
    ) {
        is_told_the_truth(&scene(policy, began, &steps))?;
    }

    #[test]
    fn a_request_goes_when_it_was_told(
        policy in policies(), began in beginnings(), steps in steps(HURRIED), cost in costs(),
    ) {
        goes_when_announced(scene(policy, began, &steps), cost, EXACT)?;
    }

    #[test]
    fn a_held_request_goes_when_it_was_told(
        policy in lines(), began in beginnings(), steps in steps(HELD), cost in costs(),
    ) {
        goes_when_announced(scene(policy, began, &steps), cost, TOLERANCE)?;
    }

    #[test]
    fn who_returns_when_told_to_is_admitted_and_not_before(
        policy in policies(), began in beginnings(), steps in steps(HURRIED), cost in costs(),
    ) {
        is_admitted_on_return(scene(policy, began, &steps), cost, None, EXACT)?;
    }

    #[test]
    fn the_hurried_who_return_when_told_to_are_admitted_and_not_before(
        policy in policies(), began in beginnings(), steps in steps(HURRIED), patience in spans(), cost in costs(),
    ) {
        let max_wait = Some(patience.of(policy.limit));
        is_admitted_on_return(scene(policy, began, &steps), cost, max_wait, EXACT)?;
    }

    #[test]
    fn who_returns_to_a_held_line_when_told_to_is_admitted_and_not_before(
        policy in lines(), began in beginnings(), steps in steps(HELD), cost in costs(),
    ) {
        is_admitted_on_return(scene(policy, began, &steps), cost, None, TOLERANCE)?;
    }
}
