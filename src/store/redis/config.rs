//! What does `[store]` say of Redis?

use std::time::Duration;

use crate::limit::OnFailure;

/// Where Redis is, and what happens without it.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// Its addresses, with user and password.
    pub urls: Addresses,
    /// What is found there.
    pub topology: Topology,
    /// The certificates that its own must go back to, PEM; else the system's.
    pub ca: Option<Vec<u8>>,
    /// How long a call may take.
    pub timeout: Duration,
    /// What happens to a limit while Redis is away, where it doesn't say so itself.
    pub on_failure: OnFailure,
    /// What all keys begin with.
    pub prefix: String,
}

/// What is found at the addresses of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// Some of the servers of a cluster.
    Cluster,
    /// Sentinels, who know where the master of this name is.
    Sentinel(String),
}

/// Whether Redis can be reached by this URL.
pub fn is_redis_url(text: &str) -> bool {
    use redis::IntoConnectionInfo as _;
    redis::parse_redis_url(text).is_some_and(|url| url.has_host())
        && text.into_connection_info().is_ok()
}

/// URLs that may hold passwords: never shown.
#[derive(Clone)]
pub struct Addresses(Vec<String>);

impl Addresses {
    /// Keeps `urls` from being shown.
    pub fn new(urls: Vec<String>) -> Self {
        Self(urls)
    }

    /// The URLs, for the one place that needs them.
    pub(super) fn reveal(&self) -> &[String] {
        &self.0
    }

    /// The URLs without user and password.
    pub fn shown(&self) -> String {
        let shown = self.0.iter().map(|url| match url.split_once("://") {
            Some((scheme, rest)) => {
                let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
                let address = address.split('?').next().unwrap_or_default();
                format!("{scheme}://{address}")
            }
            None => "…".to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Whether both are the same.
    pub fn same(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl std::fmt::Debug for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_their_secrets() {
        let shown = |url: &str| Addresses::new(vec![url.to_owned()]).shown();
        assert_eq!(shown("redis://u:p@ss@h:1/0"), "redis://h:1/0");
        assert_eq!(shown("rediss://:p@h:1"), "rediss://h:1");
        assert_eq!(shown("redis://h/1?password=x"), "redis://h/1");
        assert_eq!(shown("p4ssword"), "…");
    }
}
