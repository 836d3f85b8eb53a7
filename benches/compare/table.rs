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
    /// Whether less is better: the others aren't drawn.
    is_cost: bool,
}

/// What weir is meant to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    None,
    /// At most so many times NGINX's.
    Ratio(f64),
    /// At most this, whatever NGINX's is.
    AtMost(f64),
    /// At most so many times what it was without.
    OfBare(f64),
}

impl Row {
    pub(crate) fn new(figure: impl Into<String>, rounds: Rounds, goal: Goal) -> Self {
        Self {
            figure: figure.into(),
            rounds,
            goal,
            is_cost: true,
        }
    }

    /// One of which more is better.
    pub(crate) fn gain(figure: impl Into<String>, rounds: Rounds) -> Self {
        Self {
            is_cost: false,
            ..Self::new(figure, rounds, Goal::None)
        }
    }

    pub(crate) const fn is_cost(&self) -> bool {
        self.is_cost
    }
}

impl Row {
    pub(crate) fn figure(&self) -> &str {
        &self.figure
    }

    /// Each round's weir/nginx.
    pub(crate) fn to_nginx(&self) -> Vec<f64> {
        self.to(&self.rounds.nginx)
    }

    /// Of one round's two, which met the same weather, rather than of the medians.
    fn to(&self, others: &[f64]) -> Vec<f64> {
        let pairs = self.rounds.weir.iter().zip(others);
        // What a proxy adds may seem to be less than nothing, and then has no ratio.
        let pairs = pairs.filter(|(weir, other)| **weir > 0.0 && **other > 0.0);
        pairs.map(|(weir, other)| weir / other).collect()
    }
}

pub(crate) fn write_head(out: &mut impl Write) -> Result<()> {
    let head = [
        "figure",
        "weir",
        "nginx",
        "ratio",
        "haproxy",
        "ratio",
        "bare",
        "goal",
        "weir, rounds",
        "nginx, rounds",
    ];
    write_line(out, head.map(str::to_owned))?;
    writeln!(out, "{}", "-".repeat(134))
}

pub(crate) fn write_rows(out: &mut impl Write, rows: &[Row]) -> Result<()> {
    for row in rows {
        write_row(out, row)?;
    }
    writeln!(out)?;
    out.flush()
}

fn write_row(out: &mut impl Write, row: &Row) -> Result<()> {
    let sorted = |rounds: &[f64]| Sorted::new(rounds.iter().copied());
    let (weir, nginx) = (sorted(&row.rounds.weir), sorted(&row.rounds.nginx));
    let bare = sorted(&row.rounds.bare).median();
    let ratio = Sorted::new(row.to_nginx()).median();
    let to_haproxy = Sorted::new(row.to(&row.rounds.haproxy)).median();
    let goal = match row.goal {
        Goal::None => String::new(),
        Goal::Ratio(most) => {
            let noisy = bare / nginx.median() > most;
            format!("ratio <= {most}{}", verdict(ratio, most, noisy))
        }
        Goal::AtMost(most) => {
            format!("<= {most}{}", verdict(weir.median(), most, bare > most))
        }
        Goal::OfBare(most) => {
            let grown = Sorted::new(row.to(&row.rounds.bare)).median();
            format!("x{} <= {most}{}", shown(grown), verdict(grown, most, false))
        }
    };
    write_line(
        out,
        [
            row.figure.clone(),
            shown(weir.median()),
            shown(nginx.median()),
            shown(ratio),
            shown(sorted(&row.rounds.haproxy).median()),
            shown(to_haproxy),
            shown(bare),
            goal,
            spread(&weir),
            spread(&nginx),
        ],
    )
}

fn write_line(out: &mut impl Write, cells: [String; 10]) -> Result<()> {
    let [
        figure,
        weir,
        nginx,
        ratio,
        haproxy,
        to_haproxy,
        bare,
        goal,
        spread,
        last,
    ] = cells;
    writeln!(
        out,
        "{figure:<38} {weir:>7} {nginx:>7} {ratio:>6} {haproxy:>7} {to_haproxy:>6} {bare:>6}  \
         {goal:<21} {spread:<14} {last}"
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
