//! Which config of weir does what an NGINX config does?
//!
//! `words` and `tree` read it, `notes` keeps what did not come along. `servers`,
//! `routes`, `limits` and `upstreams` make the tables of weir's config, which `plan`
//! writes; `settings` makes `[server]`.

mod access;
mod allowed;
mod answers;
mod body;
mod fault;
#[cfg(test)]
mod fuzz_tests;
mod headers;
mod key;
mod limits;
mod notes;
mod plan;
mod reasons;
mod routes;
mod servers;
mod settings;
mod site;
#[cfg(test)]
mod tests;
mod tree;
mod upstreams;
mod value;
mod words;

use std::path::Path;

use body::body;
use fault::Fault;
use limits::Limits;
use notes::Notes;
use plan::{Plan, takes};
use routes::Routes;
use servers::servers;
use tree::{Directive, Tree, read};
use upstreams::Upstreams;
use value::Level;

/// A config of weir, and what did not come along.
#[derive(Debug)]
pub(super) struct Imported {
    pub(super) toml: String,
    /// Each with its file and line.
    pub(super) notes: Vec<String>,
}

/// Imports the config at `path`.
///
/// Fails where something is wrong with it.
pub(super) fn import(path: &Path) -> anyhow::Result<Imported> {
    let imported = imported(read(path)?, &path.display().to_string())?;
    if let Err(fault) = takes(&imported.toml) {
        anyhow::bail!("what came of it is no config, which is a fault of weir's: {fault}");
    }
    Ok(imported)
}

fn imported(tree: Tree, from: &str) -> Result<Imported, Fault> {
    let mut notes = Notes::default();
    let http = http(&tree.directives, &mut notes);
    let level = Level::outermost(http);
    let limits = Limits::of(http, &mut notes)?;
    let body = body(&level, &mut notes);
    let mut routes = Routes::new(limits, Upstreams::of(http), body);
    let servers = servers(http, &mut notes);
    for server in servers.iter().flat_map(|servers| &servers.all) {
        routes.add(server, &level, &mut notes)?;
    }
    let server = settings::server(http, servers.as_ref(), body, &mut notes);
    notes.sweep(&tree.directives);
    let [limits, upstreams, routes] = routes.tables();
    let plan = Plan {
        server,
        limits,
        upstreams,
        routes,
    };
    let mut notes = notes.lines();
    notes.extend(tree.missing);
    Ok(Imported {
        toml: plan.toml(from, &notes),
        notes,
    })
}

/// What is in the `http` block; of a file that has none, all of it: such a file is included
/// within one.
fn http<'a>(directives: &'a [Directive], notes: &mut Notes) -> &'a [Directive] {
    let mut blocks = directives
        .iter()
        .filter(|one| one.name == "http" && one.block.is_some());
    let Some(http) = blocks.next() else {
        return directives;
    };
    notes.taken(http);
    for other in blocks {
        notes.left_out(other, "there is an earlier one");
    }
    http.inside()
}
