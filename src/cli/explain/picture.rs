//! How does what a burst sees look?

use std::time::Duration;

use super::fates::Fate;
use crate::cli::row::{Ink, Row, paragraph};
use crate::limit::{Policy, Rule};
use crate::line::Pace;
use crate::units::Human;

/// So many requests have a row each.
const ROWS: usize = 40;
/// Of more of the same, so many are drawn at the begin and at the end.
const EDGE: usize = 3;
/// Where what becomes of a request is written.
const FATE: usize = 9;
/// Where bars begin.
const BARS: usize = 18;

/// The burst as a timeline: bars are as long as waits.
pub(super) fn picture(policy: &Policy, fates: &[Fate], width: usize) -> Vec<Row> {
    let mut rows = paragraph(Ink::Title, &title(policy, fates.len()), width, 2);
    let longest = fates.iter().map(wait).max().unwrap_or(Duration::ZERO);
    let columns = width.saturating_sub(BARS + 1).max(1);
    rows.push(Row::default());
    let mut before = 0;
    for run in fates.chunk_by(alike) {
        let is_long = fates.len() > ROWS && run.len() > 2 * EDGE + 1;
        for (index, fate) in run.iter().enumerate() {
            let number = before + index + 1;
            if !is_long || index < EDGE || index + EDGE >= run.len() {
                rows.push(row(policy, number, fate, longest, columns));
            } else if index == EDGE {
                let more = format!("… and {} more like these", run.len() - 2 * EDGE);
                let mut row = Row::default();
                row.put(FATE, Ink::Faint, &more);
                rows.push(row);
            }
        }
        before += run.len();
    }
    if longest > Duration::ZERO {
        rows.push(scale(longest, columns));
    }
    rows.push(Row::default());
    rows.extend(paragraph(Ink::Plain, &summary(policy, fates), width, 2));
    rows
}

fn title(policy: &Policy, count: usize) -> String {
    let come = if count == 1 {
        "request with one key comes"
    } else {
        "requests with one key come"
    };
    let mut text = format!(
        "{count} {come} at once to `{}`: {}",
        policy.name, policy.rule
    );
    match &policy.rule {
        Rule::Pace(pace) => text.push_str(&burst(pace)),
        Rule::Window(_) => text = format!("{text}, {}", policy.rule.algorithm()),
    }
    text = format!("{text}{}", policy.cost);
    if let Some(most) = policy.max_wait {
        text = format!("{text}, max_wait {}", Human(most));
    }
    text
}

fn burst(pace: &Pace) -> String {
    let (burst, delay) = (pace.burst(), pace.delay());
    match delay {
        0 => format!(", burst {burst}"),
        _ if pace.has_line() => format!(", burst {burst}, delay {delay}"),
        _ => format!(", burst {burst} without waiting"),
    }
}

fn row(policy: &Policy, number: usize, fate: &Fate, longest: Duration, columns: usize) -> Row {
    let mut row = Row::default();
    row.put(0, Ink::Faint, &format!("{number:>7}"));
    match fate {
        Fate::Passes => {
            row.put(FATE, Ink::Passed, "at once");
            row.put(BARS, Ink::Passed, "●");
        }
        Fate::Waits(wait) => {
            row.put(FATE, Ink::Waiting, &Human(*wait).to_string());
            let end = column(*wait, longest, columns);
            row.put(BARS, Ink::Waiting, &"─".repeat(end));
            row.put(BARS + end, Ink::Passed, "●");
        }
        Fate::Refused { retry_after, .. } => {
            row.put(FATE, Ink::Refused, "refused");
            let text = format!("{}, Retry-After: {retry_after}", policy.status.as_u16());
            row.put(BARS, Ink::Refused, &text);
        }
    }
    row
}

