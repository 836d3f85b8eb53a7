//! What does weir count, under which names, with which labels and buckets?
//!
//! All of it is here. Labels come from the config, never from a request.

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

/// Metrics of one name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

/// What is measured, and in which buckets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Count(&'static [f64]),
    Seconds(&'static [f64]),
}

/// Declares all families.
macro_rules! families {
    ($($family:ident = $kind:expr, $name:literal, [$($label:literal),*], $help:literal;)+) => {
        $(pub(super) const $family: Family = Family {
            name: $name,
            kind: $kind,
            labels: &[$($label),*],
            help: $help,
        };)+

        /// All of them.
        pub(super) const FAMILIES: &[Family] = &[$($family),+];
    };
}

families! {
    REQUESTS = Kind::Counter, "weir_requests_total", ["route", "outcome"],
        "Requests by how they ended, one outcome each";
    REFUSED = Kind::Counter, "weir_refused_total", ["limit", "reason"],
        "Requests that a limit refused, by why";
    WOULD_REFUSE = Kind::Counter, "weir_would_refuse_total", ["limit", "reason"],
        "Requests that a limit in dry run would have refused, by why";
    SLOTS = Kind::Counter, "weir_slots_total", ["limit", "fate"],
        "Slots by what became of them";
    UPSTREAM_ERRORS = Kind::Counter, "weir_upstream_errors_total", ["upstream", "kind"],
        "What went wrong with an upstream";
    STORE_ERRORS = Kind::Counter, "weir_store_errors_total", ["script", "kind"],
        "Calls to the store that were not answered, by script and why";
    BODIES_REFUSED = Kind::Counter, "weir_bodies_refused_total", ["route"],
        "Requests whose body was larger than it may be";
    CONNECTIONS_REFUSED = Kind::Counter, "weir_connections_refused_total", ["listener"],
        "Connections turned away because too many were open";
    CONNECTIONS_TIMED_OUT = Kind::Counter, "weir_connections_timed_out_total", ["listener"],
        "Connections closed because their client made no progress";
    CONNECTIONS_FAILED = Kind::Counter, "weir_connections_failed_total", ["listener", "kind"],
        "Connections ended for what their client sent, by what was wrong";
    STREAMS_TIMED_OUT = Kind::Counter, "weir_streams_timed_out_total", [],
        "Answers over HTTP/2 given up because their client took nothing of them";
    CONFIG_RELOADS = Kind::Counter, "weir_config_reloads_total", ["result"],
        "Reloads of the config that were asked for, by how they went";
    WAITING = Kind::Gauge, "weir_waiting", ["limit"],
        "Requests that wait in this instance";
    LINE_LENGTH = Kind::Gauge, "weir_line_length", ["limit"],
        "The longest line of a limit, as last seen";
    OLDEST_WAIT_SECONDS = Kind::Gauge, "weir_oldest_wait_seconds", ["limit"],
        "The longest present wait in a limit, as last seen";
    FULLNESS_RATIO = Kind::Gauge, "weir_fullness_ratio", ["limit"],
        "How much of what an idle bucket admits is taken in the fullest bucket of a limit";
    BUCKETS = Kind::Gauge, "weir_buckets", ["limit"],
        "Keys that a limit holds in memory";
    PAUSED = Kind::Gauge, "weir_paused", ["limit"],
        "Whether a limit lets nobody go for now";
    STORE_UP = Kind::Gauge, "weir_store_up", [],
        "Whether the store answers; memory always does";
    STORE_DEGRADED = Kind::Gauge, "weir_store_degraded", [],
        "Whether limits are kept in other ways than the store's, because it is away";
    RATE = Kind::Gauge, "weir_rate", ["limit"],
        "Requests a second that a limit lets go, as configured";
    BURST = Kind::Gauge, "weir_burst", ["limit"],
        "Requests beyond the steady rate that a limit admits, as configured";
    MAX_IN_FLIGHT = Kind::Gauge, "weir_max_in_flight", ["upstream"],
        "Requests that may be under way to an upstream at once, as configured; +Inf without a bound";
    IN_FLIGHT = Kind::Gauge, "weir_in_flight", ["upstream"],
        "Requests under way to an upstream, to the end of their answers";
    UPSTREAM_UP = Kind::Gauge, "weir_upstream_up", ["upstream"],
        "Whether the last health probe of an upstream succeeded, 1 where there is none";
    CONNECTIONS = Kind::Gauge, "weir_connections", ["listener"],
        "Connections that clients have open";
    CONFIG_LOADED = Kind::Gauge, "weir_config_last_reload_success_timestamp_seconds", [],
        "When the present config was loaded";
    INSTANCES = Kind::Gauge, "weir_instances", [],
        "Instances that share the store, this one included";
    BUILD_INFO = Kind::Gauge, "weir_build_info", ["version", "revision"],
        "Always 1; the labels say what is running";
    STORE_BATCH_SIZE = Kind::Count(BATCHES), "weir_store_batch_size", ["script"],
        "Requests that one call to the store asks for";
    STORE_CALL_SECONDS = Kind::Seconds(CALLS), "weir_store_call_seconds", ["script"],
        "How long calls to the store took that were answered";
    WAIT_SECONDS = Kind::Seconds(WAITS), "weir_wait_seconds", ["limit"],
        "How long admitted requests waited in a limit, 0 for those that needn't";
    SLOT_LATENESS_SECONDS = Kind::Seconds(LATENESS), "weir_slot_lateness_seconds", ["limit"],
        "How much later than due a slot was handed out";
    REQUEST_SECONDS = Kind::Seconds(ANSWERS), "weir_request_seconds", ["route", "code"],
        "From a request's head to the end of its answer, by class of status";
    UPSTREAM_SECONDS = Kind::Seconds(ANSWERS), "weir_upstream_seconds", ["upstream", "code"],
        "From forwarding a request to the head of the upstream's answer, by class of status";
}

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
        /// A header that should say what the request costs doesn't.
        Cost = "cost",
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
        /// A window aligned to UTC.
        FixedWindow = "fixed_window",
        /// A window of which each is kept.
        SlidingWindowLog = "sliding_window_log",
        /// A window of which two counts are kept.
        SlidingWindowCounter = "sliding_window_counter",
        /// Who lives.
        Heartbeat = "heartbeat",
        /// What is paused.
        Pauses = "pauses",
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
