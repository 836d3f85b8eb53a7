//! What does a moment of an act look like?

use std::time::Duration;

use super::act::Limit;
use super::scene::{Scene, clusters};
use crate::cli::row::{Ink, Row};

/// What one lane of the picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// When clients sent.
    Sent,
    /// When clients were refused.
    Refused,
    /// How many waited, over time.
    Waiting,
    /// When the backend got requests.
    Backend,
    /// The seconds.
    Time,
}

/// Where the lanes begin: right of their names and numbers.
const MARGIN: usize = 16;

/// Rows of the lane that shows who waits.
const DEPTH: usize = 3;

const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// How much time a column is. A slot is always a whole number of columns after
/// the one before, so that an even stream looks even.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    limit: Limit,
    column: Duration,
}

impl Scale {
    /// The scale at which a drain of the whole burst fits into `width` columns, if any does.
    pub(super) fn fitting(width: usize, limit: Limit) -> Self {
        let columns = u32::try_from(width.saturating_sub(MARGIN + 3)).unwrap_or(u32::MAX);
        let columns = columns / limit.burst.max(1);
        Self {
            limit,
            column: limit.interval() / columns.clamp(1, 6),
        }
    }

    /// The column nearest to `at`.
    fn column(&self, at: Duration) -> usize {
        let column = self.column.as_nanos().max(1);
        usize::try_from((at.as_nanos() + column / 2) / column).unwrap_or(usize::MAX)
    }
}

/// Draws `lanes` of what happened until `now`, in an act that lasts `lasts`.
pub(super) fn frame(
    scene: &Scene,
    lanes: &[Lane],
    scale: Scale,
    lasts: Duration,
    now: Duration,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for lane in lanes {
        match lane {
            Lane::Sent => rows.push(marks("sent", Ink::Sent, &scene.sent(), scale)),
            Lane::Refused => rows.push(marks("refused", Ink::Refused, &scene.refused(), scale)),
            Lane::Backend => rows.push(marks("backend", Ink::Passed, &scene.arrived(), scale)),
            Lane::Waiting => rows.extend(depth(scene, scale, lasts, now)),
            Lane::Time => rows.push(seconds(scale, lasts, now)),
        }
    }
    rows
}

/// A lane's name and number.
fn named(name: &str, ink: Ink, count: usize) -> Row {
    let mut row = Row::of(Ink::Plain, &format!("  {name:<8}"));
    row.put(10, ink, &format!("{count:>4}"));
    row
}

/// A dot for each that came alone, a block and a number for those that came together.
fn marks(name: &str, ink: Ink, times: &[Duration], scale: Scale) -> Row {
    let mut row = named(name, ink, times.len());
    for cluster in clusters(times, scale.limit.interval() / 4) {
        let column = MARGIN.saturating_add(scale.column(cluster.first));
        match cluster.count {
            1 => row.put(column, ink, "●"),
            many => row.put(column, ink, &format!("█ {many}")),
        }
    }
    row
}

/// How many wait, as water that sinks: full where the line is.
fn depth(scene: &Scene, scale: Scale, lasts: Duration, now: Duration) -> Vec<Row> {
    let full = usize::try_from(scale.limit.burst.max(1)).unwrap_or(usize::MAX);
    let mut rows = vec![named("waiting", Ink::Waiting, scene.waiting(now))];
    rows.resize(DEPTH, Row::default());
    for column in 0..=scale.column(now.min(lasts)) {
        let edge = u32::try_from(column).unwrap_or(u32::MAX);
        let edge = scale.column.saturating_mul(edge) + scale.column / 2;
        let waiting = scene.waiting(edge.min(now)).min(full);
        let level = (waiting * DEPTH * 8).div_ceil(full);
        for (row, below) in rows.iter_mut().zip((0..DEPTH).rev()) {
            let eighths = level.saturating_sub(below * 8).min(8);
            let glyph = EIGHTHS.get(eighths).unwrap_or(&" ");
            row.put(MARGIN.saturating_add(column), Ink::Waiting, glyph);
        }
    }
    rows
}

/// The seconds of the act, and a line as far as time has come.
fn seconds(scale: Scale, lasts: Duration, now: Duration) -> Row {
    let mut row = Row::default();
    let come = scale.column(now.min(lasts)).saturating_add(1);
    row.put(MARGIN, Ink::Faint, &"─".repeat(come));
    for second in 0..=lasts.as_secs() {
        let column = scale.column(Duration::from_secs(second));
        row.put(
            MARGIN.saturating_add(column),
            Ink::Faint,
            &format!("{second} s"),
        );
    }
    row
}
