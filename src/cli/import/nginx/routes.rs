//! Which routes do the locations of a server come to?
//!
//! What NGINX would not have sent to an upstream, weir does not send there either: such a
//! location becomes a route that answers by itself.

use std::collections::BTreeSet;

use super::access::{Access, access};
use super::answers::{answer, forbidden, not_found, not_imported};
use super::body::{body, size};
use super::fault::Fault;
use super::limits::Limits;
use super::notes::Notes;
use super::plan::{Table, string, takes_route};
use super::servers::Server;
use super::site::{Site, edges, fallback, site, written};
use super::tree::Directive;
use super::upstreams::{Forward, Forwarding, Upstreams};
use super::value::{Level, own};

/// What routes are made with.
#[derive(Debug)]
pub(super) struct Routes<'a> {
    pub(super) limits: Limits<'a>,
    pub(super) upstreams: Upstreams<'a>,
    /// The largest body where nothing else is said.
    pub(super) body: u64,
    made: Vec<Table>,
    /// Host and path of each, the latter without a slash at its end.
    taken: BTreeSet<(Option<String>, String)>,
}

/// Where requests of a route go, and what they fall under.
struct Leads {
    upstream: String,
    strip_prefix: bool,
    methods: Vec<String>,
    limits: Vec<String>,
}

impl<'a> Routes<'a> {
    /// With nothing made yet.
    pub(super) fn new(limits: Limits<'a>, upstreams: Upstreams<'a>, body: u64) -> Self {
        Self {
            limits,
            upstreams,
            body,
            made: Vec::new(),
            taken: BTreeSet::new(),
        }
    }

    /// Adds the routes of a server that lies at a level of `http`.
    pub(super) fn add(
        &mut self,
        server: &Server<'a>,
        http: &Level<'a>,
        notes: &mut Notes,
    ) -> Result<(), Fault> {
        let level = http.within(server.directive);
        if let Some(directive) = own(level.own(), "return") {
            let upstream = answer(directive, &level, &mut self.upstreams, notes);
            for location in level.own().iter().filter(|one| one.name == "location") {
                notes.left_out(location, "the server's `return` comes before it");
            }
            let leads = Leads::to(upstream, Vec::new());
            self.route(server, (directive, "/"), &level, &leads, notes);
            return Ok(());
        }
        // An exact location gives way to the one whose paths begin so.
        for is_exact in [false, true] {
            self.locations(server, &level, &level, is_exact, notes)?;
        }
        let open = |host: &&Option<String>| {
            host.is_some() && !self.taken.contains(&((*host).clone(), String::new()))
        };
        if server.hosts.iter().any(|host| open(&host)) {
            // Else such a request would fall to the server that takes any host.
            let upstream = not_found(&mut self.upstreams);
            let limits = self.limits.at(&level, server.name, notes)?;
            let leads = Leads::to(upstream, limits);
            self.route(server, (server.directive, "/"), &level, &leads, notes);
        }
        Ok(())
    }

    /// All that came of it: limits, upstreams, routes.
    pub(super) fn tables(mut self) -> [Vec<Table>; 3] {
        if self.made.is_empty() {
            let upstream = not_found(&mut self.upstreams);
            self.made.push(Table {
                name: String::new(),
                keys: vec![
                    "path = \"/\"".to_owned(),
                    format!("upstream = \"{upstream}\""),
                ],
                from: "nothing is forwarded".to_owned(),
            });
        }
        [self.limits.tables(), self.upstreams.tables(), self.made]
    }

    fn locations(
        &mut self,
        server: &Server<'a>,
        whole: &Level<'a>,
        outer: &Level<'a>,
        exact: bool,
        notes: &mut Notes,
    ) -> Result<(), Fault> {
        for directive in outer.own().iter().filter(|one| one.name == "location") {
            if let Some(site) = site(directive, notes) {
                let level = outer.within(directive);
                if site.is_exact == exact {
                    notes.taken(directive);
                    self.location(server, &site, whole, &level, notes)?;
                }
                self.locations(server, whole, &level, exact, notes)?;
            }
        }
        Ok(())
    }

    fn location(
        &mut self,
        server: &Server<'a>,
        site: &Site<'a>,
        whole: &Level<'a>,
        level: &Level<'a>,
        notes: &mut Notes,
    ) -> Result<(), Fault> {
        let directive = site.directive;
        let Some(path) = written(site.path) else {
            notes.left_out(directive, "weir has no such path for a route");
            return Ok(());
        };
        if self.is_taken(server, &path) {
            notes.left_out(directive, "another location of it takes these paths here");
            return Ok(());
        }
        if site.is_exact && path == "/" {
            notes.left_out(
                directive,
                "a route takes all that begins so: this would be all",
            );
            return Ok(());
        }
        edges(site, notes);
        if let Some(returned) = own(level.own(), "return") {
            if own(level.own(), "limit_req").is_some() {
                notes.differs(returned, "as in NGINX, no limit_req holds for it");
            }
            let upstream = answer(returned, level, &mut self.upstreams, notes);
            let leads = Leads::to(upstream, Vec::new());
            self.route(server, (directive, &path), level, &leads, notes);
            return Ok(());
        }
        let mut leads = Leads::to(String::new(), self.limits.at(level, server.name, notes)?);
        match access(level, notes) {
            Access::Open => {}
            Access::Closed => {
                for pass in level.own().iter().filter(|one| one.name.ends_with("_pass")) {
                    notes.left_out(pass, "nobody may come to its location: see there");
                }
                leads.upstream = forbidden(&mut self.upstreams);
                self.route(server, (directive, &path), level, &leads, notes);
                return Ok(());
            }
            Access::Methods(methods) => {
                let upstream = forbidden(&mut self.upstreams);
                let others = Leads::to(upstream, leads.limits.clone());
                leads.methods = methods;
                self.goes(site, whole, level, &mut leads, notes);
                self.route(server, (directive, &path), level, &leads, notes);
                self.once_more(server, (directive, &path), level, &others, notes);
                return Ok(());
            }
        }
        if let Some(internal) = own(level.own(), "internal") {
            notes.taken(internal);
            leads.upstream = not_found(&mut self.upstreams);
        } else {
            self.goes(site, whole, level, &mut leads, notes);
        }
        self.route(server, (directive, &path), level, &leads, notes);
        Ok(())
    }

