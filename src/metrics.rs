//! What does weir count, under which names?
//!
//! Every name, label, help text and bucket is here. Labels come from the config,
//! never from a request; each series stands at 0 from the start. Call sites hold
//! the handles that [`Metrics`] gives out, so that nothing is looked up twice.

mod counted;

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use counted::CLASSES;
pub use counted::{ConnectionMetrics, LimitMetrics, RouteMetrics, StoreMetrics, UpstreamMetrics};

const WAITS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
const LATENESS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05];
const ANSWERS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

const CALLS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
];
const BATCHES: &[f64] = &[
    0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0,
];

const HISTOGRAMS: &[(&str, &[f64])] = &[
    ("weir_store_call_seconds", CALLS),
    ("weir_store_batch_size", BATCHES),
    ("weir_wait_seconds", WAITS),
    ("weir_slot_lateness_seconds", LATENESS),
    ("weir_request_seconds", ANSWERS),
    ("weir_upstream_seconds", ANSWERS),
];

/// Names and help texts.
const COUNTERS: &[(&str, &str)] = &[
    (
        "weir_requests_total",
        "Requests by how they ended, one outcome each",
    ),
    (
        "weir_refused_total",
        "Requests that a limit refused, by why",
    ),
    (
        "weir_would_refuse_total",
        "Requests that a limit in dry run would have refused, by why",
    ),
    ("weir_slots_total", "Slots by what became of them"),
    (
        "weir_upstream_errors_total",
        "What went wrong with an upstream",
    ),
    (
        "weir_store_errors_total",
        "Calls to the store that were not answered, by script and why",
    ),
    (
        "weir_connections_refused_total",
        "Connections turned away because too many were open",
    ),
    (
        "weir_connections_timed_out_total",
        "Connections closed because their client made no progress",
    ),
    (
        "weir_connections_failed_total",
        "Connections ended for what their client sent, by what was wrong",
    ),
    (
        "weir_streams_timed_out_total",
        "Answers over HTTP/2 given up because their client took nothing of them",
    ),
    (
        "weir_config_reloads_total",
        "Reloads of the config that were asked for, by how they went",
    ),
];

const GAUGES: &[(&str, &str)] = &[
    ("weir_waiting", "Requests that wait in this instance"),
    (
        "weir_line_length",
        "The longest line of a limit, as last seen",
    ),
    (
        "weir_oldest_wait_seconds",
        "The longest present wait in a limit, as last seen",
    ),
    ("weir_buckets", "Keys that a limit holds in memory"),
    ("weir_paused", "Whether a limit lets nobody go for now"),
    (
        "weir_store_up",
        "Whether the store answers; memory always does",
    ),
    (
        "weir_store_degraded",
        "Whether limits are kept in other ways than the store's, because it is away",
    ),
    (
        "weir_rate",
        "Requests a second that a limit lets go, as configured",
    ),
    (
        "weir_burst",
        "Requests beyond the steady rate that a limit admits, as configured",
    ),
    (
        "weir_in_flight",
        "Requests under way to an upstream, to the end of their answers",
    ),
    (
        "weir_upstream_up",
        "Whether the last health probe of an upstream succeeded, 1 where there is none",
    ),
    ("weir_connections", "Connections that clients have open"),
    (
        "weir_config_last_reload_success_timestamp_seconds",
        "When the present config was loaded",
    ),
    (
        "weir_instances",
        "Instances that share the store, this one included",
    ),
    (
        "weir_build_info",
        "Always 1; the labels say what is running",
    ),
];

const COUNTS: &[(&str, &str)] = &[(
    "weir_store_batch_size",
    "Requests that one call to the store asks for",
)];

const SECONDS: &[(&str, &str)] = &[
    (
        "weir_store_call_seconds",
        "How long calls to the store took that were answered",
    ),
    (
        "weir_wait_seconds",
        "How long admitted requests waited in a limit, 0 for those that needn't",
    ),
    (
        "weir_slot_lateness_seconds",
        "How much later than due a slot was handed out",
    ),
    (
        "weir_request_seconds",
        "From a request's head to the end of its answer, by class of status",
    ),
    (
        "weir_upstream_seconds",
        "From forwarding a request to the head of the upstream's answer, by class of status",
    ),
];

