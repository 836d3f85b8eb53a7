//! What does the config say that comes out?

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::config::parse;

/// A table of the config: its name, and its keys as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
    /// Where in the NGINX config it comes from.
    pub(super) from: String,
}

/// A config of weir.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) server: Vec<String>,
    pub(super) limits: Vec<Table>,
    pub(super) upstreams: Vec<Table>,
    pub(super) routes: Vec<Table>,
}

impl Plan {
    /// The config's text, with the notes as comments at its head.
    pub(super) fn toml(&self, from: &str, notes: &[String]) -> String {
        let mut text = format!("# Made from {} by `weir import nginx`.\n", comment(from));
        if !notes.is_empty() {
            text.push_str("# What did not come along, or not quite as it was:\n");
        }
        for note in notes {
            writeln!(text, "#   {}", comment(note)).expect("a string takes any text");
        }
        let mut table = |head: &str, keys: &[String], from: &str| {
            let origin = if from.is_empty() {
                String::new()
            } else {
                format!("# {}\n", comment(from))
            };
            let keys = keys.join("\n");
            write!(text, "\n{origin}{head}\n{keys}\n").expect("a string takes any text");
        };
        table("[server]", &self.server, "");
        for (section, tables) in [("limits", &self.limits), ("upstreams", &self.upstreams)] {
            for one in tables {
                table(&format!("[{section}.{}]", one.name), &one.keys, &one.from);
            }
        }
        for one in &self.routes {
            table("[[routes]]", &one.keys, &one.from);
        }
        text
    }
}

/// Finds names that weir takes and that nobody has yet.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A name like `wanted`.
    pub(super) fn like(&mut self, wanted: &str) -> String {
        const LONGEST: usize = 48;
        let plain = |c: char| match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9' | '_' | '-') => c,
            _ => '-',
        };
        let name: String = wanted.chars().map(plain).take(LONGEST).collect();
        let name = match name.trim_matches('-') {
            "" => "unnamed",
            name => name,
        };
        let numbered = (2..).map(|number: u32| format!("{name}_{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| self.0.insert(name.clone()));
        free.unwrap_or_default()
    }
}

/// A text as a string of TOML; weir puts no variable into it.
pub(super) fn string(text: &str) -> String {
    toml::Value::String(text.replace("${", "$${")).to_string()
}

/// Whether weir takes these keys of an upstream; else what is wrong with them.
pub(super) fn takes_upstream(keys: &[String]) -> Result<(), String> {
    let keys = keys.join("\n");
    takes(&format!(
        "[upstreams.u]\n{keys}\n[[routes]]\npath = \"/\"\nupstream = \"u\"\n"
    ))
}

/// Whether weir takes these keys of a route; else what is wrong with them.
pub(super) fn takes_route(keys: &[String]) -> Result<(), String> {
    let keys = keys.join("\n");
    takes(&format!(
        "[upstreams.u]\nrespond = {{}}\n[[routes]]\nupstream = \"u\"\n{keys}\n"
    ))
}

/// Whether weir takes these keys of `[server]`.
pub(super) fn takes_server(keys: &[String]) -> Result<(), String> {
    let keys = keys.join("\n");
    let rest = "[upstreams.u]\nrespond = {}\n[[routes]]\npath = \"/\"\nupstream = \"u\"\n";
    takes(&format!("[server]\n{keys}\n{rest}"))
}

/// Whether weir takes a config; else the first of what is wrong with it.
pub(super) fn takes(text: &str) -> Result<(), String> {
    match parse(text, Path::new("imported.toml"), &|_| None) {
        Ok(_) => Ok(()),
        Err(faults) => Err(faults
            .iter()
            .next()
            .map(ToString::to_string)
            .unwrap_or_default()),
    }
}

/// A text that stays within its line of comment.
fn comment(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_such_as_weir_takes_and_none_comes_twice() {
        let mut names = Names::default();
        let all = ["One:2", "one-2", "", "ä", "x".repeat(70).as_str()].map(|name| names.like(name));
        assert_eq!(
            all,
            ["one-2", "one-2_2", "unnamed", "unnamed_2", &"x".repeat(48)]
        );
    }

    #[test]
    fn no_text_becomes_a_variable() {
        let text = string("${HOME} \"$${A}\"\n\\");
        let keys = [format!("respond = {{ body = {text} }}")];
        assert_eq!(takes_upstream(&keys), Ok(()), "{text}");
    }
}
