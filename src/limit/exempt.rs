//! Which requests does a limit not count?

use std::collections::HashSet;

use http::Method;
use ipnet::IpNet;

use crate::key::{Facts, KeyHasher, KeyId, KeyTemplate, is_trusted};

/// Those whom a limit lets by.
#[derive(Clone, Debug, Default)]
pub struct Exempt {
    networks: Vec<IpNet>,
    methods: Vec<Method>,
    keys: Vec<String>,
    ids: HashSet<KeyId>,
}

impl Exempt {
    /// Clients with these addresses, requests with these methods, and those of these
    /// keys, as people write them.
    pub fn new(networks: Vec<IpNet>, methods: Vec<Method>, keys: Vec<String>) -> Self {
        Self {
            networks,
            methods,
            keys,
            ids: HashSet::new(),
        }
    }

    /// The same, knowing its keys by their ids.
    #[must_use]
    pub(super) fn resolved(
        self,
        template: &KeyTemplate,
        ipv6_prefix: u8,
        hasher: &KeyHasher,
    ) -> Self {
        let ids = |text: &String| template.ids(text, ipv6_prefix, hasher);
        let ids = self.keys.iter().flat_map(ids).collect();
        Self { ids, ..self }
    }

    /// Whether a request is let by, whatever its key.
    pub fn takes(&self, facts: &Facts<'_>) -> bool {
        let is_listed = |ip| is_trusted(ip, &self.networks);
        self.methods.contains(facts.method) || facts.ip.is_some_and(is_listed)
    }

    /// Whether all requests of a key are let by.
    pub fn takes_key(&self, key: KeyId) -> bool {
        !self.ids.is_empty() && self.ids.contains(&key)
    }
}