    /// Finds where a location forwards to.
    fn goes(
        &mut self,
        site: &Site<'a>,
        whole: &Level<'a>,
        level: &Level<'a>,
        leads: &mut Leads,
        notes: &mut Notes,
    ) {
        let fallback = fallback(whole, level, notes);
        let level = fallback.as_ref().unwrap_or(level);
        let pass = own(level.own(), "proxy_pass").or_else(|| own(level.own(), "grpc_pass"));
        let Some(pass) = pass else {
            notes.differs(
                site.directive,
                "it forwards nothing: weir answers 501 there",
            );
            leads.upstream = not_imported(&mut self.upstreams);
            return;
        };
        let path = site.path;
        let forwarding = Forwarding { path, pass, level };
        match self.upstreams.forward(&forwarding, notes) {
            Ok(Forward {
                upstream,
                strip_prefix,
            }) => {
                leads.upstream = upstream;
                leads.strip_prefix = strip_prefix;
            }
            Err(why) => {
                notes.left_out(pass, &format!("{why}; weir answers 501 there"));
                leads.upstream = not_imported(&mut self.upstreams);
            }
        }
    }

    fn is_taken(&self, server: &Server<'_>, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let taken = |host: &Option<String>| self.taken.contains(&(host.clone(), path.to_owned()));
        server.hosts.iter().all(taken)
    }

    fn route(
        &mut self,
        server: &Server<'_>,
        (from, path): (&Directive, &str),
        level: &Level<'a>,
        leads: &Leads,
        notes: &mut Notes,
    ) {
        for host in &server.hosts {
            let place = (host.clone(), path.trim_end_matches('/').to_owned());
            if self.taken.insert(place) {
                let keys = self.keys((host.as_deref(), path), level, leads, notes);
                self.push(from, keys, notes);
            }
        }
    }

    /// A second route with the same path, for the methods that the first does not take.
    fn once_more(
        &mut self,
        server: &Server<'_>,
        (from, path): (&Directive, &str),
        level: &Level<'a>,
        leads: &Leads,
        notes: &mut Notes,
    ) {
        for (number, host) in server.hosts.iter().enumerate() {
            let mut keys = self.keys((host.as_deref(), path), level, leads, notes);
            // Its path and host are another's name.
            keys.push(format!("name = \"other-methods-{}-{number}\"", from.id));
            self.push(from, keys, notes);
        }
    }

    fn push(&mut self, from: &Directive, keys: Vec<String>, notes: &mut Notes) {
        // Upstream and limits are checked where they are made.
        let others = |key: &&String| !key.starts_with("upstream") && !key.starts_with("limits");
        let own: Vec<_> = keys.iter().filter(others).cloned().collect();
        match takes_route(&own) {
            Ok(()) => self.made.push(Table {
                name: String::new(),
                keys,
                from: format!("{} {} {}", from.spot(), from.name, from.values.join(" ")),
            }),
            Err(why) => notes.left_out(from, &why),
        }
    }

    fn keys(
        &self,
        (host, path): (Option<&str>, &str),
        level: &Level<'a>,
        leads: &Leads,
        notes: &mut Notes,
    ) -> Vec<String> {
        let mut keys = Vec::new();
        keys.extend(host.map(|host| format!("host = {}", string(host))));
        keys.push(format!("path = {}", string(path)));
        let list = |all: &[String]| {
            let quoted: Vec<_> = all.iter().map(|one| string(one)).collect();
            quoted.join(", ")
        };
        if !leads.methods.is_empty() {
            keys.push(format!("methods = [{}]", list(&leads.methods)));
        }
        keys.push(format!("upstream = \"{}\"", leads.upstream));
        if !leads.limits.is_empty() {
            keys.push(format!("limits = [{}]", list(&leads.limits)));
        }
        if leads.strip_prefix {
            keys.push("strip_prefix = true".to_owned());
        }
        let body = body(level, notes);
        if body != self.body {
            keys.push(format!("max_body_bytes = {}", size(body)));
        }
        keys
    }
}

impl Leads {
    fn to(upstream: String, limits: Vec<String>) -> Self {
        Self {
            upstream,
            strip_prefix: false,
            methods: Vec::new(),
            limits,
        }
    }
}
