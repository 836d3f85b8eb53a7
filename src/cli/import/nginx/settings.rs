//! What does `[server]` say?

use super::body::size;
use super::notes::Notes;
use super::plan::{string, takes_server};
use super::servers::Servers;
use super::tree::Directive;
use super::upstreams::human;
use super::value::{millis, own};

/// weir's admin listener where nothing is said, and another where that is taken.
const ADMIN_PORTS: [u16; 2] = [9_180, 9_181];

const TIMEOUTS: [(&str, &str); 4] = [
    ("client_header_timeout", "header_timeout"),
    ("client_body_timeout", "body_timeout"),
    ("send_timeout", "write_timeout"),
    ("keepalive_timeout", "idle_timeout"),
];

/// The keys of `[server]`.
pub(super) fn server(
    http: &[Directive],
    servers: Option<&Servers<'_>>,
    body: u64,
    notes: &mut Notes,
) -> Vec<String> {
    let mut keys = Vec::new();
    if let Some(servers) = servers {
        keys.push(format!("listen = \"{}\"", servers.listen));
        let [usual, other] = ADMIN_PORTS;
        if servers.listen.port() == usual {
            keys.push(format!("admin = \"127.0.0.1:{other}\""));
        }
    }
    keys.push(format!("max_body_bytes = {}", size(body)));
    for (name, key) in TIMEOUTS {
        let Some(directive) = own(http, name) else {
            continue;
        };
        let span = millis(directive.first()).map(|span| format!("{key} = \"{}\"", human(span)));
        match span.filter(|key| takes_server(std::slice::from_ref(key)).is_ok()) {
            Some(span) => {
                notes.taken(directive);
                keys.push(span);
            }
            None => notes.left_out(directive, "weir takes 10ms to 1d"),
        }
    }
    let trusted = trusted(http, servers, notes);
    if !trusted.is_empty() {
        let all: Vec<_> = trusted.iter().map(|one| string(one)).collect();
        keys.push(format!("trusted_proxies = [{}]", all.join(", ")));
    }
    let Some(servers) = servers else {
        return keys;
    };
    if let Some(directive) = servers.proxy_protocol {
        if trusted.is_empty() {
            notes.differs(
                directive,
                "proxy_protocol needs trusted_proxies in [server]: it is left out",
            );
        } else {
            keys.push("proxy_protocol = true".to_owned());
        }
    }
    if let Some(directive) = servers.tls {
        notes.differs(
            directive,
            "weir speaks no TLS until tls in [server] names certificate and key",
        );
        keys.push("# tls = { cert = \"…\", key = \"…\" }".to_owned());
    }
    keys
}

/// Who may say from where a request comes.
fn trusted(http: &[Directive], servers: Option<&Servers<'_>>, notes: &mut Notes) -> Vec<String> {
    let servers = servers.iter().flat_map(|servers| &servers.all);
    let all: Vec<&Directive> = http
        .iter()
        .chain(servers.flat_map(|server| server.directive.inside()))
        .collect();
    let named = |name: &str| {
        all.iter()
            .copied()
            .filter(move |one| one.name == name)
            .collect()
    };
    let headers: Vec<&Directive> = named("real_ip_header");
    let known = |one: &&Directive| {
        let known = ["x-forwarded-for", "proxy_protocol", "forwarded"];
        known.contains(&&*one.first().to_ascii_lowercase())
    };
    if !headers.iter().any(known) {
        let from: Vec<&Directive> = named("set_real_ip_from");
        for directive in from {
            let why = "weir takes a client's address from X-Forwarded-For, Forwarded or a PROXY header only";
            notes.left_out(directive, why);
        }
        return Vec::new();
    }
    let recursive: Vec<&Directive> = named("real_ip_recursive");
    for one in headers.iter().chain(&recursive) {
        notes.taken(one);
    }
    let is_recursive = recursive.iter().any(|one| one.first() == "on");
    let mut trusted: Vec<String> = Vec::new();
    let from: Vec<&Directive> = named("set_real_ip_from");
    for directive in from {
        let one = directive.first().to_owned();
        let key = format!("trusted_proxies = [{}]", string(&one));
        if takes_server(&[key]).is_err() {
            notes.left_out(directive, "it is not a network or an address");
            continue;
        }
        notes.taken(directive);
        if !is_recursive {
            notes.differs(
                directive,
                "addresses of trusted proxies are passed over, as with real_ip_recursive on",
            );
        }
        if !trusted.contains(&one) {
            trusted.push(one);
        }
    }
    trusted
}
