//! What was measured?

use std::time::Duration;

use super::act::{Limit, Promise};
use super::scene::{Scene, clusters};

/// Says what an act came to, in measured numbers.
pub(super) fn sentence(scene: &Scene, promise: Promise, limit: Limit) -> String {
    let arrived = scene.arrived();
    match promise {
        Promise::Nothing => {
            let spread = spread(&arrived);
            let (count, spread) = (arrived.len(), spread.as_secs_f64() * 1e3);
            format!("{count} requests hit the backend within {spread:.1} ms")
        }
        Promise::Even => format!("{}; {}", evenness(&arrived), refusals(scene)),
        Promise::AtOnce => {
            let mut bursts = Vec::new();
            let mut before = None;
            for burst in clusters(&arrived, limit.interval() / 2) {
                let count = burst.count;
                bursts.push(before.map_or_else(
                    || format!("{count} at once"),
                    |before| {
                        let later = burst.first.saturating_sub(before).as_secs_f64();
                        format!("{later:.2} s later {count} more")
                    },
                ));
                before = Some(burst.last);
            }
            format!("{}; {}", bursts.join(", "), refusals(scene))
        }
    }
}

fn spread(times: &[Duration]) -> Duration {
    let ends = times.first().zip(times.last());
    ends.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(*first))
}

/// The mean gap, and how far the worst one is from it.
fn evenness(times: &[Duration]) -> String {
    let Some(gaps) = times.len().checked_sub(1).filter(|gaps| *gaps > 0) else {
        return "no gaps".to_owned();
    };
    let mean = spread(times) / u32::try_from(gaps).unwrap_or(u32::MAX);
    let between = times.iter().zip(times.iter().skip(1));
    let worst = between.map(|(before, after)| after.saturating_sub(*before).abs_diff(mean));
    let worst = worst.max().unwrap_or_default().as_secs_f64() * 1e3;
    let mean = mean.as_secs_f64() * 1e3;
    format!("{gaps} gaps: {mean:.1} ms \u{b1} {worst:.1} ms")
}

fn refusals(scene: &Scene) -> String {
    let told = scene.told();
    match told.first() {
        None => "nobody refused".to_owned(),
        Some(None) => format!("{} refused", told.len()),
        Some(Some(seconds)) => {
            let count = told.len();
            format!("{count} refused, first told to come back in {seconds} s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::scene::Step;

    const LIMIT: Limit = Limit { rate: 5, burst: 2 };

    /// What is measured where requests arrive at these milliseconds and one is refused.
    fn said(promise: Promise, arrived: &[u64]) -> String {
        let mut scene = Scene::default();
        for at in arrived {
            scene.note(Duration::from_millis(*at), Step::Arrived);
        }
        scene.note(Duration::from_millis(1), Step::Refused(Some(1)));
        sentence(&scene, promise, LIMIT)
    }

    #[test]
    fn a_crowd_is_measured_by_its_spread() {
        let said = said(Promise::Nothing, &[1, 2, 4]);
        assert_eq!(said, "3 requests hit the backend within 3.0 ms");
    }

    #[test]
    fn a_stream_is_measured_by_its_gaps() {
        assert_eq!(
            said(Promise::Even, &[1, 201, 403]),
            "2 gaps: 201.0 ms ± 1.0 ms; 1 refused, first told to come back in 1 s"
        );
        assert_eq!(
            said(Promise::Even, &[1]),
            "no gaps; 1 refused, first told to come back in 1 s"
        );
    }

    #[test]
    fn bursts_are_measured_by_what_comes_together() {
        assert_eq!(
            said(Promise::AtOnce, &[1, 1, 2, 502, 503]),
            "3 at once, 0.50 s later 2 more; 1 refused, first told to come back in 1 s"
        );
    }
}
