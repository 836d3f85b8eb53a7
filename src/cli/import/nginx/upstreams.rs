//! Which upstreams do `proxy_pass` and `upstream` come to?

use std::collections::BTreeMap;

use super::headers::headers;
use super::notes::Notes;
use super::plan::{Names, Table, string, takes_upstream};
use super::tree::Directive;
use super::value::{Level, millis, own};

/// NGINX's default for each of its timeouts to upstreams, in milliseconds.
const TIMEOUT: u64 = 60_000;
/// The longest that weir takes.
const LONGEST: [(&str, u64); 2] = [("timeout", 86_400_000), ("connect_timeout", 300_000)];

/// The `upstream` blocks of a config, and the upstreams that came of it.
#[derive(Debug, Default)]
pub(super) struct Upstreams<'a> {
    blocks: BTreeMap<&'a str, &'a Directive>,
    made: Vec<Table>,
    names: Names,
}

/// A location that forwards, and where what holds for it is found.
#[derive(Debug)]
pub(super) struct Forwarding<'a> {
    pub(super) path: &'a str,
    pub(super) pass: &'a Directive,
    pub(super) level: &'a Level<'a>,
}

/// How a route forwards.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Forward {
    pub(super) upstream: String,
    pub(super) strip_prefix: bool,
}

/// An upstream's URL, before its path.
struct Server {
    name: String,
    origin: String,
    max_in_flight: Option<u64>,
}

/// What becomes of a request's path.
#[derive(Debug, PartialEq, Eq)]
struct Mapped {
    base: String,
    strip_prefix: bool,
    differs: Option<&'static str>,
}

impl<'a> Upstreams<'a> {
    /// The blocks in `http`.
    pub(super) fn of(http: &'a [Directive]) -> Self {
        let blocks = http.iter().filter(|one| one.name == "upstream");
        Self {
            blocks: blocks.map(|block| (block.first(), block)).collect(),
            ..Self::default()
        }
    }

