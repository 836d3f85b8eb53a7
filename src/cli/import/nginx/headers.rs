//! What does `proxy_set_header` come to?

use super::notes::Notes;
use super::plan::{string, takes_upstream};
use super::tree::Directive;
use super::value::Level;

/// The keys of an upstream that say what it is sent.
#[derive(Debug, Default)]
pub(super) struct Headers {
    pub(super) keys: Vec<String>,
    /// Whether the Host is that of the upstream.
    pub(super) host_is_upstreams: bool,
}

/// What becomes of one header.
enum Sent {
    /// weir does it anyhow.
    Anyhow,
    HostOfClient,
    HostOfUpstream,
    Constant,
    Not(&'static str),
}

/// The headers that hold at a level.
pub(super) fn headers(level: &Level<'_>, is_grpc: bool, notes: &mut Notes) -> Headers {
    let name = if is_grpc {
        "grpc_set_header"
    } else {
        "proxy_set_header"
    };
    let mut host = None;
    let mut constants: Vec<(String, String)> = Vec::new();
    for directive in level.nearest(&[name]) {
        let [header, value] = directive.values.as_slice() else {
            notes.left_out(directive, "it takes a name and a value");
            continue;
        };
        match sent(&header.to_ascii_lowercase(), value) {
            Sent::Anyhow | Sent::HostOfUpstream => notes.taken(directive),
            Sent::Not(why) => notes.left_out(directive, why),
            Sent::HostOfClient => {
                host = Some("client");
                notes.taken(directive);
            }
            Sent::Constant => constant(directive, (header, value), &mut constants, notes),
        }
    }
    let mut keys = Vec::new();
    keys.extend(host.map(|host| format!("host = \"{host}\"")));
    if !constants.is_empty() {
        keys.push(set_headers(&constants));
    }
    Headers {
        keys,
        host_is_upstreams: host.is_none(),
    }
}

fn constant(
    directive: &Directive,
    (header, value): (&str, &str),
    constants: &mut Vec<(String, String)>,
    notes: &mut Notes,
) {
    let mut more = constants.clone();
    more.push((header.to_ascii_lowercase(), value.to_owned()));
    let keys = ["url = \"http://u\"".to_owned(), set_headers(&more)];
    match takes_upstream(&keys) {
        Ok(()) => {
            notes.taken(directive);
            *constants = more;
        }
        Err(why) => notes.left_out(directive, &why),
    }
}

fn set_headers(headers: &[(String, String)]) -> String {
    let pairs = headers
        .iter()
        .map(|(name, value)| format!("{} = {}", string(name), string(value)));
    format!(
        "set_headers = {{ {} }}",
        pairs.collect::<Vec<_>>().join(", ")
    )
}

fn sent(header: &str, value: &str) -> Sent {
    match (header, value) {
        ("host", "$host" | "$http_host") => Sent::HostOfClient,
        ("host", "$proxy_host") => Sent::HostOfUpstream,
        ("host", _) => Sent::Not("the Host is the upstream's or the client's: see host"),
        ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
        | ("x-forwarded-proto", "$scheme")
        | ("x-forwarded-host", "$host" | "$http_host")
        | ("upgrade", "$http_upgrade")
        | ("connection", _)
        | ("x-request-id", "$request_id" | "$http_x_request_id") => Sent::Anyhow,
        (_, "") => Sent::Not("weir takes no header away"),
        (_, value) if value.contains('$') => Sent::Not(
            "set_headers has constants; weir sets X-Forwarded-For, -Proto and -Host itself",
        ),
        _ => Sent::Constant,
    }
}
