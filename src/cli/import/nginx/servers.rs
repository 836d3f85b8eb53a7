//! Which servers of an NGINX config can one weir be?

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::notes::Notes;
use super::plan::string;
use super::plan::takes_route;
use super::tree::Directive;
use super::value::own;

/// A server that comes along.
#[derive(Debug)]
pub(super) struct Server<'a> {
    pub(super) directive: &'a Directive,
    /// What `$server_name` is.
    pub(super) name: &'a str,
    /// The hosts that it takes; `None` takes those that no other has.
    pub(super) hosts: Vec<Option<String>>,
}

/// The servers on one address.
#[derive(Debug)]
pub(super) struct Servers<'a> {
    pub(super) listen: SocketAddr,
    pub(super) all: Vec<Server<'a>>,
    /// Whether clients come over TLS, as far as NGINX knows.
    pub(super) tls: Option<&'a Directive>,
    pub(super) proxy_protocol: Option<&'a Directive>,
}

const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 80);

/// The servers of `http` that share an address with the first that forwards.
pub(super) fn servers<'a>(http: &'a [Directive], notes: &mut Notes) -> Option<Servers<'a>> {
    let servers = || http.iter().filter(|one| one.name == "server");
    let first = servers()
        .find(|server| forwards(server) && !addresses(server).is_empty())
        .or_else(|| servers().find(|server| !addresses(server).is_empty()))?;
    let listen = addresses(first).first()?.0;
    let mut found = Servers {
        listen,
        all: Vec::new(),
        tls: None,
        proxy_protocol: None,
    };
    let mut default = None;
    for server in servers() {
        let here = addresses(server);
        let Some((_, directive)) = here.iter().find(|(at, _)| same(*at, listen)) else {
            let why = format!(
                "weir listens on one address, here {listen}: another weir can be this server; it is left out with all that is in it"
            );
            notes.left_out(server, &why);
            continue;
        };
        notes.taken(server);
        if let Some(directive) = directive {
            of_listen(directive, &mut found, notes);
            let says = |word| directive.texts().any(|text| text == word);
            if says("default_server") || says("default") {
                default = Some(found.all.len());
            }
        }
        others(server, listen, notes);
        let names = own(server.inside(), "server_name");
        found.all.push(Server {
            directive: server,
            name: names.map_or("", Directive::first),
            hosts: Vec::new(),
        });
    }
    name(&mut found.all, default.unwrap_or(0), notes);
    Some(found)
}

/// Says which hosts each of the servers takes.
fn name(servers: &mut Vec<Server<'_>>, default: usize, notes: &mut Notes) {
    let mut known: Vec<String> = Vec::new();
    for server in servers.iter_mut() {
        let names = server.directive.inside().iter();
        for names in names.filter(|one| one.name == "server_name") {
            notes.taken(names);
            for name in names.texts() {
                for host in hosts(name, names, notes) {
                    if known.contains(&host) {
                        let why = format!("`{host}` is an earlier server's");
                        notes.differs(names, &why);
                    } else {
                        known.push(host.clone());
                        server.hosts.push(Some(host));
                    }
                }
            }
        }
    }
    if let Some(server) = servers.get_mut(default) {
        // Its own names need saying only where another's wildcard would take them.
        let own = server.hosts.clone();
        let others = known
            .iter()
            .filter(|host| !own.contains(&Some((*host).clone())));
        let wild: Vec<_> = others.filter_map(|host| host.strip_prefix('*')).collect();
        let taken = |host: &str| wild.iter().any(|suffix| host.ends_with(suffix));
        server
            .hosts
            .retain(|host| host.as_deref().is_some_and(taken));
        server.hosts.push(None);
    }
    for server in servers.iter().filter(|server| server.hosts.is_empty()) {
        let why = "no request comes to it: it has no name that weir takes, and another server is the default one";
        notes.left_out(server.directive, why);
    }
    servers.retain(|server| !server.hosts.is_empty());
}

