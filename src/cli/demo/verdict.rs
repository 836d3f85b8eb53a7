//! Is what was measured what was promised?

use std::time::Duration;

use super::act::{Limit, Promise};
use super::scene::{Scene, clusters};

/// How long a drain may take beyond its time: a busy machine misses slots, and a
/// missed slot is not made up for.
const STALL: Duration = Duration::from_secs(1);

/// Says where an act contradicts its promise: nothing where it doesn't.
pub(super) fn broken(scene: &Scene, promise: Promise, limit: Limit) -> Vec<String> {
    let delay = match promise {
        Promise::Nothing => return Vec::new(),
        Promise::Even => 0,
        Promise::AtOnce => limit.burst,
    };
    let (sent, arrived) = (scene.sent(), scene.arrived());
    let mut broken = Vec::new();
    if let Some((count, took)) = crowded(&arrived, delay, limit) {
        let took = took.as_secs_f64();
        broken.push(format!("{count} came within {took:.3} s"));
    }
    let (count, due) = (arrived.len(), due(&sent, limit));
    if count < due {
        broken.push(format!("{count} came, {due} could have"));
    }
    let behind = u32::try_from(count).unwrap_or(u32::MAX).saturating_sub(1);
    let behind = limit.interval() * behind.saturating_sub(delay).min(limit.burst - delay);
    let by = sent.last().copied().unwrap_or_default() + behind;
    if let Some(last) = arrived.last().filter(|last| **last > by + STALL) {
        let (last, by) = (last.as_secs_f64(), by.as_secs_f64());
        broken.push(format!("the last came after {last:.1} s, not {by:.1} s"));
    }
    let told = scene.told();
    if count + told.len() != sent.len() {
        let (sent, refused) = (sent.len(), told.len());
        broken.push(format!("{count} came and {refused} were refused of {sent}"));
    }
    if told.iter().any(|told| told.is_none_or(|told| told == 0)) {
        broken.push("not all who were refused know when to come back".to_owned());
    }
    broken
}

/// How many came in too short a time, and the time: more than `delay` and one
/// for each interval.
fn crowded(arrived: &[Duration], delay: u32, limit: Limit) -> Option<(usize, Duration)> {
    let interval = limit.interval();
    // What the way to the backend may add to one request and not to another.
    let slack = interval / 2;
    for (index, from) in arrived.iter().enumerate() {
        for (behind, to) in (0_u32..).zip(arrived.iter().skip(index)) {
            let took = to.saturating_sub(*from);
            if interval * behind.saturating_sub(delay) > took + slack {
                return Some((behind as usize + 1, took));
            }
        }
    }
    None
}

/// How many have to get through at least: all that the line has room for, and
/// of each burst after the first as many as had become free since, but for one:
/// on its way to weir one burst may be slower than another.
fn due(sent: &[Duration], limit: Limit) -> usize {
    let room = limit.burst.saturating_add(1) as usize;
    let mut due = 0_usize;
    let mut before = None;
    for burst in clusters(sent, limit.interval() / 2) {
        let free = before.map_or(room, |before| {
            let since = burst.first.saturating_sub(before).as_nanos();
            let free = since / limit.interval().as_nanos().max(1);
            usize::try_from(free.saturating_sub(1)).unwrap_or(usize::MAX)
        });
        due = due.saturating_add(burst.count.min(free).min(room));
        before = Some(burst.last);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::scene::Step;

    const LIMIT: Limit = Limit { rate: 5, burst: 2 };

    /// Requests sent and arrived at these milliseconds, and one refused at once.
    fn scene(sent: &[u64], arrived: &[u64]) -> Scene {
        let mut scene = Scene::default();
        for at in sent {
            scene.note(Duration::from_millis(*at), Step::Sent);
        }
        for at in arrived {
            scene.note(Duration::from_millis(*at), Step::Arrived);
        }
        scene.note(Duration::from_millis(1), Step::Refused(Some(1)));
        scene
    }

    #[test]
    fn an_even_stream_keeps_the_promise() {
        let scene = scene(&[0; 4], &[1, 201, 403]);
        assert_eq!(broken(&scene, Promise::Even, LIMIT), [""; 0]);
    }

    #[test]
    fn a_burst_that_passes_gets_back_what_time_gives() {
        let scene = scene(&[0, 0, 0, 0, 500, 500], &[1, 1, 2, 502, 503]);
        assert_eq!(broken(&scene, Promise::AtOnce, LIMIT), [""; 0]);
    }

    #[test]
    fn too_many_too_early_break_it() {
        let scene = scene(&[0; 4], &[1, 51, 403]);
        assert_eq!(
            broken(&scene, Promise::Even, LIMIT),
            ["2 came within 0.050 s"]
        );
    }

    #[test]
    fn too_few_and_too_late_break_it() {
        let scene = scene(&[0; 4], &[1, 1_300]);
        assert_eq!(
            broken(&scene, Promise::Even, LIMIT),
            [
                "2 came, 3 could have",
                "the last came after 1.3 s, not 0.2 s",
                "2 came and 1 were refused of 4"
            ]
        );
    }

    #[test]
    fn a_refusal_without_a_time_breaks_it() {
        let mut scene = scene(&[0; 5], &[1, 201, 401]);
        scene.note(Duration::from_millis(2), Step::Refused(None));
        assert_eq!(
            broken(&scene, Promise::Even, LIMIT),
            ["not all who were refused know when to come back"]
        );
    }
}