    /// The upstream that a location forwards to; else why there is none.
    pub(super) fn forward(
        &mut self,
        from: &Forwarding<'_>,
        notes: &mut Notes,
    ) -> Result<Forward, String> {
        let pass = from.pass;
        let url = pass.first();
        if url.contains('$') {
            return Err("an upstream has one URL, without variables".to_owned());
        }
        let is_grpc = pass.name == "grpc_pass";
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None if is_grpc => ("grpc".to_owned(), url),
            None => return Err("it has no URL".to_owned()),
        };
        let scheme = match &*scheme {
            "http" | "grpc" => "http",
            "https" | "grpcs" => "https",
            _ => return Err("an upstream is reached by http or https".to_owned()),
        };
        if rest.starts_with("unix:") {
            return Err("an upstream is reached by TCP".to_owned());
        }
        let (authority, uri) = match rest.find('/').and_then(|at| rest.split_at_checked(at)) {
            Some((authority, uri)) => (authority, Some(uri)),
            None => (rest, None),
        };
        let uri = uri.or_else(|| rewritten(from, notes));
        let mapped = mapped(from.path, uri)?;
        let server = self.server(scheme, authority, notes)?;
        let mut keys = vec![format!(
            "url = {}",
            string(&format!("{}{}", server.origin, mapped.base))
        )];
        let timeout = if is_grpc {
            "grpc_read_timeout"
        } else {
            "proxy_read_timeout"
        };
        let connect = if is_grpc {
            "grpc_connect_timeout"
        } else {
            "proxy_connect_timeout"
        };
        for ((key, most), name) in LONGEST.into_iter().zip([timeout, connect]) {
            keys.push(format!(
                "{key} = \"{}\"",
                span(from.level, name, most, notes)
            ));
        }
        if is_grpc {
            keys.push("protocol = \"h2\"".to_owned());
        }
        keys.extend(
            server
                .max_in_flight
                .map(|most| format!("max_in_flight = {most}")),
        );
        takes_upstream(&keys)?;
        let headers = headers(from.level, is_grpc, notes);
        if self.blocks.contains_key(authority) && headers.host_is_upstreams {
            notes.differs(
                pass,
                "the Host that is sent is the server's address, not the upstream's name",
            );
        }
        keys.extend(headers.keys);
        if scheme == "https" && from.level.one("proxy_ssl_verify").is_none() {
            notes.differs(
                pass,
                "the server's certificate is checked (see ca of an upstream)",
            );
        }
        if let Some(differs) = mapped.differs {
            notes.differs(pass, differs);
        }
        if mapped.strip_prefix && own_is_off(from.level.one("proxy_redirect"), notes).is_none() {
            notes.differs(
                pass,
                "a Location in an answer is passed on as the server wrote it",
            );
        }
        quiet(from.level, notes);
        notes.taken(pass);
        Ok(Forward {
            upstream: self.named(&server.name, keys, &pass.spot()),
            strip_prefix: mapped.strip_prefix,
        })
    }

    /// An upstream that answers by itself.
    pub(super) fn respond(&mut self, name: &str, respond: &str, from: &str) -> String {
        self.named(name, vec![format!("respond = {{ {respond} }}")], from)
    }

    /// The upstreams that came of it all.
    pub(super) fn tables(self) -> Vec<Table> {
        self.made
    }

    fn named(&mut self, name: &str, keys: Vec<String>, from: &str) -> String {
        if let Some(made) = self.made.iter().find(|made| made.keys == keys) {
            return made.name.clone();
        }
        let name = self.names.like(name);
        self.made.push(Table {
            name: name.clone(),
            keys,
            from: from.to_owned(),
        });
        name
    }

    /// The server that an authority or an `upstream` block names.
    fn server(&self, scheme: &str, authority: &str, notes: &mut Notes) -> Result<Server, String> {
        let Some(block) = self.blocks.get(authority) else {
            return Ok(Server {
                name: authority.to_owned(),
                origin: format!("{scheme}://{authority}"),
                max_in_flight: None,
            });
        };
        let servers = || block.inside().iter().filter(|one| one.name == "server");
        let spare = |one: &&Directive| one.texts().any(|text| text == "down" || text == "backup");
        let first = servers().find(|one| !spare(one) && !one.first().starts_with("unix:"));
        let Some(first) = first else {
            return Err(format!("the upstream `{authority}` has no server for weir"));
        };
        notes.taken(block);
        notes.taken(first);
        for other in servers().filter(|one| one.id != first.id) {
            notes.left_out(
                other,
                "an upstream has one URL: put a balancer there, or a name that leads to all",
            );
        }
        let mut max_in_flight = None;
        for parameter in first.texts().skip(1) {
            let most = parameter.strip_prefix("max_conns=");
            let most = most.and_then(|most| most.parse::<u64>().ok());
            match most.filter(|most| (1..=1_000_000).contains(most)) {
                Some(most) => max_in_flight = Some(most),
                None if parameter == "max_conns=0" => {}
                None => notes.differs(first, "its parameters mean nothing for one server"),
            }
        }
        let address = first.first();
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        // NGINX's default here is 80 for https as well.
        let port = if has_port || scheme == "http" {
            ""
        } else {
            ":80"
        };
        Ok(Server {
            name: authority.to_owned(),
            origin: format!("{scheme}://{address}{port}"),
            max_in_flight,
        })
    }
}

