//! How are the figures shown?

use std::io::{Result, Write};

use crate::contest::Rounds;
use crate::stats::Sorted;

/// One line: a figure with its unit, as each round gave it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    figure: String,
    rounds: Rounds,
    goal: Goal,
}

/// What weir is meant to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    None,
    /// At most so many times NGINX's.
    Ratio(f64),
    /// At most this, whatever NGINX's is.
    AtMost(f64),
}

impl Row {
    pub(crate) fn new(figure: impl Into<String>, rounds: Rounds, goal: Goal) -> Self {
        Self {
            figure: figure.into(),
            rounds,
            goal,
        }
    }
}

pub(crate) fn write_head(out: &mut impl Write) -> Result<()> {
    write_line(
        out,
        [
            "figure",
            "weir",
            "nginx",
            "ratio",
            "bare",
            "goal",
            "weir, rounds",
        ]
        .map(str::to_owned),
        "nginx, rounds",
    )?;
    writeln!(out, "{}", "-".repeat(119))
}

pub(crate) fn write_rows(out: &mut impl Write, rows: &[Row]) -> Result<()> {
    for row in rows {
        write_row(out, row)?;
    }
    writeln!(out)?;
    out.flush()
}

fn write_row(out: &mut impl Write, row: &Row) -> Result<()> {
    let weir = Sorted::new(row.rounds.weir.iter().copied());
    let nginx = Sorted::new(row.rounds.nginx.iter().copied());
    let pairs = row.rounds.weir.iter().zip(&row.rounds.nginx);
    // Of one round's two, which met the same weather, rather than of the medians. What a proxy
    // adds may seem to be less than nothing, and then has no ratio.
    let pairs = pairs.filter(|(weir, nginx)| **weir > 0.0 && **nginx > 0.0);
    let ratio = Sorted::new(pairs.map(|(weir, nginx)| weir / nginx)).median();
    let bare = Sorted::new(row.rounds.bare.iter().copied()).median();
    let goal = match row.goal {
        Goal::None => String::new(),
        Goal::Ratio(most) => {
            let noisy = bare / nginx.median() > most;
            format!("ratio <= {most}{}", verdict(ratio, most, noisy))
        }
        Goal::AtMost(most) => {
            format!("<= {most}{}", verdict(weir.median(), most, bare > most))
        }
    };
    write_line(
        out,
        [
            row.figure.clone(),
            shown(weir.median()),
            shown(nginx.median()),
            shown(ratio),
            shown(bare),
            goal,
            spread(&weir),
        ],
        &spread(&nginx),
    )
}

fn write_line(out: &mut impl Write, first: [String; 7], last: &str) -> Result<()> {
    let [figure, weir, nginx, ratio, bare, goal, spread] = first;
    writeln!(
        out,
        "{figure:<35} {weir:>7} {nginx:>7} {ratio:>6} {bare:>6}  {goal:<20} {spread:<14} {last}"
    )
}

fn verdict(reached: f64, most: f64, noisy: bool) -> &'static str {
    if reached.is_nan() {
        ""
    } else if reached <= most {
        " met"
    } else if noisy {
        " NOISY"
    } else {
        " MISSED"
    }
}

fn spread(samples: &Sorted) -> String {
    if samples.least().is_nan() {
        return "-".to_owned();
    }
    format!("{}..{}", shown(samples.least()), shown(samples.most()))
}

/// Three significant digits or so.
fn shown(figure: f64) -> String {
    if !figure.is_finite() {
        return "-".to_owned();
    }
    let decimals = match figure.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{figure:.decimals$}")
}
