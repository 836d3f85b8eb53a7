//! Who of a burst passes, who waits, who is refused?

use std::time::Duration;

use crate::limit::{Policy, Rule};
use crate::line::{Bucket, Crowded, Pace, Verdict};
use crate::units::{Moment, whole_seconds};
use crate::window::{self, Tally, Window};

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on at once.
    Passes,
    /// It goes on after this long.
    Waits(Duration),
    /// It is refused.
    Refused {
        /// Why, as metrics have it.
        reason: &'static str,
        /// The seconds after which it would be admitted.
        retry_after: u64,
    },
}

/// When the burst comes: late enough for any credit to reach back from.
const NOW: Moment = Moment::from_micros(100 * 366 * 86_400 * 1_000_000);

/// What becomes of `count` requests with one key and the usual cost that find the
/// limit idle.
///
/// Each algorithm plays the burst by its own arithmetic.
pub(super) fn fates(policy: &Policy, count: u64) -> Vec<Fate> {
    let cost = policy.cost.usual();
    match &policy.rule {
        Rule::Pace(pace) => line(pace, cost, policy.max_wait, count),
        Rule::Window(span) => window(span, cost, count),
    }
}

/// What becomes of them in a window. They find a fixed one as it begins, so that the
/// time to come back is the longest there is.
fn window(window: &Window, cost: u32, count: u64) -> Vec<Fate> {
    let [now, offset, span] = [
        NOW.as_micros().into(),
        window.offset().as_micros(),
        window.span().as_micros(),
    ];
    let into = now.saturating_sub(offset).checked_rem(span).unwrap_or(0);
    let now = Moment::from_micros(u64::try_from(now.saturating_sub(into)).unwrap_or(u64::MAX));
    let mut tally: Tally<()> = Tally::new(window);
    let mut fate = |_request| match tally.ask(window, now, cost) {
        window::Verdict::Passed(_) => Fate::Passes,
        window::Verdict::Refused(free) => Fate::Refused {
            reason: "quota",
            retry_after: whole_seconds(free),
        },
    };
    (0..count).map(&mut fate).collect()
}

/// What becomes of them in a bucket, which drains while nobody else comes.
fn line(pace: &Pace, cost: u32, max_wait: Option<Duration>, count: u64) -> Vec<Fate> {
    let mut bucket: Bucket<usize> = Bucket::new(pace, NOW);
    let mut fates = Vec::new();
    for request in (0_usize..).zip(0..count) {
        fates.push(match bucket.verdict(pace, cost, NOW, max_wait) {
            Verdict::Refused(crowded) => refused(crowded),
            Verdict::Admitted(_) if bucket.goes_at_once(pace, cost, NOW) => {
                bucket.take(pace, cost, NOW);
                Fate::Passes
            }
            Verdict::Admitted(wait) => {
                bucket.join(cost, NOW, request.0);
                Fate::Waits(wait)
            }
        });
    }
    while let Some(due) = bucket.due(pace)
        && let Some(turn) = bucket.promise(pace, due)
    {
        bucket.claim(turn.loan);
        bucket.settle(pace, turn.loan, due);
        if let Some(fate) = fates.get_mut(turn.waiter) {
            *fate = Fate::Waits(due.since(NOW));
        }
    }
    fates
}

fn refused(crowded: Crowded) -> Fate {
    let (reason, free) = match crowded {
        Crowded::Full(free) => ("full", free),
        Crowded::MaxWait(free) => ("max_wait", free),
    };
    Fate::Refused {
        reason,
        retry_after: whole_seconds(free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Kind;

    fn play(rate: &str, burst: u32, delay: u32, max_wait: Option<u64>, count: u64) -> Vec<String> {
        let pace = Pace::new(rate.parse().expect("a rate"), burst, delay).expect("a pace");
        let fates = line(&pace, 1, max_wait.map(Duration::from_millis), count);
        let text = |fate: &Fate| match fate {
            Fate::Passes => "passes".to_owned(),
            Fate::Waits(wait) => format!("{}ms", wait.as_millis()),
            Fate::Refused {
                reason,
                retry_after,
            } => format!("{reason} {retry_after}"),
        };
        fates.iter().map(text).collect()
    }

    #[test]
    fn a_burst_sees_what_the_reference_says() {
        assert_eq!(
            play("5r/m", 5, 0, None, 7),
            [
                "passes", "12000ms", "24000ms", "36000ms", "48000ms", "60000ms", "full 12"
            ]
        );
        assert_eq!(
            play("10r/s", 3, 1, None, 6),
            ["passes", "passes", "100ms", "200ms", "full 1", "full 1"]
        );
        assert_eq!(
            play("5r/m", 2, 2, None, 5),
            ["passes", "passes", "passes", "full 12", "full 12"]
        );
        assert_eq!(
            play("10r/s", 5, 0, Some(250), 5),
            ["passes", "100ms", "200ms", "max_wait 1", "max_wait 1"]
        );
        assert_eq!(play("1r/d", 0, 0, None, 2), ["passes", "full 86400"]);
    }

    #[test]
    fn a_window_lets_its_limit_pass_and_says_when_it_has_room() {
        for (kind, back) in [(Kind::Fixed, 60), (Kind::Log, 60), (Kind::Counter, 72)] {
            let (span, offset) = (Duration::from_mins(1), Duration::from_secs(7));
            let fates = window(&Window::new(kind, 5, span, offset), 1, 7);
            assert_eq!(fates[..5], [Fate::Passes; 5], "{kind:?}");
            let refused = Fate::Refused {
                reason: "quota",
                retry_after: back,
            };
            assert_eq!(fates[5..], [refused; 2], "{kind:?}");
        }
    }

    #[test]
    fn a_slow_limit_that_stood_idle_for_years_has_its_credit() {
        let fates = play("1r/d", 3_000, 3_000, None, 3_002);
        assert!(fates.iter().take(3_001).all(|fate| fate == "passes"));
        assert_eq!(fates.last().map(String::as_str), Some("full 86400"));
    }
}
