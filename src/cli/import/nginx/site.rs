//! Which requests does a location take?

use super::notes::Notes;
use super::tree::Directive;
use super::value::{Level, own};
use crate::key::normal_path;

/// A location that is no regular expression.
pub(super) struct Site<'a> {
    pub(super) directive: &'a Directive,
    pub(super) path: &'a str,
    pub(super) is_exact: bool,
}

/// A location's path; `None` for one that is a regular expression or a name.
pub(super) fn site<'a>(directive: &'a Directive, notes: &mut Notes) -> Option<Site<'a>> {
    let (sign, path) = match directive.values.as_slice() {
        [path] => {
            let signs = ["=", "^~", "~*", "~", "@"];
            let sign = signs.into_iter().find(|sign| path.starts_with(sign));
            let sign = sign.unwrap_or_default();
            (sign, path.strip_prefix(sign)?)
        }
        [sign, path] => (sign.as_str(), path.as_str()),
        _ => {
            notes.left_out(directive, "it takes a path");
            return None;
        }
    };
    match sign {
        "~" | "~*" => {
            let why = "weir has no regular expressions: its requests go to the route of their path, with all that is in it left out";
            notes.left_out(directive, why);
            None
        }
        "@" => None,
        _ => Some(Site {
            directive,
            path,
            is_exact: sign == "=",
        }),
    }
}

/// The named location that `try_files` falls back to, where it forwards.
pub(super) fn fallback<'a>(
    whole: &Level<'a>,
    level: &Level<'a>,
    notes: &mut Notes,
) -> Option<Level<'a>> {
    let tries = own(level.own(), "try_files")?;
    let name = tries.values.last().filter(|name| name.starts_with('@'))?;
    let named = |one: &&Directive| one.name == "location" && one.first() == name;
    let named = whole.own().iter().find(named)?;
    notes.taken(named);
    notes.differs(
        tries,
        "weir serves no files: all goes to the location named last",
    );
    Some(whole.within(named))
}

/// Where a route's paths begin or end otherwise than the location's.
pub(super) fn edges(site: &Site<'_>, notes: &mut Notes) {
    let path = site.path;
    let bare = path.trim_end_matches('/');
    if site.is_exact {
        let why = format!("the route takes {bare}/… as well");
        notes.differs(site.directive, &why);
    } else if path != "/" && path.ends_with('/') {
        let why = format!("the route takes {bare} as well, and redirects nobody to {path}");
        notes.differs(site.directive, &why);
    } else if path != "/" {
        let why = format!("a route takes whole segments: {path} and {path}/…, not {path}x");
        notes.differs(site.directive, &why);
    }
}

/// A location's path as a route has it: NGINX compares decoded paths.
pub(super) fn written(path: &str) -> Option<String> {
    let mut raw = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            raw.push(char::from(byte));
        } else {
            raw = format!("{raw}%{byte:02X}");
        }
    }
    normal_path(&raw).ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_in_normal_form() {
        for (path, expected) in [
            ("/", Some("/")),
            ("/a b/ä", Some("/a%20b/%C3%A4")),
            ("/100%/x", Some("/100%25/x")),
            ("/a?b", Some("/a%3Fb")),
            ("api", None),
            ("/a/../b", None),
            ("/a\\b", None),
            ("", None),
        ] {
            assert_eq!(written(path).as_deref(), expected, "{path}");
        }
    }
}
