//! What do `[store]` and `[log]` say?

use std::ops::RangeInclusive;
use std::time::Duration;

use super::checked::{LogConfig, LogFormat, Secret, StoreConfig};
use super::field::Field;
use super::pem::{CERTIFICATE, pem};
use super::section::Section;
use crate::limit::OnFailure;
use crate::store::{Addresses, RedisConfig, Topology, is_redis_url};

/// What key texts are hashed with where nothing else is said: instances agree.
const KEY_SECRET: &str = "weir";
const REDIS_KEYS: [&str; 8] = [
    "url",
    "urls",
    "cluster",
    "sentinel",
    "ca",
    "timeout",
    "on_failure",
    "prefix",
];

const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
const LONGEST_PREFIX: usize = 64;
/// What a limit or a store may say of the time without Redis.
pub(super) const ON_FAILURE: [(&str, OnFailure); 3] = [
    ("local", OnFailure::Local),
    ("open", OnFailure::Open),
    ("closed", OnFailure::Closed),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    Redis,
}

/// What the section says, and whether instances share the store.
pub(super) fn store(section: &Section<'_>) -> (Option<StoreConfig>, bool) {
    let kinds = [("memory", Kind::Memory), ("redis", Kind::Redis)];
    let kind = section
        .get("kind")
        .map_or(Some(Kind::Memory), |field| field.choice(&kinds, &[]));
    let key_secret = section
        .get("key_secret")
        .and_then(|field| secret(&field.secret()));
    let redis = match kind {
        Some(Kind::Redis) => redis(section).map(Some),
        Some(Kind::Memory) => {
            section.refuse(&REDIS_KEYS, "belongs to `kind = \"redis\"`");
            Some(None)
        }
        None => {
            // Which keys belong to a kind that isn't there, nobody can tell.
            section.settle(&REDIS_KEYS);
            None
        }
    };
    let store = redis.map(|redis| StoreConfig {
        key_secret: key_secret.unwrap_or_else(|| Secret::new(KEY_SECRET.to_owned())),
        redis,
    });
    (store, kind != Some(Kind::Memory))
}

fn redis(section: &Section<'_>) -> Option<RedisConfig> {
    let urls = urls(section);
    let topology = topology(section);
    let ca = section.get("ca").map(|field| certificates(&field));
    let timeout = section.duration("timeout", Duration::from_millis(50), &TIMEOUT);
    let on_failure = section.choice("on_failure", OnFailure::Local, &ON_FAILURE, &[]);
    let prefix = section.get("prefix").map(|field| prefix(&field));
    let ca = match ca {
        Some(ca) => Some(ca?),
        None => None,
    };
    Some(RedisConfig {
        urls: Addresses::new(urls?),
        topology: topology?,
        ca,
        timeout,
        on_failure,
        prefix: prefix.unwrap_or(Some("weir".to_owned()))?,
    })
}

fn urls(section: &Section<'_>) -> Option<Vec<String>> {
    match (section.get("url"), section.get("urls")) {
        (Some(url), None) => Some(vec![redis_url(&url.secret())?]),
        (None, Some(urls)) => {
            let items = urls.items()?;
            if items.is_empty() {
                urls.fault("must name at least one server");
                return None;
            }
            let read: Vec<Option<String>> = items
                .into_iter()
                .map(|item| redis_url(&item.secret()))
                .collect();
            let read: Vec<String> = read.into_iter().collect::<Option<_>>()?;
            let plain = read.iter().filter(|url| url.starts_with("redis://"));
            if ![0, read.len()].contains(&plain.count()) {
                urls.fault("must be all redis:// or all rediss://");
                return None;
            }
            Some(read)
        }
        (Some(_), Some(urls)) => {
            urls.fault("a store has either a url or urls, not both");
            None
        }
        (None, None) => {
            section.fault(
                "url",
                "is missing: write where Redis is, like \"redis://127.0.0.1:6379/0\"",
            );
            None
        }
    }
}

/// The URL of a Redis server. It may hold a password, so it is never shown.
fn redis_url(field: &Field<'_>) -> Option<String> {
    let text = field.text()?.value;
    if !text.starts_with("redis://") && !text.starts_with("rediss://") {
        field.fault("must begin with redis:// or rediss://");
        return None;
    }
    if text.contains(['?', '#']) {
        field.fault("must not have a query or a fragment");
        return None;
    }
    if !is_redis_url(&text) {
        field.fault("is not a URL like redis://user:password@127.0.0.1:6379/0");
        return None;
    }
    Some(text)
}

fn topology(section: &Section<'_>) -> Option<Topology> {
    let cluster = section.flag("cluster", false);
    let sentinel = section.get("sentinel");
    match sentinel {
        None if cluster => Some(Topology::Cluster),
        None => {
            if let Some(urls) = section.get("urls")
                && urls.items().is_some_and(|items| items.len() > 1)
            {
                urls.fault("several servers go with cluster = true or sentinel = \"NAME\" only");
                return None;
            }
            Some(Topology::Single)
        }
        Some(field) if cluster => {
            field.fault("a store is either a cluster or named by sentinels, not both");
            None
        }
        Some(field) => {
            let name = field.text()?.value;
            if name.is_empty() {
                field.refuse("must name the master that the sentinels know");
                return None;
            }
            Some(Topology::Sentinel(name))
        }
    }
}

fn certificates(field: &Field<'_>) -> Option<Vec<u8>> {
    let path = pem(field, CERTIFICATE)?;
    match super::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            field.refuse(format_args!("cannot be read: {error}"));
            None
        }
    }
}

fn prefix(field: &Field<'_>) -> Option<String> {
    let prefix = field.text()?.value;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    if prefix.is_empty() || prefix.len() > LONGEST_PREFIX || !prefix.bytes().all(plain) {
        field.refuse("must have 1 to 64 of A-Z, a-z, 0-9, `_`, `-`, `.` and `:`");
        return None;
    }
    Some(prefix)
}

pub(super) fn log(section: &Section<'_>) -> LogConfig {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    LogConfig {
        format: section.choice("format", LogFormat::default(), &formats, &[]),
        access: section.flag("access", true),
    }
}

/// A text that is never shown, and not empty.
pub(super) fn secret(field: &Field<'_>) -> Option<Secret> {
    let text = field.text()?;
    if text.value.is_empty() {
        field.refuse("must not be empty");
        return None;
    }
    Some(Secret::new(text.value))
}
