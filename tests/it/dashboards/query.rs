//! What does a query ask Prometheus for?

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::parser::{self, Expr};

use super::Labels;

/// One query of a panel or a rule.
#[derive(Clone, Debug)]
pub(super) struct Query {
    /// As it is written.
    pub(super) raw: String,
    /// As Prometheus gets it.
    pub(super) text: String,
    expr: Expr,
    /// Labels that the legend shows.
    legend: Labels,
}

/// Labels that are named for all these metrics together.
struct Grouping {
    labels: Labels,
    over: Vec<String>,
    /// Labels that the query makes itself.
    made: Labels,
}

impl Query {
    pub(super) fn new(raw: &str, legend: &str) -> Self {
        let text = raw.replace("$__rate_interval", "1m");
        let expr = parser::parse(&text);
        let expr = expr.unwrap_or_else(|fault| unreachable!("{raw}: {fault}"));
        let named = legend
            .split("{{")
            .skip(1)
            .filter_map(|rest| rest.split("}}").next());
        Self {
            raw: raw.to_owned(),
            text,
            expr,
            legend: named.map(|label| label.trim().to_owned()).collect(),
        }
    }

    pub(super) const fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The labels that its answer has: those it groups by.
    pub(super) fn labels(&self) -> Labels {
        let groupings = groupings(&self.expr).into_iter();
        groupings.flat_map(|it| it.labels).collect()
    }

    /// Each metric with the labels by which it is told apart: in the query, in the
    /// legend, or by a variable above the dashboard.
    pub(super) fn shows(&self) -> BTreeMap<String, Labels> {
        let mut shows = BTreeMap::<String, Labels>::new();
        for (name, matchers) in selectors(&self.expr) {
            let entry = shows.entry(name).or_default();
            let chosen = matchers
                .into_iter()
                .filter(|(_, value)| value.contains('$'));
            entry.extend(chosen.map(|(label, _)| label));
            entry.extend(self.legend.iter().cloned());
        }
        for grouping in groupings(&self.expr) {
            for name in grouping.over {
                let entry = shows.entry(name).or_default();
                entry.extend(grouping.labels.iter().cloned());
            }
        }
        shows
    }

    /// What it names that there isn't.
    pub(super) fn faults(&self, known: &BTreeMap<String, Labels>) -> Vec<String> {
        let mut faults = Vec::new();
        let has = |name: &String, label: &String| {
            known.get(name).is_some_and(|labels| labels.contains(label))
        };
        let selectors = selectors(&self.expr);
        for (name, labels) in &selectors {
            if !known.contains_key(name) {
                faults.push(format!("no metric {name}"));
                continue;
            }
            let absent = labels.iter().filter(|(label, _)| !has(name, label));
            faults.extend(absent.map(|(label, _)| format!("{name} has no label {label}")));
        }
        for Grouping { labels, over, made } in groupings(&self.expr) {
            let absent = labels
                .iter()
                .filter(|label| !made.contains(*label))
                .filter(|label| !over.iter().any(|name| has(name, label)));
            faults.extend(absent.map(|label| format!("none of {over:?} has {label}")));
        }
        let names = || selectors.iter().map(|(name, _)| name);
        let absent = self
            .legend
            .iter()
            .filter(|label| !names().any(|name| has(name, label)));
        faults.extend(absent.map(|label| format!("the legend shows no label {label}")));
        faults
    }
}

fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Aggregate(it) => {
            let param = it.param.as_deref().into_iter();
            param.chain([it.expr.as_ref()]).collect()
        }
        Expr::Unary(it) => vec![&it.expr],
        Expr::Binary(it) => vec![&it.lhs, &it.rhs],
        Expr::Paren(it) => vec![&it.expr],
        Expr::Subquery(it) => vec![&it.expr],
        Expr::Call(it) => it.args.args.iter().map(AsRef::as_ref).collect(),
        _ => Vec::new(),
    }
}

/// Metrics with the labels that they are selected by, and the values of those.
fn selectors(expr: &Expr) -> Vec<(String, Vec<(String, String)>)> {
    let selector = match expr {
        Expr::VectorSelector(it) => Some(it),
        Expr::MatrixSelector(it) => Some(&it.vs),
        _ => None,
    };
    let own = selector.map(|it| {
        let name = it.name.clone().expect("a selector with a name");
        let matchers = it.matchers.matchers.iter();
        let matchers = matchers.map(|it| (it.name.clone(), it.value.clone()));
        (name, matchers.collect())
    });
    let below = children(expr).into_iter().flat_map(selectors);
    own.into_iter().chain(below).collect()
}

fn groupings(expr: &Expr) -> Vec<Grouping> {
    let modifier = match expr {
        Expr::Aggregate(it) => it.modifier.as_ref(),
        Expr::Binary(it) => it
            .modifier
            .as_ref()
            .and_then(|modifier| modifier.matching.as_ref()),
        _ => None,
    };
    let own = modifier.map(|modifier| Grouping {
        labels: modifier.labels().labels.iter().cloned().collect(),
        over: selectors(expr).into_iter().map(|(name, _)| name).collect(),
        made: made(expr),
    });
    let below = children(expr).into_iter().flat_map(groupings);
    own.into_iter().chain(below).collect()
}

/// Labels that `label_join` and `label_replace` make.
fn made(expr: &Expr) -> BTreeSet<String> {
    let own = match expr {
        Expr::Call(it) if it.func.name.starts_with("label_") => it.args.args.get(1),
        _ => None,
    };
    let own = own.and_then(|it| match it.as_ref() {
        Expr::StringLiteral(it) => Some(it.val.clone()),
        _ => None,
    });
    own.into_iter()
        .chain(children(expr).into_iter().flat_map(made))
        .collect()
}
