//! Which key of weir counts the same requests as a key of NGINX?

use std::collections::HashMap;

use super::tree::Directive;
use crate::key::KeyTemplate;

/// A key for a limit of weir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) template: String,
    /// Whether a request may lack it: NGINX doesn't limit such a request.
    pub(super) may_miss: bool,
    /// In what it is not quite the same.
    pub(super) differs: Vec<&'static str>,
}

/// What a variable stands for.
struct Source {
    text: String,
    may_miss: bool,
    is_constant: bool,
    differs: Option<&'static str>,
}

enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// The variables that a `map` makes.
pub(super) type Maps<'a> = HashMap<&'a str, &'a Directive>;

/// The key that `text` comes to in a server of this name; else why there is none.
pub(super) fn key(text: &str, server: &str, maps: &Maps<'_>) -> Result<Key, String> {
    let pieces = pieces(text)?;
    let mut sources = Vec::new();
    for piece in pieces {
        sources.push(match piece {
            Piece::Text(text) => Source::constant(text),
            Piece::Variable(name) => source(name, server, maps)
                .ok_or_else(|| format!("weir has no `${name}` for a key"))?,
        });
    }
    let mut differs: Vec<_> = sources.iter().filter_map(|one| one.differs).collect();
    differs.dedup();
    let alone = sources.iter().filter(|one| !one.is_constant).count() == 1 && sources.len() == 1;
    let may_miss = alone && sources.iter().any(|one| one.may_miss);
    if !alone && sources.iter().any(|one| one.may_miss) && !has_address(&sources) {
        differs.push("requests that lack a part of the key are counted for each route by itself");
    }
    let instead = if has_address(&sources) { "ip" } else { "route" };
    let part = |one: &Source| match (one.is_constant, one.may_miss && !alone) {
        (true, _) => one.text.clone(),
        // NGINX counts by the rest of the key what lacks a part of it.
        (false, true) => format!("{{{}|{instead}}}", one.text),
        (false, false) => format!("{{{}}}", one.text),
    };
    let template: String = sources.iter().map(part).collect();
    match template.parse::<KeyTemplate>() {
        Ok(_) => Ok(Key {
            template,
            may_miss,
            differs,
        }),
        Err(_) if template.is_empty() => Err("an empty key limits nobody".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn has_address(sources: &[Source]) -> bool {
    sources
        .iter()
        .any(|one| !one.is_constant && one.text == "ip")
}

impl Source {
    fn constant(text: &str) -> Self {
        Self {
            // A brace would begin a part of the key.
            text: text.replace(['{', '}'], "_"),
            may_miss: false,
            is_constant: true,
            differs: None,
        }
    }

    fn part(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            may_miss: false,
            is_constant: false,
            differs: None,
        }
    }

    fn but(self, differs: &'static str) -> Self {
        Self {
            differs: Some(differs),
            ..self
        }
    }

    fn optional(text: String) -> Self {
        Self {
            text,
            may_miss: true,
            is_constant: false,
            differs: None,
        }
    }
}

fn source(name: &str, server: &str, maps: &Maps<'_>) -> Option<Source> {
    Some(match name {
        "binary_remote_addr" | "remote_addr" => Source::part("ip"),
        "host" => Source::part("host"),
        "http_host" => Source::part("host").but("the host is counted without its port"),
        "server_name" => Source::constant(server),
        "request_method" => Source::part("method"),
        "uri" | "document_uri" => {
            Source::part("path").but("the path is counted with its slashes as they came")
        }
        "request_uri" => Source::part("path").but("the path is counted without its query"),
        "scheme" => Source::constant("http").but("http and https are counted together"),
        "http_x_forwarded_for" => Source::optional("header.x-forwarded-for".to_owned()).but(
            "any client may write it: better list your proxies in trusted_proxies and use {ip}",
        ),
        _ => prefixed(name).or_else(|| mapped(maps.get(name)?, server, maps))?,
    })
}

fn prefixed(name: &str) -> Option<Source> {
    let optional = |text: String| {
        Source::optional(text)
            .but("a request that has it more than once counts as one that lacks it")
    };
    let (kind, rest) = name.split_once('_')?;
    let source = match kind {
        "http" => format!("header.{}", rest.replace('_', "-").to_ascii_lowercase()),
        "arg" => format!("query.{rest}"),
        "cookie" => format!("cookie.{rest}"),
        _ => return None,
    };
    (!rest.is_empty()).then(|| optional(source))
}

/// `map $http_x_api_key $key { default $http_x_api_key; "" $binary_remote_addr; }` is the
/// first of the two that is present.
fn mapped(map: &Directive, server: &str, maps: &Maps<'_>) -> Option<Source> {
    let variable = |text: &str| -> Option<String> {
        let name = text.strip_prefix('$')?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned())
    };
    // A map of a map could lead in a circle.
    let direct = |name: &str| {
        let none = Maps::new();
        source(name, server, &none).filter(|_| !maps.contains_key(name))
    };
    let from = variable(map.first())?;
    let [one, other] = map.inside() else {
        return None;
    };
    let (default, empty) = match (&*one.name, &*other.name) {
        ("default", "") => (one, other),
        ("", "default") => (other, one),
        _ => return None,
    };
    let same = variable(default.first()).is_some_and(|name| name == from);
    let first = direct(&from).filter(|one| same && one.may_miss)?;
    let second = direct(&variable(empty.first())?).filter(|one| !one.is_constant)?;
    Some(Source {
        text: format!("{}|{}", first.text, second.text),
        may_miss: second.may_miss,
        is_constant: false,
        differs: first.differs,
    })
}

/// Cuts `a$b${c}` into its texts and variables.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        let (name, after) = if let Some(after) = after.strip_prefix('{') {
            after.split_once('}').ok_or("a `${` has no closing brace")?
        } else {
            let other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let end = after.find(other).unwrap_or(after.len());
            after.split_at_checked(end).unwrap_or((after, ""))
        };
        if name.is_empty() {
            return Err("a `$` names no variable".to_owned());
        }
        pieces.push(Piece::Variable(name));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::import::nginx::tree::parse;

    fn template(text: &str) -> Result<(String, bool), String> {
        let maps = "map $http_x_api_key $who { default $http_x_api_key; \"\" $remote_addr; }
            map $request_method $odd { default \"\"; POST $binary_remote_addr; }";
        let tree = parse(maps.as_bytes()).expect("maps");
        let name = |map: &'_ Directive| map.values[1].trim_start_matches('$').to_owned();
        let names: Vec<_> = tree.directives.iter().map(name).collect();
        let maps = names.iter().map(String::as_str).zip(&tree.directives);
        let key = key(text, "www.example.com", &maps.collect())?;
        Ok((key.template, key.may_miss))
    }

    #[test]
    fn keys_count_what_nginx_counts() {
        for (text, expected, may_miss) in [
            ("$binary_remote_addr", "{ip}", false),
            ("${remote_addr}", "{ip}", false),
            ("$host", "{host}", false),
            ("$server_name", "www.example.com", false),
            ("all", "all", false),
            ("$http_x_api_key", "{header.x-api-key}", true),
            ("$arg_user", "{query.user}", true),
            ("$cookie_sid", "{cookie.sid}", true),
            ("$uri", "{path}", false),
            ("$host$uri", "{host}{path}", false),
            ("a-${host}-b", "a-{host}-b", false),
            (
                "$binary_remote_addr$http_x_user",
                "{ip}{header.x-user|ip}",
                false,
            ),
            ("$host:$arg_u", "{host}:{query.u|route}", false),
            ("a{b}", "a_b_", false),
            ("$who", "{header.x-api-key|ip}", false),
            ("$host$who", "{host}{header.x-api-key|ip}", false),
        ] {
            assert_eq!(
                template(text),
                Ok((expected.to_owned(), may_miss)),
                "{text}"
            );
        }
    }

    #[test]
    fn keys_that_weir_does_not_have_say_why() {
        for (text, why) in [
            ("", "an empty key limits nobody"),
            ("$odd", "weir has no `$odd` for a key"),
            (
                "$ssl_client_s_dn",
                "weir has no `$ssl_client_s_dn` for a key",
            ),
            ("$http_", "weir has no `$http_` for a key"),
            ("$", "a `$` names no variable"),
            ("${host", "a `${` has no closing brace"),
        ] {
            assert_eq!(template(text), Err(why.to_owned()), "{text}");
        }
    }
}