/// The instants below the first and the last column.
fn scale(longest: Duration, columns: usize) -> Row {
    let end = Human(longest).to_string();
    let mut row = Row::default();
    row.put(BARS, Ink::Faint, "0");
    let at = (BARS + columns).saturating_sub(end.chars().count());
    row.put(at.max(BARS + 2), Ink::Faint, &end);
    row
}

/// The column of a wait, of which the longest has the last one.
fn column(wait: Duration, longest: Duration, columns: usize) -> usize {
    let last = columns.saturating_sub(1) as u128;
    let column = (wait.as_micros() * last + longest.as_micros() / 2)
        .checked_div(longest.as_micros())
        .unwrap_or(0);
    usize::try_from(column).unwrap_or(usize::MAX)
}

fn summary(policy: &Policy, fates: &[Fate]) -> String {
    let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
    let passes = count(|fate| matches!(fate, Fate::Passes));
    let waits = count(|fate| matches!(fate, Fate::Waits(_)));
    let refused = count(|fate| matches!(fate, Fate::Refused { .. }));
    let longest = fates.iter().map(wait).max().unwrap_or(Duration::ZERO);
    let mut text = format!("{passes} at once");
    if waits > 0 {
        text = format!(
            "{text}, {waits} after a wait, the last after {}",
            Human(longest)
        );
    }
    text = format!("{text}; {refused} refused.");
    if refused > 0 {
        text.push_str(
            " Whoever is refused and comes back after Retry-After is admitted, if nobody else came.",
        );
    }
    if policy.dry_run {
        text.push_str(" A dry run: in truth all pass at once, and this is only counted.");
    }
    text
}

fn wait(fate: &Fate) -> Duration {
    match fate {
        Fate::Waits(wait) => *wait,
        Fate::Passes | Fate::Refused { .. } => Duration::ZERO,
    }
}

fn alike(one: &Fate, other: &Fate) -> bool {
    match (one, other) {
        (Fate::Waits(_), Fate::Waits(_)) => true,
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::explain::fates::fates;

    fn drawn(burst: u32, delay: u32, count: u64) -> String {
        let pace = Pace::new("10r/s".parse().expect("a rate"), burst, delay).expect("a pace");
        let key = "{ip}".parse().expect("a key");
        let policy = Policy::new("api", key, Rule::Pace(pace));
        let rows = picture(&policy, &fates(&policy, count), 60);
        let rows: Vec<_> = rows.iter().map(|row| row.text(60, false)).collect();
        rows.join("\n")
    }

    #[test]
    fn bars_are_as_long_as_waits() {
        assert_eq!(
            drawn(5, 1, 7),
            "\
7 requests with one key come at once to `api`: 10r/s, burst
  5, delay 1

      1  at once  ●
      2  at once  ●
      3  100ms    ──────────●
      4  200ms    ────────────────────●
      5  300ms    ──────────────────────────────●
      6  400ms    ────────────────────────────────────────●
      7  refused  429, Retry-After: 1
                  0                                   400ms

2 at once, 4 after a wait, the last after 400ms; 1 refused.
  Whoever is refused and comes back after Retry-After is
  admitted, if nobody else came."
        );
    }

    #[test]
    fn of_many_alike_the_first_and_the_last_are_drawn() {
        let text = drawn(100, 0, 110);
        assert!(text.contains("… and 94 more like these"), "{text}");
        assert!(text.contains("\n    101  10s      ────"), "{text}");
        assert!(text.contains("\n    110  refused  429"), "{text}");
        assert!(text.contains("… and 3 more like these"), "{text}");
        assert!(text.lines().count() < 24, "{text}");
        assert!(!drawn(30, 0, 30).contains("more like these"));
    }

    #[test]
    fn a_limit_without_places_draws_no_scale() {
        let text = drawn(2, 2, 4);
        assert!(text.contains("  2 without waiting\n"), "{text}");
        assert!(text.contains("3 at once; 1 refused."), "{text}");
        assert!(!text.contains("\n                  0"), "{text}");
    }
}
