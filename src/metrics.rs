//! How does whoever counts come by its handles?
//!
//! `names` has every name, label, help text and bucket. Each series stands at 0 from
//! the start. Call sites hold the handles that [`Metrics`] gives out, so that nothing
//! is looked up twice; `counted` is what they say.

mod counted;
mod names;
mod reading;

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use counted::CLASSES;
pub use counted::{ConnectionMetrics, LimitMetrics, RouteMetrics, StoreMetrics, UpstreamMetrics};
pub use names::{
    ConnectionFault, Fate, Outcome, Reason, StoreErrorKind, StoreScript, UpstreamError,
};
use names::{FAMILIES, Family, Kind};
pub use reading::Readings;

/// How a reload may go.
const RELOADS: [&str; 2] = ["success", "failure"];

/// Where all handles come from.
#[derive(Debug)]
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Metrics {
    /// A registry of its own: two in one process don't mix.
    #[expect(clippy::missing_panics_doc, reason = "every histogram has buckets")]
    pub fn new() -> Arc<Self> {
        let bounded = FAMILIES
            .iter()
            .fold(PrometheusBuilder::new(), |builder, family| {
                let (Kind::Count(bounds) | Kind::Seconds(bounds)) = family.kind else {
                    return builder;
                };
                builder
                    .set_buckets_for_metric(Matcher::Full(family.name.to_owned()), bounds)
                    .expect("every histogram has buckets")
            });
        let recorder = bounded.build_recorder();
        let handle = recorder.handle();
        let metrics = Self { recorder, handle };
        metrics.describe();
        let version = env!("CARGO_PKG_VERSION");
        let revision = option_env!("WEIR_REVISION").unwrap_or("unknown");
        metrics
            .gauge(&names::BUILD_INFO, &[version, revision])
            .set(1.0);
        drop([metrics.reloads(true), metrics.reloads(false)]);
        drop(metrics.untaken());
        // One instance sees itself, as long as it keeps its buckets itself.
        metrics.gauge(&names::INSTANCES, &[]).set(1.0);
        metrics.gauge(&names::STORE_UP, &[]).set(1.0);
        drop(metrics.gauge(&names::STORE_DEGRADED, &[]));
        Arc::new(metrics)
    }

    /// The text that Prometheus scrapes.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Moves what histograms gathered to where it takes no more room.
    pub fn tidy(&self) {
        self.handle.run_upkeep();
    }

    /// The handles of the limit `name`.
    pub fn limit(&self, name: &str) -> LimitMetrics {
        let reasons = || Reason::ALL.iter().map(|reason| reason.as_str());
        let fates = Fate::ALL.iter().map(|fate| fate.as_str());
        LimitMetrics {
            refused: self.counters(&names::REFUSED, name, reasons()),
            would_refuse: self.counters(&names::WOULD_REFUSE, name, reasons()),
            slots: self.counters(&names::SLOTS, name, fates),
            waiting: self.gauge(&names::WAITING, &[name]),
            line_length: self.gauge(&names::LINE_LENGTH, &[name]),
            oldest_wait: self.gauge(&names::OLDEST_WAIT_SECONDS, &[name]),
            fullness: self.gauge(&names::FULLNESS_RATIO, &[name]),
            buckets: self.gauge(&names::BUCKETS, &[name]),
            paused: self.gauge(&names::PAUSED, &[name]),
            wait: self.histogram(&names::WAIT_SECONDS, &[name]),
            lateness: self.histogram(&names::SLOT_LATENESS_SECONDS, &[name]),
            rate: self.gauge(&names::RATE, &[name]),
            burst: self.gauge(&names::BURST, &[name]),
        }
    }

    /// The handles of the route `name`.
    pub fn route(&self, name: &str) -> RouteMetrics {
        let outcomes = Outcome::ALL.iter().map(|outcome| outcome.as_str());
        RouteMetrics {
            requests: self.counters(&names::REQUESTS, name, outcomes),
            bodies_refused: self.counter(&names::BODIES_REFUSED, &[name]),
            seconds: self.by_class(&names::REQUEST_SECONDS, name),
        }
    }

    /// The handles of the upstream `name`.
    pub fn upstream(&self, name: &str) -> UpstreamMetrics {
        let kinds = UpstreamError::ALL.iter().map(|kind| kind.as_str());
        UpstreamMetrics {
            seconds: self.by_class(&names::UPSTREAM_SECONDS, name),
            errors: self.counters(&names::UPSTREAM_ERRORS, name, kinds),
            in_flight: self.gauge(&names::IN_FLIGHT, &[name]),
            max_in_flight: self.gauge(&names::MAX_IN_FLIGHT, &[name]),
            up: self.gauge(&names::UPSTREAM_UP, &[name]),
        }
    }

    /// The handles of a store that instances share.
    pub fn store(&self) -> StoreMetrics {
        let scripts = || StoreScript::ALL.iter().map(|script| script.as_str());
        let each = |family| {
            scripts()
                .map(|script| self.histogram(family, &[script]))
                .collect()
        };
        let kinds = || StoreErrorKind::ALL.iter().map(|kind| kind.as_str());
        StoreMetrics {
            calls: each(&names::STORE_CALL_SECONDS),
            batches: each(&names::STORE_BATCH_SIZE),
            errors: scripts()
                .map(|script| self.counters(&names::STORE_ERRORS, script, kinds()))
                .collect(),
            up: self.gauge(&names::STORE_UP, &[]),
            degraded: self.gauge(&names::STORE_DEGRADED, &[]),
            instances: self.gauge(&names::INSTANCES, &[]),
        }
    }

    /// The handles of the listener where requests come in.
    pub fn connections(&self) -> ConnectionMetrics {
        self.listener("requests")
    }

    /// The handles of the admin listener.
    pub fn admin_connections(&self) -> ConnectionMetrics {
        self.listener("admin")
    }

    fn listener(&self, name: &str) -> ConnectionMetrics {
        ConnectionMetrics {
            open: self.gauge(&names::CONNECTIONS, &[name]),
            refused: self.counter(&names::CONNECTIONS_REFUSED, &[name]),
            timed_out: self.counter(&names::CONNECTIONS_TIMED_OUT, &[name]),
            failed: self.counters(
                &names::CONNECTIONS_FAILED,
                name,
                ConnectionFault::ALL.iter().map(|kind| kind.as_str()),
            ),
        }
    }

    /// The counter of answers over HTTP/2 that nobody takes.
    pub fn untaken(&self) -> Counter {
        self.counter(&names::STREAMS_TIMED_OUT, &[])
    }

    /// A config holds from now on.
    pub fn loaded(&self) {
        #[expect(clippy::disallowed_methods, reason = "the gauge is a date, for people")]
        let now = std::time::SystemTime::now();
        let since_1970 = now
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        self.gauge(&names::CONFIG_LOADED, &[])
            .set(since_1970.as_secs_f64());
    }

    /// A reload was asked for.
    pub fn reloaded(&self, success: bool) {
        self.reloads(success).increment(1);
    }

    fn reloads(&self, success: bool) -> Counter {
        let [succeeded, failed] = RELOADS;
        let result = if success { succeeded } else { failed };
        self.counter(&names::CONFIG_RELOADS, &[result])
    }

    fn describe(&self) {
        for family in FAMILIES {
            let (name, help) = (KeyName::from_const_str(family.name), family.help.into());
            match family.kind {
                Kind::Counter => self.recorder.describe_counter(name, None, help),
                Kind::Gauge => self.recorder.describe_gauge(name, None, help),
                Kind::Count(_) => self.recorder.describe_histogram(name, None, help),
                Kind::Seconds(_) => {
                    let unit = Some(Unit::Seconds);
                    self.recorder.describe_histogram(name, unit, help);
                }
            }
        }
    }

    fn by_class(&self, family: &Family, name: &str) -> Vec<Histogram> {
        let classes = CLASSES.iter();
        classes
            .map(|code| self.histogram(family, &[name, code]))
            .collect()
    }

    fn counters<'a>(
        &self,
        family: &Family,
        name: &str,
        values: impl Iterator<Item = &'a str>,
    ) -> Vec<Counter> {
        values
            .map(|value| self.counter(family, &[name, value]))
            .collect()
    }

    fn counter(&self, family: &Family, labels: &[&str]) -> Counter {
        let counter = self
            .recorder
            .register_counter(&key(family, labels), &METADATA);
        counter.increment(0);
        counter
    }

    fn gauge(&self, family: &Family, labels: &[&str]) -> Gauge {
        let gauge = self
            .recorder
            .register_gauge(&key(family, labels), &METADATA);
        gauge.increment(0.0);
        gauge
    }

    fn histogram(&self, family: &Family, labels: &[&str]) -> Histogram {
        self.recorder
            .register_histogram(&key(family, labels), &METADATA)
    }
}

