//! What is on a dashboard?

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::query::Query;

/// One dashboard.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) uid: String,
    pub(super) panels: Vec<Panel>,
    pub(super) variables: BTreeSet<String>,
    /// What annotations and variables ask.
    others: Vec<Query>,
}

/// One panel that is no row's heading.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) unit: String,
    pub(super) queries: Vec<Query>,
    /// The alerts that it leads to.
    pub(super) alerts: Vec<String>,
    /// Where its colours change.
    pub(super) steps: Vec<f64>,
}

/// All dashboards, at least one.
pub(super) fn pages(folder: &Path) -> Vec<Page> {
    let files = std::fs::read_dir(folder.join("dashboards")).expect("dashboards");
    let pages: Vec<_> = files
        .map(|file| {
            let text = std::fs::read_to_string(file.expect("a file").path());
            Page::new(&serde_json::from_str(&text.expect("text")).expect("JSON"))
        })
        .collect();
    assert!(!pages.is_empty(), "the dashboards were found");
    pages
}

/// The text at a path, empty where there is none.
fn text(json: &Value, path: &str) -> String {
    let text = json.pointer(path).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn list<'a>(json: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = json.pointer(path).and_then(Value::as_array);
    list.into_iter().flatten()
}

impl Page {
    fn new(json: &Value) -> Self {
        let variables = || list(json, "/templating/list");
        let lookups = variables()
            .map(|it| text(it, "/query/query"))
            .filter(|query| !query.is_empty())
            .map(|query| {
                // label_values(SELECTOR, LABEL) is Grafana's, not PromQL.
                let inside = query.strip_prefix("label_values(").expect("a lookup");
                let (selector, label) = inside.rsplit_once(", ").expect("a label");
                Query::new(
                    selector,
                    &format!("{{{{{}}}}}", label.trim_end_matches(')')),
                )
            });
        let notes = list(json, "/annotations/list")
            .map(|it| Query::new(&text(it, "/expr"), &text(it, "/textFormat")));
        let panels = list(json, "/panels").filter(|it| text(it, "/type") != "row");
        Self {
            uid: text(json, "/uid"),
            panels: panels.map(Panel::new).collect(),
            variables: variables().map(|it| text(it, "/name")).collect(),
            others: lookups.chain(notes).collect(),
        }
    }

    pub(super) fn panel_queries(&self) -> impl Iterator<Item = &Query> {
        self.panels.iter().flat_map(|panel| &panel.queries)
    }

    pub(super) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.panel_queries().chain(&self.others)
    }
}

impl Panel {
    fn new(json: &Value) -> Self {
        let steps_of = |json, path| {
            list(json, path).filter_map(|it| it.pointer("/value").and_then(Value::as_f64))
        };
        let overridden = list(json, "/fieldConfig/overrides")
            .flat_map(|it| list(it, "/properties"))
            .filter(|it| text(it, "/id") == "thresholds")
            .flat_map(|it| steps_of(it, "/value/steps"));
        let steps = steps_of(json, "/fieldConfig/defaults/thresholds/steps");
        let alerts = list(json, "/links").filter_map(|it| {
            let title = text(it, "/title");
            title.strip_prefix("What to do: ").map(str::to_owned)
        });
        Self {
            title: text(json, "/title"),
            description: text(json, "/description"),
            unit: text(json, "/fieldConfig/defaults/unit"),
            queries: list(json, "/targets")
                .map(|it| Query::new(&text(it, "/expr"), &text(it, "/legendFormat")))
                .collect(),
            alerts: alerts.collect(),
            steps: steps.chain(overridden).collect(),
        }
    }
}
