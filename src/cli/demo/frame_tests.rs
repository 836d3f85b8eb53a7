//! Does a picture show what happened?

use std::time::Duration;

use super::act::Limit;
use super::frame::{Lane, Scale, frame};
use super::scene::{Scene, Step};

const LIMIT: Limit = Limit { rate: 5, burst: 4 };
const ALL: [Lane; 5] = [
    Lane::Sent,
    Lane::Refused,
    Lane::Waiting,
    Lane::Backend,
    Lane::Time,
];

/// Seven come at once: one passes, four wait, two are refused.
fn drawn(width: usize, until: u64) -> String {
    let now = Duration::from_millis(until);
    let mut scene = Scene::default();
    let mut note = |at: u64, step| {
        if at <= until {
            scene.note(Duration::from_millis(at), step);
        }
    };
    for client in 0..7 {
        note(client / 4, Step::Sent);
    }
    for slot in 0..5 {
        note(200 * slot + 2, Step::Arrived);
    }
    for client in 5..7 {
        note(client, Step::Refused(Some(1)));
    }
    let scale = Scale::fitting(width, LIMIT);
    let lasts = LIMIT.interval() * LIMIT.burst;
    let rows = frame(&scene, &ALL, scale, lasts, now);
    let rows = rows.iter().map(|row| row.text(width, false) + "\n");
    std::iter::once("\n".to_owned()).chain(rows).collect()
}

#[test]
fn a_burst_comes_in_and_an_even_stream_goes_out() {
    assert_eq!(
        drawn(32, 900),
        "
  sent       7  █ 7
  refused    2  █ 2
  waiting    0  ███▂▂▂
                ██████▄▄▄
                █████████▆▆▆
  backend    5  ●  ●  ●  ●  ●
                0 s──────────
"
    );
}

#[test]
fn what_has_not_happened_yet_is_not_drawn() {
    assert_eq!(
        drawn(32, 450),
        "
  sent       7  █ 7
  refused    2  █ 2
  waiting    2  ███▂▂▂
                ██████▄▄
                ████████
  backend    3  ●  ●  ●
                0 s─────
"
    );
}

#[test]
fn a_narrow_terminal_gets_a_column_for_each_slot() {
    assert_eq!(
        drawn(21, 900),
        "
  sent       7  █ 7
  refused    2  █ 2
  waiting    0  █▂
                ██▄
                ███▆
  backend    5  ●●●●●
                0 s──
"
    );
}
