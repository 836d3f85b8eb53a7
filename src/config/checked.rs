//! What does a config come to, once nothing in it is wrong?

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::sources::{Files, Sources};
use crate::forward::Target;
use crate::limit::Policy;
use crate::peer::CertificateFiles;
use crate::route::Pattern;
use crate::store::RedisConfig;

/// A config in which every name is known and every number in its range.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[server]`.
    pub server: ServerConfig,
    /// `[store]`.
    pub store: StoreConfig,
    /// `[log]`.
    pub log: LogConfig,
    /// `[limits.*]`, by name.
    pub limits: Vec<Policy>,
    /// `[upstreams.*]`, by name.
    pub upstreams: Vec<Target>,
    /// `[[routes]]`, in their order.
    pub routes: Vec<RouteConfig>,
    /// What all that was read from.
    pub sources: Sources,
}

/// `[server]`.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where requests come in.
    pub listen: SocketAddr,
    /// Where status page, metrics and health are.
    pub admin: SocketAddr,
    /// What clients are shown, where they come over TLS.
    pub tls: Option<CertificateFiles>,
    /// Whether trusted proxies say in a PROXY header for whom they connect.
    pub proxy_protocol: bool,
    /// What changes on the admin listener must carry.
    pub admin_token: Option<Secret>,
    /// Whether the admin listener takes no changes.
    pub admin_read_only: bool,
    /// Who may say from where a request comes.
    pub trusted_proxies: Vec<IpNet>,
    /// How long those who wait are still served after a signal to end.
    pub shutdown_grace: Duration,
    /// Threads that serve requests.
    pub threads: usize,
    /// How long a request's head may take from its first byte.
    pub header_timeout: Duration,
    /// How long a connection may stay without a request.
    pub idle_timeout: Duration,
    /// How long a request's body may make no progress.
    pub body_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Duration,
    /// Connections at once.
    pub max_connections: usize,
    /// The size of a request's head in bytes.
    pub max_header_bytes: usize,
    /// The size of a request's body in bytes, where its route says nothing else.
    pub max_body_bytes: u64,
    /// Requests that wait at once, in all buckets.
    pub max_waiting: usize,
    /// Buckets at once, in all limits.
    pub max_keys: usize,
    /// Whether answers carry `RateLimit-Limit` and its kin as well.
    pub legacy_headers: bool,
}

impl Config {
    /// The files that it was read from: the config itself and those that it names.
    pub fn files(&self) -> Files {
        self.sources.files()
    }

    /// The keys in which `new` says something else, and the files that hold something
    /// else.
    pub fn changes(&self, new: &Self) -> Vec<String> {
        self.sources.changes(&new.sources)
    }

    /// The keys in which `new` differs and that hold only from a start on.
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let secret = self.store.key_secret.reveal() != new.store.key_secret.reveal();
        let format = self.log.format != new.log.format;
        let store = !self.store.same(&new.store);
        let elsewhere = [("key_secret", secret), ("store", store), ("format", format)];
        let elsewhere = elsewhere
            .into_iter()
            .filter_map(|(key, differs)| differs.then_some(key));
        self.server
            .needs_restart(&new.server)
            .into_iter()
            .chain(elsewhere)
            .collect()
    }
}

impl ServerConfig {
    fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        [
            ("listen", self.listen != new.listen),
            ("admin", self.admin != new.admin),
            ("tls", self.tls.is_some() != new.tls.is_some()),
            ("proxy_protocol", self.proxy_protocol != new.proxy_protocol),
            ("shutdown_grace", self.shutdown_grace != new.shutdown_grace),
            ("threads", self.threads != new.threads),
            ("header_timeout", self.header_timeout != new.header_timeout),
            ("idle_timeout", self.idle_timeout != new.idle_timeout),
            ("write_timeout", self.write_timeout != new.write_timeout),
            (
                "max_connections",
                self.max_connections != new.max_connections,
            ),
            (
                "max_header_bytes",
                self.max_header_bytes != new.max_header_bytes,
            ),
            ("max_waiting", self.max_waiting != new.max_waiting),
            ("max_keys", self.max_keys != new.max_keys),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

/// `[store]`.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// What the hash of key texts is keyed with.
    pub key_secret: Secret,
    /// Where instances share their buckets, if they do.
    pub redis: Option<RedisConfig>,
}

impl StoreConfig {
    /// Whether both mean the same store, kept in the same way.
    fn same(&self, other: &Self) -> bool {
        match (&self.redis, &other.redis) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.urls.same(&other.urls)
                    && one.topology == other.topology
                    && one.ca == other.ca
                    && one.timeout == other.timeout
                    && one.on_failure == other.on_failure
                    && one.prefix == other.prefix
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// `[log]`.
#[derive(Clone, Copy, Debug)]
pub struct LogConfig {
    /// How lines are written.
    pub format: LogFormat,
    /// Whether each request has a line.
    pub access: bool,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: a JSON object a line.
    Json,
}

/// One of `[[routes]]`.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// Its name in metrics and logs.
    pub name: Arc<str>,
    /// Which requests it takes.
    pub pattern: Pattern,
    /// Its upstream, an index into [`Config::upstreams`].
    pub upstream: usize,
    /// Its limits in the order in which they are asked, indexes into [`Config::limits`].
    pub limits: Vec<usize>,
    /// Whether the pattern's path is taken off before forwarding.
    pub strip_prefix: bool,
    /// The size of a request's body in bytes; else the server's.
    pub max_body_bytes: Option<u64>,
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being shown.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