/// The hosts that a name in `server_name` takes.
fn hosts(name: &str, directive: &Directive, notes: &mut Notes) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    // Such names are no hosts; people use them for a server that takes the rest.
    if matches!(&*name, "_" | "-" | "--" | "" | "localhost.invalid") {
        return Vec::new();
    }
    let wanted = match name.strip_prefix('.') {
        Some(bare) => vec![bare.to_owned(), format!("*.{bare}")],
        None => vec![name.clone()],
    };
    let mut hosts = Vec::new();
    for host in wanted {
        let keys = [
            "path = \"/\"".to_owned(),
            format!("host = {}", string(&host)),
        ];
        match takes_route(&keys) {
            Ok(()) => hosts.push(host),
            Err(_) => notes.differs(
                directive,
                &format!("`{name}` is left out: a host is a name or *.name"),
            ),
        }
    }
    hosts
}

/// What the `listen` that weir takes over says besides its address.
fn of_listen<'a>(directive: &'a Directive, servers: &mut Servers<'a>, notes: &mut Notes) {
    notes.taken(directive);
    for parameter in directive.texts().skip(1) {
        match parameter {
            "default_server" | "default" | "http2" | "reuseport" => {}
            "ssl" => servers.tls = servers.tls.or(Some(directive)),
            "proxy_protocol" => servers.proxy_protocol = Some(directive),
            _ => notes.differs(directive, "its parameters for the socket are left out"),
        }
    }
}

/// Names the addresses of a server that weir does not listen on.
fn others(server: &Directive, listen: SocketAddr, notes: &mut Notes) {
    let listens = server.inside().iter().filter(|one| one.name == "listen");
    for directive in listens {
        if address(directive.first()) != Some(listen) {
            let why = format!("weir listens on one address, here {listen}");
            notes.left_out(directive, &why);
        }
    }
}

/// Where a server listens, with the directive that says so.
fn addresses(server: &Directive) -> Vec<(SocketAddr, Option<&Directive>)> {
    let mut listens = server
        .inside()
        .iter()
        .filter(|one| one.name == "listen")
        .peekable();
    if listens.peek().is_none() {
        return vec![(DEFAULT, None)];
    }
    let known = listens.filter_map(|one| Some((address(one.first())?, Some(one))));
    known.collect()
}

/// The address that `listen` names, if weir can listen there.
fn address(text: &str) -> Option<SocketAddr> {
    let text = text.replace("localhost", "127.0.0.1");
    let text = text
        .strip_prefix('*')
        .map_or_else(|| text.clone(), |port| format!("0.0.0.0{port}"));
    if let Ok(port) = text.parse::<u16>() {
        return Some(SocketAddr::new(DEFAULT.ip(), port));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(ip) => Some(SocketAddr::new(ip, 80)),
        Err(_) => text.parse().ok(),
    }
}

/// Whether both are one socket to weir: all addresses of IPv4 and those of IPv6 count as one.
fn same(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() && other.ip().is_unspecified();
    one.port() == other.port() && (one.ip() == other.ip() || all)
}

/// Whether something in it goes to an upstream.
fn forwards(directive: &Directive) -> bool {
    let mut inside = directive.inside().iter();
    inside.any(|one| matches!(&*one.name, "proxy_pass" | "grpc_pass") || forwards(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_nginx_does() {
        for (text, expected) in [
            ("80", Some("0.0.0.0:80")),
            ("*:8080", Some("0.0.0.0:8080")),
            ("127.0.0.1", Some("127.0.0.1:80")),
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("localhost:8080", Some("127.0.0.1:8080")),
            ("[::]:443", Some("[::]:443")),
            ("[::1]", Some("[::1]:80")),
            ("unix:/run/x.sock", None),
            ("8000-8010", None),
            ("", None),
        ] {
            assert_eq!(
                address(text),
                expected.map(|it| it.parse().expect("an address")),
                "{text}"
            );
        }
    }
}