/// `rewrite ^/api/(.*)$ /$1 break` takes the location's own path off.
fn rewritten(from: &Forwarding<'_>, notes: &mut Notes) -> Option<&'static str> {
    let rewrite = own(from.level.own(), "rewrite")?;
    let path = from.path;
    let [pattern, to, flag] = rewrite.values.as_slice() else {
        return None;
    };
    let rest = pattern.strip_prefix('^')?.strip_prefix(path)?;
    let takes_off = path.ends_with('/') && matches!(rest, "(.*)" | "(.*)$") && to == "/$1";
    (takes_off && flag == "break").then(|| {
        notes.taken(rewrite);
        "/"
    })
}

/// What becomes of the paths of a location where `proxy_pass` has this path of its own.
fn mapped(path: &str, uri: Option<&str>) -> Result<Mapped, String> {
    let plain = |base: &str, strip_prefix, differs| Mapped {
        base: base.trim_end_matches('/').to_owned(),
        strip_prefix,
        differs,
    };
    let Some(uri) = uri.filter(|uri| *uri != path) else {
        return Ok(plain("", false, None));
    };
    if uri.contains(['?', '#']) {
        return Err("an upstream's URL has no query".to_owned());
    }
    match (path.ends_with('/'), uri.ends_with('/')) {
        (true, true) => Ok(plain(uri, path != "/", None)),
        (true, false) => Err(format!(
            "it would join `{uri}` and the rest of a path without a slash between them"
        )),
        (false, true) => Ok(plain(
            uri,
            true,
            Some("NGINX leaves two slashes where the location's path was; weir leaves one"),
        )),
        (false, false) => Ok(plain(
            uri,
            true,
            Some("the location's path itself is sent with a slash at its end"),
        )),
    }
}

/// A timeout as weir writes it.
fn span(level: &Level<'_>, name: &str, most: u64, notes: &mut Notes) -> String {
    let Some(directive) = level.one(name) else {
        return human(TIMEOUT.min(most));
    };
    let Some(span) = millis(directive.first()) else {
        notes.left_out(directive, "it is not a span of time");
        return human(TIMEOUT.min(most));
    };
    if (1..=most).contains(&span) {
        notes.taken(directive);
    } else {
        notes.differs(directive, &format!("weir takes 1ms to {}", human(most)));
    }
    human(span.clamp(1, most))
}

/// A span of time as weir's config has it.
pub(super) fn human(millis: u64) -> String {
    if millis.is_multiple_of(1_000) {
        format!("{}s", millis / 1_000)
    } else {
        format!("{millis}ms")
    }
}

/// The directive, where it says `off`: that is what weir does.
fn own_is_off<'a>(directive: Option<&'a Directive>, notes: &mut Notes) -> Option<&'a Directive> {
    let off = directive.filter(|one| one.first() == "off")?;
    notes.taken(off);
    Some(off)
}

/// What needs no word because weir does it anyhow.
fn quiet(level: &Level<'_>, notes: &mut Notes) {
    for (name, value) in [
        ("proxy_http_version", "1.1"),
        ("proxy_buffering", "off"),
        ("proxy_request_buffering", "off"),
        ("proxy_cache", "off"),
        ("proxy_redirect", "off"),
        ("proxy_next_upstream", "off"),
        ("proxy_ssl_server_name", "on"),
        ("proxy_ssl_verify", "on"),
    ] {
        if let Some(directive) = level.one(name).filter(|one| one.first() == value) {
            notes.taken(directive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_proxy_pass_takes_the_place_of_the_locations() {
        for (path, uri, base, strip_prefix, exact) in [
            ("/api/", None, "", false, true),
            ("/api/", Some("/"), "", true, true),
            ("/api/", Some("/v2/"), "/v2", true, true),
            ("/api/", Some("/api/"), "", false, true),
            ("/", Some("/"), "", false, true),
            ("/", Some("/app/"), "/app", false, true),
            ("/api", Some("/"), "", true, false),
            ("/api", Some("/v2"), "/v2", true, false),
        ] {
            let mapped = mapped(path, uri).expect(path);
            assert_eq!(mapped.base, base, "{path} {uri:?}");
            assert_eq!(mapped.strip_prefix, strip_prefix, "{path} {uri:?}");
            assert_eq!(mapped.differs.is_none(), exact, "{path} {uri:?}");
        }
        for (path, uri) in [("/api/", "/v2"), ("/", "/app"), ("/", "/?x=y")] {
            assert!(mapped(path, Some(uri)).is_err(), "{path} {uri}");
        }
    }
}
