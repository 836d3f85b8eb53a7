//! What does `/metrics` say?

use std::collections::BTreeMap;

/// One scrape.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    series: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
}

impl Metrics {
    pub(super) fn parse(text: &str) -> Self {
        let mut metrics = Self {
            series: BTreeMap::new(),
            types: BTreeMap::new(),
        };
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').expect("a name and a type");
                let before = metrics.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{name} is declared once");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a series and a value");
                let value = value.parse().expect("a number");
                let before = metrics.series.insert(series.to_owned(), value);
                assert_eq!(before, None, "{series} is there once");
            }
        }
        metrics
    }

    /// The value of a series, written as in the scrape.
    #[expect(clippy::panic, reason = "it says which series there are")]
    pub(crate) fn value(&self, series: &str) -> f64 {
        let value = self.series.get(series).copied();
        value.unwrap_or_else(|| {
            let mut alike = self.names();
            alike.retain(|name| bare(name) == bare(series));
            panic!("no series {series}, but {alike:?}")
        })
    }

    /// The sum of all series of a name.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let of_name = self
            .series
            .iter()
            .filter(|(series, _)| bare(series) == name);
        of_name.map(|(_, value)| value).sum()
    }

    /// All series as they are written, without their values.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.series.keys().map(String::as_str).collect()
    }

    /// The type of a metric.
    pub(crate) fn kind(&self, name: &str) -> Option<&str> {
        self.types.get(name).map(String::as_str)
    }
}

fn bare(series: &str) -> &str {
    series.split('{').next().unwrap_or_default()
}
