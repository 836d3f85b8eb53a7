//! What does the config file say?
//!
//! `document`, `section` and `field` walk the file and gather what is wrong with
//! it; `server`, `store`, `limit`, `upstream` and `route` know the keys, their
//! defaults and their ranges; `checked` is what comes of it.

use std::io::Read as _;
use std::path::Path;

use toml::de::DeTable;

mod checked;
mod document;
mod endpoint;
mod expand;
mod fault;
mod field;
mod headers;
mod limit;
mod name;
mod outlook;
mod overrides;
mod pattern;
mod pem;
mod quantity;
mod route;
mod rule;
mod section;
mod server;
mod sources;
mod store;
mod upstream;
mod url;
mod warnings;

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod examples_tests;
#[cfg(test)]
mod faults_tests;
#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod route_tests;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod upstream_tests;
#[cfg(test)]
mod warnings_tests;

pub use checked::{Config, LogConfig, LogFormat, RouteConfig, Secret, ServerConfig, StoreConfig};
pub use fault::{Fault, Faults};
pub use name::is_name;
pub use outlook::Outlook;
pub use sources::{Files, Sources, fingerprint};
pub use warnings::{Warning, warnings};

use document::Document;
use section::Section;

use crate::limit::Policy;

/// No config is longer; a device or a log given by mistake is.
const LONGEST_FILE: u64 = 4 << 20;

/// Reads and checks a config file, with the process's environment variables.
///
/// Fails with all that is wrong with it.
pub fn load(path: &Path) -> Result<Config, Faults> {
    let unreadable = |problem: String| {
        Faults::one(path, Fault::of_file(problem)).in_files([(path.to_owned(), None)])
    };
    let bytes = read(path).map_err(|error| unreadable(error.to_string()))?;
    let Some(bytes) = bytes else {
        return Err(unreadable("longer than 4 MiB".to_owned()));
    };
    let hash = sources::hash(&bytes);
    match parse_bytes(&bytes, path, &|name| std::env::var(name).ok()) {
        Ok(config) => Ok(Config {
            sources: config.sources.of_file(path, hash),
            ..config
        }),
        Err(faults) => Err(faults.in_files([(path.to_owned(), Some(hash))])),
    }
}

/// Checks the text of a config file that lies, or would lie, at `path`: files
/// that it names are looked up from there, and variables in `env`.
///
/// Fails with all that is wrong with it.
pub fn parse(
    text: &str,
    path: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Faults> {
    let table = table(text, path)?;
    let document = Document::new(text, path, env);
    let config = whole(&Section::root(&document, table.get_ref()));
    document.conclude(|sources| Some(Config { sources, ..config? }))
}

/// Checks a text that holds one `[limits.NAME]` and nothing else, with the process's
/// environment variables.
///
/// Fails with all that is wrong with it.
pub fn parse_limit(text: &str) -> Result<Policy, Faults> {
    let path = Path::new("limit");
    let table = table(text, path)?;
    let env = |name: &str| std::env::var(name).ok();
    let document = Document::new(text, path, &env);
    let limit = only_limit(&Section::root(&document, table.get_ref()));
    document.conclude(|_sources| limit)
}

fn table<'a>(text: &'a str, path: &Path) -> Result<toml::Spanned<DeTable<'a>>, Faults> {
    DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| document::line(text, span.start));
        Faults::one(path, Fault::of_syntax(line, error.message()))
    })
}

fn only_limit(root: &Section<'_>) -> Option<Policy> {
    let limits = root.named("limits", |section, name| {
        limit::policy(section, name, false)
    });
    root.close();
    if limits.names.len() != 1 {
        root.fault("limits", "must have one limit: [limits.NAME]");
    }
    limits.checked?.pop()
}

fn parse_bytes(
    bytes: &[u8],
    path: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Faults> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, path, env),
        Err(error) => {
            let before = bytes.iter().take(error.valid_up_to());
            let line = 1 + before.filter(|byte| **byte == b'\n').count();
            let fault = Fault::of_syntax(Some(line), "not UTF-8 text");
            Err(Faults::one(path, fault))
        }
    }
}

/// The file's bytes; `None` where it is too long to be a config.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= LONGEST_FILE).then_some(bytes))
}

/// The whole config; `None` only where a fault was noted.
fn whole(root: &Section<'_>) -> Option<Config> {
    let server = root.section("server", server::server);
    let (store, is_shared) = root.section("store", store::store);
    let log = root.section("log", store::log);
    let limits = root.named("limits", |section, name| {
        limit::policy(section, name, is_shared)
    });
    let upstreams = root.named("upstreams", upstream::target);
    let routes = route::routes(root, &limits.names, &upstreams.names);
    root.close();
    Some(Config {
        server,
        store: store?,
        log,
        limits: limits.checked?,
        upstreams: upstreams.checked?,
        routes: routes?,
        sources: Sources::default(),
    })
}
