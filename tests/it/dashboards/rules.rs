//! What does Prometheus record, and when does it call?

use std::collections::BTreeMap;
use std::path::Path;

use promql_parser::parser::Expr;
use serde::Deserialize;

use super::query::Query;

/// The file.
#[derive(Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    record: Option<String>,
    alert: Option<String>,
    expr: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// All rules of the file.
pub(super) struct Rules {
    /// What is recorded, and from what.
    pub(super) records: Vec<(String, Query)>,
    pub(super) alerts: Vec<Alert>,
}

/// One alert.
pub(super) struct Alert {
    pub(super) name: String,
    query: Query,
    notes: BTreeMap<String, String>,
}

impl Rules {
    pub(super) fn read(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join("prometheus/weir.rules.yml"));
        let file: File = serde_yaml_ng::from_str(&text.expect("rules")).expect("rules");
        let mut read = Self {
            records: Vec::new(),
            alerts: Vec::new(),
        };
        for rule in file.groups.into_iter().flat_map(|group| group.rules) {
            let query = Query::new(&rule.expr, "");
            if let Some(name) = rule.record {
                read.records.push((name, query));
            } else {
                read.alerts.push(Alert {
                    name: rule.alert.expect("a name"),
                    query,
                    notes: rule.annotations,
                });
            }
        }
        read
    }

    pub(super) fn queries(&self) -> impl Iterator<Item = (&str, &Query)> {
        let records = self.records.iter().map(|(name, query)| (name, query));
        let alerts = self.alerts.iter().map(|alert| (&alert.name, &alert.query));
        records
            .chain(alerts)
            .map(|(name, query)| (name.as_str(), query))
    }
}

impl Alert {
    pub(super) fn note(&self, name: &str) -> &str {
        self.notes.get(name).map_or("", String::as_str)
    }

    /// The number at which it calls.
    pub(super) fn threshold(&self) -> f64 {
        let mut expr = self.query.expr();
        loop {
            let Expr::Binary(it) = expr else {
                unreachable!("{} compares with no number", self.name)
            };
            match it.rhs.as_ref() {
                Expr::NumberLiteral(number) if it.op.is_comparison_operator() => return number.val,
                _ => expr = &it.lhs,
            }
        }
    }
}
