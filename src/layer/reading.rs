//! Under which key does a service count a request?

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::header;
use http::request::Parts;

use crate::key::{BadPath, Facts, KeyHasher, KeyId, normal_host, normal_path};
use crate::limit::Policy;

/// What a service's own code reads off a request. Which code that is, is known to the one
/// who writes the service only, so it can be no type of ours.
type Read<T> = Arc<dyn Fn(&Parts) -> Option<T> + Send + Sync>;

/// How a request's key is found.
#[derive(Clone, Default)]
pub(super) struct Reading {
    pub(super) address: Option<Read<IpAddr>>,
    pub(super) key: Option<Read<String>>,
}

/// A request in its normal form.
pub(super) struct Sight<'a> {
    parts: &'a Parts,
    host: Cow<'a, str>,
    path: Cow<'a, str>,
    ip: Option<IpAddr>,
}

impl Reading {
    /// Looks at a request; refuses a path that names nothing for sure.
    pub(super) fn look<'a>(&self, parts: &'a Parts) -> Result<Sight<'a>, BadPath> {
        let named = parts.headers.get(header::HOST);
        let named = named.and_then(|host| host.to_str().ok());
        let host = named.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
        let ip = self.address.as_ref().and_then(|read| read(parts));
        Ok(Sight {
            parts,
            host: normal_host(host.unwrap_or_default()),
            path: normal_path(parts.uri.path())?,
            ip: ip.map(|ip| ip.to_canonical()),
        })
    }

    /// The id of its key, where it has one.
    pub(super) fn key(
        &self,
        policy: &Policy,
        sight: &Sight<'_>,
        hasher: &KeyHasher,
    ) -> Option<KeyId> {
        match &self.key {
            Some(read) => read(sight.parts).map(|text| hasher.hash(&text)),
            None => policy.key.read(&sight.facts(), policy.ipv6_prefix, hasher),
        }
    }
}

impl Sight<'_> {
    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            ip: self.ip,
            host: &self.host,
            method: &self.parts.method,
            // A service has no routes that weir knows of.
            route: "",
            path: &self.path,
            query: self.parts.uri.query(),
            headers: &self.parts.headers,
        }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reading(…)")
    }
}