static METADATA: Metadata<'static> = Metadata::new("weir", Level::INFO, None);

fn key(family: &Family, labels: &[&str]) -> Key {
    let labels = family.labels.iter().zip(labels);
    let labels: Vec<Label> = labels
        .map(|(name, value)| Label::new(*name, (*value).to_owned()))
        .collect();
    Key::from_parts(family.name, labels)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_series_stands_at_zero_from_the_start() {
        let metrics = Metrics::new();
        let _limit = metrics.limit("db");
        let _route = metrics.route("/");
        let text = metrics.render();
        for line in [
            "weir_refused_total{limit=\"db\",reason=\"full\"} 0",
            "weir_slots_total{limit=\"db\",fate=\"used\"} 0",
            "weir_requests_total{route=\"/\",outcome=\"passed\"} 0",
            "weir_waiting{limit=\"db\"} 0",
            "weir_instances 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn histograms_have_the_buckets_that_are_promised() {
        let metrics = Metrics::new();
        let limit = metrics.limit("db");
        limit.waited(Duration::from_millis(30));
        let text = metrics.render();
        assert!(
            text.contains("weir_wait_seconds_bucket{limit=\"db\",le=\"0.025\"} 0"),
            "{text}"
        );
        assert!(
            text.contains("weir_wait_seconds_bucket{limit=\"db\",le=\"0.05\"} 1"),
            "{text}"
        );
    }
}
