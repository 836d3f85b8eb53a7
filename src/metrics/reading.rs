//! What has been counted so far?
//!
//! Counters are read off the text that Prometheus gets: what the API tells is what
//! the metrics say.

use std::collections::BTreeMap;
use std::time::Duration;

use super::names::{self, Family};
use super::{Fate, Metrics, Outcome, Reason, UpstreamError};

/// All counts, as they were at one time.
#[derive(Debug)]
pub struct Readings(BTreeMap<String, f64>);

type Counts = BTreeMap<String, u64>;

impl Readings {
    /// What is counted now.
    pub fn of(metrics: &Metrics) -> Self {
        let text = metrics.render();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            // A histogram's buckets are many, and nobody reads them here.
            let is_bucket = series.contains("le=\"");
            (!is_bucket).then_some((series.to_owned(), value.parse().ok()?))
        });
        Self(series.collect())
    }

    /// Requests that the limit `name` admitted.
    pub fn admitted(&self, name: &str) -> u64 {
        whole(self.value(&names::WAIT_SECONDS, "_count", &[name]))
    }

    /// Requests that it refused, by why.
    pub fn refused(&self, name: &str) -> Counts {
        let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
        self.counts(&names::REFUSED, name, reasons)
    }

    /// Requests that it would have refused, by why.
    pub fn would_refuse(&self, name: &str) -> Counts {
        let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
        self.counts(&names::WOULD_REFUSE, name, reasons)
    }

    /// Its slots, by what became of them.
    pub fn slots(&self, name: &str) -> Counts {
        let fates = Fate::ALL.iter().map(|fate| fate.as_str());
        self.counts(&names::SLOTS, name, fates)
    }

    /// Requests of the route `name`, by how they ended.
    pub fn requests(&self, name: &str) -> Counts {
        let outcomes = Outcome::ALL.iter().map(|outcome| outcome.as_str());
        self.counts(&names::REQUESTS, name, outcomes)
    }

    /// What went wrong with the upstream `name`, by kind.
    pub fn upstream_errors(&self, name: &str) -> Counts {
        let kinds = UpstreamError::ALL.iter().map(|kind| kind.as_str());
        self.counts(&names::UPSTREAM_ERRORS, name, kinds)
    }

    /// Its answers, by class of status.
    pub fn upstream_answers(&self, name: &str) -> Counts {
        let count = |class: &&str| {
            let value = self.value(&names::UPSTREAM_SECONDS, "_count", &[name, class]);
            ((*class).to_owned(), whole(value))
        };
        super::counted::CLASSES.iter().map(count).collect()
    }

    /// How long all of its answers took to begin, in seconds.
    pub fn upstream_seconds(&self, name: &str) -> f64 {
        let classes = super::counted::CLASSES.iter();
        classes
            .map(|class| self.value(&names::UPSTREAM_SECONDS, "_sum", &[name, class]))
            .sum()
    }

    /// When the present config was loaded, since 1970.
    pub fn loaded(&self) -> Duration {
        let seconds = self.value(&names::CONFIG_LOADED, "", &[]);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Reloads, by how they went.
    pub fn reloads(&self) -> Counts {
        let count = |result: &str| {
            let value = self.value(&names::CONFIG_RELOADS, "", &[result]);
            (result.to_owned(), whole(value))
        };
        super::RELOADS.into_iter().map(count).collect()
    }

    fn counts<'a>(
        &self,
        family: &Family,
        name: &str,
        labels: impl Iterator<Item = &'a str>,
    ) -> Counts {
        labels
            .map(|label| {
                let value = self.value(family, "", &[name, label]);
                (label.to_owned(), whole(value))
            })
            .collect()
    }

    fn value(&self, family: &Family, suffix: &str, labels: &[&str]) -> f64 {
        let labels: Vec<String> = family
            .labels
            .iter()
            .zip(labels)
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = labels.join(",");
        let series = if labels.is_empty() {
            format!("{}{suffix}", family.name)
        } else {
            format!("{}{suffix}{{{labels}}}", family.name)
        };
        self.0.get(&series).copied().unwrap_or(0.0)
    }
}

/// A label's value as the text format has it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count is whole, and far below 2^53"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_read_back() {
        let metrics = Metrics::new();
        let limit = metrics.limit("db");
        limit.refused(Reason::Full);
        limit.refused(Reason::Full);
        limit.waited(Duration::from_millis(30));
        limit.slots(Fate::Used, 3);
        let odd = "a\"b\\c";
        metrics.route(odd).ended(Outcome::Delayed);
        let upstream = metrics.upstream("up");
        upstream.answered(204, Duration::from_millis(500));
        upstream.failed(UpstreamError::Connect);
        metrics.loaded();
        metrics.reloaded(false);
        let readings = Readings::of(&metrics);
        assert!(readings.loaded() > Duration::from_hours(24 * 365 * 50));
        assert_eq!(readings.reloads()["failure"], 1);
        assert_eq!(readings.admitted("db"), 1);
        assert_eq!(readings.refused("db")["full"], 2);
        assert_eq!(readings.refused("db")["quota"], 0);
        assert_eq!(readings.slots("db")["used"], 3);
        assert_eq!(readings.requests(odd)["delayed"], 1);
        assert_eq!(readings.upstream_answers("up")["2xx"], 1);
        assert!((readings.upstream_seconds("up") - 0.5).abs() < 1e-9);
        assert_eq!(readings.upstream_errors("up")["connect"], 1);
    }
}