/// Declares a closed set of label values.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$each])* $variant),+ }

        impl $name {
            /// All of them, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The label's value.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

labels! {
    /// How a request ended: each has one.
    Outcome {
        /// Forwarded without a wait.
        Passed = "passed",
        /// Forwarded after a wait.
        Delayed = "delayed",
        /// Refused by a limit, or as a bad request.
        Refused = "refused",
        /// Its client went before it was served.
        Left = "left",
        /// A 502 or 504 of weir's own.
        Failed = "failed",
        /// A 503: weir could not take it.
        Shed = "shed",
    }
}

labels! {
    /// Why a limit refused.
    Reason {
        /// Every place in the line was taken.
        Full = "full",
        /// The wait would have been too long.
        MaxWait = "max_wait",
        /// The limit has no line, and nothing was left.
        Quota = "quota",
        /// The request has no such key.
        MissingKey = "missing_key",
        /// The limit is paused.
        Paused = "paused",
        /// The line was emptied by hand.
        Purged = "purged",
        /// The store can't be reached.
        Store = "store",
        /// The instance is shutting down.
        Draining = "draining",
        /// The key table is full.
        Keys = "keys",
    }
}

labels! {
    /// What became of a slot for which someone had waited.
    Fate {
        /// A request left in it.
        Used = "used",
        /// It was noticed too late, or its upstream was full.
        Missed = "missed",
        /// Whoever had it went, and nobody was left to use it.
        Spare = "spare",
    }
}

labels! {
    /// What went wrong with an upstream.
    UpstreamError {
        /// No connection came up.
        Connect = "connect",
        /// It was too slow.
        Timeout = "timeout",
        /// The connection broke, or what came was not HTTP.
        Broken = "broken",
        /// The health probe failed.
        Health = "health",
    }
}

labels! {
    /// What was wrong with a connection.
    ConnectionFault {
        /// No TLS came up.
        Tls = "tls",
        /// A proxy did not say for whom it opened it.
        Announcement = "proxy_protocol",
        /// It broke the rules of HTTP/2, by floods too.
        Protocol = "http2",
    }
}

labels! {
    /// What is run in the store.
    StoreScript {
        /// The line of a bucket.
        LeakyBucket = "leaky_bucket",
        /// A bucket without a line.
        TokenBucket = "token_bucket",
        /// Who lives.
        Heartbeat = "heartbeat",
    }
}

labels! {
    /// Why a call to the store has no answer.
    StoreErrorKind {
        /// It took too long.
        Timeout = "timeout",
        /// There was no connection, or it broke.
        Connection = "connection",
        /// The store answered with an error.
        Server = "server",
        /// What it answered made no sense.
        Reply = "reply",
    }
}

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
        let buckets =
            HISTOGRAMS
                .iter()
                .fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
                    builder
                        .set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds)
                        .expect("every histogram has buckets")
                });
        let recorder = buckets.build_recorder();
        let handle = recorder.handle();
        let metrics = Self { recorder, handle };
        metrics.describe();
        metrics
            .gauge(
                "weir_build_info",
                &[
                    ("version", env!("CARGO_PKG_VERSION")),
                    (
                        "revision",
                        option_env!("WEIR_REVISION").unwrap_or("unknown"),
                    ),
                ],
            )
            .set(1.0);
        drop([metrics.reloads(true), metrics.reloads(false)]);
        // One instance sees itself, as long as it keeps its buckets itself.
        metrics.gauge("weir_instances", &[]).set(1.0);
        metrics.gauge("weir_store_up", &[]).set(1.0);
        drop(metrics.gauge("weir_store_degraded", &[]));
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
        let limit = ("limit", name);
        LimitMetrics {
            refused: self.counters(
                "weir_refused_total",
                limit,
                "reason",
                Reason::ALL.iter().map(|r| r.as_str()),
            ),
            would_refuse: self.counters(
                "weir_would_refuse_total",
                limit,
                "reason",
                Reason::ALL.iter().map(|r| r.as_str()),
            ),
            slots: self.counters(
                "weir_slots_total",
                limit,
                "fate",
                Fate::ALL.iter().map(|f| f.as_str()),
            ),
            waiting: self.gauge("weir_waiting", &[limit]),
            line_length: self.gauge("weir_line_length", &[limit]),
            oldest_wait: self.gauge("weir_oldest_wait_seconds", &[limit]),
            buckets: self.gauge("weir_buckets", &[limit]),
            paused: self.gauge("weir_paused", &[limit]),
            wait: self.histogram("weir_wait_seconds", &[limit]),
            lateness: self.histogram("weir_slot_lateness_seconds", &[limit]),
            rate: self.gauge("weir_rate", &[limit]),
            burst: self.gauge("weir_burst", &[limit]),
        }
    }

    /// The handles of the route `name`.
    pub fn route(&self, name: &str) -> RouteMetrics {
        let route = ("route", name);
        RouteMetrics {
            requests: self.counters(
                "weir_requests_total",
                route,
                "outcome",
                Outcome::ALL.iter().map(|o| o.as_str()),
            ),
            seconds: CLASSES
                .iter()
                .map(|code| self.histogram("weir_request_seconds", &[route, ("code", code)]))
                .collect(),
        }
    }

    /// The handles of the upstream `name`.
    pub fn upstream(&self, name: &str) -> UpstreamMetrics {
        let upstream = ("upstream", name);
        UpstreamMetrics {
            seconds: CLASSES
                .iter()
                .map(|code| self.histogram("weir_upstream_seconds", &[upstream, ("code", code)]))
                .collect(),
            errors: self.counters(
                "weir_upstream_errors_total",
                upstream,
                "kind",
                UpstreamError::ALL.iter().map(|k| k.as_str()),
            ),
            in_flight: self.gauge("weir_in_flight", &[upstream]),
            up: self.gauge("weir_upstream_up", &[upstream]),
        }
    }

    /// The handles of a store that instances share.
    pub fn store(&self) -> StoreMetrics {
        let of = |script: &StoreScript| ("script", script.as_str());
        let histograms = |name| {
            StoreScript::ALL
                .iter()
                .map(|script| self.histogram(name, &[of(script)]))
                .collect()
        };
        StoreMetrics {
            calls: histograms("weir_store_call_seconds"),
            batches: histograms("weir_store_batch_size"),
            errors: StoreScript::ALL
                .iter()
                .map(|script| {
                    let kinds = StoreErrorKind::ALL.iter().map(|kind| kind.as_str());
                    self.counters("weir_store_errors_total", of(script), "kind", kinds)
                })
                .collect(),
            up: self.gauge("weir_store_up", &[]),
            degraded: self.gauge("weir_store_degraded", &[]),
            instances: self.gauge("weir_instances", &[]),
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
        let listener = [("listener", name)];
        ConnectionMetrics {
            open: self.gauge("weir_connections", &listener),
            refused: self.counter("weir_connections_refused_total", &listener),
            timed_out: self.counter("weir_connections_timed_out_total", &listener),
            failed: self.counters(
                "weir_connections_failed_total",
                ("listener", name),
                "kind",
                ConnectionFault::ALL.iter().map(|kind| kind.as_str()),
            ),
        }
    }

    /// The counter of answers over HTTP/2 that nobody takes.
    pub fn untaken(&self) -> Counter {
        self.counter("weir_streams_timed_out_total", &[])
    }

    /// A config holds from now on.
    pub fn loaded(&self) {
        #[expect(clippy::disallowed_methods, reason = "the gauge is a date, for people")]
        let now = std::time::SystemTime::now();
        let since_1970 = now
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        self.gauge("weir_config_last_reload_success_timestamp_seconds", &[])
            .set(since_1970.as_secs_f64());
    }

    /// A reload was asked for.
    pub fn reloaded(&self, success: bool) {
        self.reloads(success).increment(1);
    }

    fn reloads(&self, success: bool) -> Counter {
        let result = if success { "success" } else { "failure" };
        self.counter("weir_config_reloads_total", &[("result", result)])
    }

    fn describe(&self) {
        for (name, help) in COUNTERS {
            self.recorder
                .describe_counter(KeyName::from_const_str(name), None, (*help).into());
        }
        for (name, help) in GAUGES {
            self.recorder
                .describe_gauge(KeyName::from_const_str(name), None, (*help).into());
        }
        for (name, help) in COUNTS {
            self.recorder
                .describe_histogram(KeyName::from_const_str(name), None, (*help).into());
        }
        for (name, help) in SECONDS {
            let unit = Some(Unit::Seconds);
            self.recorder
                .describe_histogram(KeyName::from_const_str(name), unit, (*help).into());
        }
    }

    fn counters<'a>(
        &self,
        name: &'static str,
        fixed: (&'static str, &str),
        label: &'static str,
        values: impl Iterator<Item = &'a str>,
    ) -> Vec<Counter> {
        values
            .map(|value| self.counter(name, &[fixed, (label, value)]))
            .collect()
    }

    fn counter(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
        let counter = self
            .recorder
            .register_counter(&key(name, labels), &METADATA);
        counter.increment(0);
        counter
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        let gauge = self.recorder.register_gauge(&key(name, labels), &METADATA);
        gauge.increment(0.0);
        gauge
    }

    fn histogram(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Histogram {
        self.recorder
            .register_histogram(&key(name, labels), &METADATA)
    }
}

static METADATA: Metadata<'static> = Metadata::new("weir", Level::INFO, None);

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let labels: Vec<Label> = labels
        .iter()
        .map(|(name, value)| Label::new(*name, (*value).to_owned()))
        .collect();
    Key::from_parts(name, labels)
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
