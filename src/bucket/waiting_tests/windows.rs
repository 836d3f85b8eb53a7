//! Do windows let pass what they may, and get back what was not used?

use super::*;
use crate::window::{Kind, Window};

const KINDS: [Kind; 3] = [Kind::Fixed, Kind::Log, Kind::Counter];

fn window(stage: &Stage, name: &str, kind: Kind, limit: u32) -> Arc<Limiter> {
    let day = Duration::from_hours(24);
    let window = Window::new(kind, limit, day, Duration::ZERO);
    stage.limit_of(None, name, Rule::Window(window), None)
}

fn left(limit: &Arc<Limiter>) -> u64 {
    limit.remaining(key("a"), 1, None).admits
}

#[tokio::test(start_paused = true)]
async fn of_ten_at_once_five_pass() {
    for kind in KINDS {
        let stage = Stage::new(None, 100);
        let limit = window(&stage, "w", kind, 5);
        let ends = burst(&stage, &[claim(&limit, "a")], 10).await;
        let refused = ends.iter().filter(|end| **end == Err("quota".to_owned()));
        assert_eq!(refused.count(), 5, "{kind:?}: {ends:?}");
        assert!(burst(&stage, &[claim(&limit, "b")], 1).await[0].is_ok());
        assert_eq!(limit.observe().buckets, 2);
        assert!(stage.shows("weir_slots_total{limit=\"w\",fate=\"used\"} 6"));
        assert!(stage.shows("weir_fullness_ratio{limit=\"w\"} 1"));
        assert!(stage.shows("weir_burst{limit=\"w\"} 4"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_later_limit_refuses_a_window_gets_back() {
    for kind in KINDS {
        let stage = Stage::new(None, 100);
        let first = window(&stage, "first", kind, 5);
        let second = window(&stage, "second", kind, 2);
        let claims = [claim(&first, "a"), claim(&second, "a")];
        let ends = burst(&stage, &claims, 9).await;
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 2, "{kind:?}");
        assert_eq!((left(&first), left(&second)), (3, 0), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_a_later_line_gives_back_what_it_took() {
    for kind in KINDS {
        let stage = Stage::new(None, 100);
        let first = window(&stage, "first", kind, 5);
        let line = stage.limit("line", "1r/m", 5, 0, None);
        let claims = [claim(&first, "a"), claim(&line, "a")];
        assert!(stage.pass(&claims, None).await.is_ok());
        let waiting = bursting(&stage, &claims, 3);
        sleep(millis(10)).await;
        assert_eq!(left(&first), 1, "{kind:?}");
        let leaves = Places::enter(&claims, &stage.gate, None, &stage.timer).expect("a place");
        assert_eq!(left(&first), 0, "{kind:?}");
        drop(leaves);
        assert_eq!(left(&first), 1, "{kind:?}");
        all_served(waiting).await;
        assert_eq!(left(&first), 1, "{kind:?}: those who went have paid");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_and_refuses_nobody() {
    let stage = Stage::new(None, 100);
    let limit = window(&stage, "w", Kind::Log, 2);
    limit.change(Policy {
        dry_run: true,
        ..Policy::clone(&limit.policy())
    });
    let ends = burst(&stage, &[claim(&limit, "a")], 5).await;
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
    assert!(stage.shows("weir_would_refuse_total{limit=\"w\",reason=\"quota\"} 3"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_window_lets_nobody_pass_and_counts_nobody() {
    let stage = Stage::new(None, 100);
    let limit = window(&stage, "w", Kind::Counter, 2);
    limit.pause_for(None, millis(500)).expect("room");
    let ends = burst(&stage, &[claim(&limit, "a")], 2).await;
    assert_eq!(ends, [Err("paused".to_owned()), Err("paused".to_owned())]);
    assert_eq!(limit.remaining(key("a"), 1, None).free_in, millis(500));
    sleep(millis(500)).await;
    assert_eq!(left(&limit), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_table_forgets_no_window_that_has_counted() {
    let stage = Stage::new(None, 100);
    let limit = window(&stage, "w", Kind::Log, 1);
    for number in 0..1_000 {
        let claims = [claim(&limit, &number.to_string())];
        assert!(stage.pass(&claims, None).await.is_ok());
    }
    let refused = stage.pass(&[claim(&limit, "one more")], None).await;
    assert_eq!(refused.map(|_| ()), Err("keys".to_owned()));
    sleep(Duration::from_hours(24)).await;
    assert!(stage.pass(&[claim(&limit, "one more")], None).await.is_ok());
    (0..16).for_each(|part| limit.sweep(part, 16));
    assert_eq!(limit.observe().buckets, 1, "the others are forgotten");
}

#[tokio::test(start_paused = true)]
async fn another_limit_holds_at_once_for_what_was_counted() {
    let stage = Stage::new(None, 100);
    let limit = window(&stage, "w", Kind::Log, 2);
    let claims = [claim(&limit, "a")];
    assert_eq!(
        burst(&stage, &claims, 3)
            .await
            .iter()
            .filter(|end| end.is_ok())
            .count(),
        2
    );
    let more = Window::new(Kind::Log, 5, Duration::from_hours(24), Duration::ZERO);
    limit.change(Policy {
        rule: Rule::Window(more),
        ..Policy::clone(&limit.policy())
    });
    assert_eq!(
        burst(&stage, &claims, 9)
            .await
            .iter()
            .filter(|end| end.is_ok())
            .count(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn the_fullest_keys_come_first() {
    let stage = Stage::new(None, 100);
    let limit = window(&stage, "w", Kind::Counter, 5);
    for (text, count) in [("a", 1), ("b", 5), ("c", 3)] {
        burst(&stage, &[claim(&limit, text)], count).await;
    }
    let (deepest, total) = limit.deepest(2);
    let ids: Vec<_> = deepest.iter().map(|bucket| bucket.id).collect();
    assert_eq!((ids, total), (vec![key("b"), key("c")], 3));
    assert!(deepest[0].next_slot > Duration::ZERO);
    assert_eq!(limit.view(key("nobody")), None);
}
