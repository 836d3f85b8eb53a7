//! How are the figures shown?

use std::io::{Result, Write};

/// One line: a figure of weir's, what it stands beside, and what it is meant to be.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    figure: String,
    weir: f64,
    /// `NaN` where there is nothing to compare with.
    beside: f64,
    goal: Goal,
    note: String,
}

/// What weir is meant to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    None,
    AtMost(f64),
    AtLeast(f64),
    Within(f64, f64),
    Exactly(f64),
}

impl Row {
    pub(crate) fn new(figure: impl Into<String>, weir: f64, goal: Goal) -> Self {
        Self {
            figure: figure.into(),
            weir,
            beside: f64::NAN,
            goal,
            note: String::new(),
        }
    }

    /// The same, beside what something else came to.
    pub(crate) fn beside(mut self, other: f64) -> Self {
        self.beside = other;
        self
    }

    /// The same, with what `beside` is, or what else must be known.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

impl Goal {
    fn is_met_by(self, figure: f64) -> bool {
        match self {
            Self::None => true,
            Self::AtMost(most) => figure <= most,
            Self::AtLeast(least) => figure >= least,
            Self::Within(least, most) => (least..=most).contains(&figure),
            Self::Exactly(wanted) => (figure - wanted).abs() < 1e-9,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::None => String::new(),
            Self::AtMost(most) => format!("<= {}", shown(most)),
            Self::AtLeast(least) => format!(">= {}", shown(least)),
            Self::Within(least, most) => format!("{}..{}", shown(least), shown(most)),
            Self::Exactly(wanted) => format!("= {}", shown(wanted)),
        }
    }
}

pub(crate) fn write_head(out: &mut impl Write) -> Result<()> {
    let head = ["figure", "weir", "beside", "goal", "", "beside is"].map(str::to_owned);
    write_line(out, head)?;
    writeln!(out, "{}", "-".repeat(119))
}

pub(crate) fn write_rows(out: &mut impl Write, rows: &[Row]) -> Result<()> {
    for row in rows {
        let verdict = match row.goal {
            Goal::None => "",
            goal if goal.is_met_by(row.weir) => "ok",
            _ => "MISSED",
        };
        let line = [
            row.figure.clone(),
            shown(row.weir),
            shown(row.beside),
            row.goal.shown(),
            verdict.to_owned(),
            row.note.clone(),
        ];
        write_line(out, line)?;
    }
    out.flush()
}

fn write_line(out: &mut impl Write, line: [String; 6]) -> Result<()> {
    let [figure, weir, beside, goal, verdict, note] = line;
    let line = format!("{figure:<52} {weir:>8} {beside:>8}  {goal:<12} {verdict:<7} {note}");
    writeln!(out, "{}", line.trim_end())
}

/// Enough digits to see what misses a goal, and no more.
fn shown(figure: f64) -> String {
    if !figure.is_finite() {
        return "-".to_owned();
    }
    let decimals = match figure.abs() {
        size if size >= 1000.0 || (size - size.round()).abs() < 1e-9 => 0,
        size if size >= 10.0 => 1,
        _ => 3,
    };
    format!("{figure:.decimals$}")
}
