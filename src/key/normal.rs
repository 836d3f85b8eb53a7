//! In which one form do routes and keys see a host and a path?
//!
//! A path keeps its segments. Escapes of characters that need none are undone,
//! the hex digits of all others are upper case; `%2F` stays apart from `/`. A `%`
//! that begins no escape is `%25`. A host is lower case, without port and without the root's dot.

use std::borrow::Cow;

/// Why a path has no normal form: upstreams would disagree on what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// It does not begin with a slash.
    #[error("the path does not begin with a slash")]
    Relative,
    /// It holds a `.` or `..` segment, escaped or not.
    #[error("the path has dot segments")]
    DotSegment,
    /// It holds a backslash, escaped or not.
    #[error("the path has a backslash")]
    Backslash,
    /// It holds a control character, escaped or not.
    #[error("the path has a control character")]
    Control,
}

/// The normal form of a raw request path.
pub fn normal_path(raw: &str) -> Result<Cow<'_, str>, BadPath> {
    if !raw.starts_with('/') {
        return Err(BadPath::Relative);
    }
    if is_plain(raw) {
        return Ok(Cow::Borrowed(raw));
    }
    let path = if raw.contains('%') {
        Cow::Owned(unescape(raw))
    } else {
        Cow::Borrowed(raw)
    };
    if path.contains('\\') || path.contains("%5C") {
        return Err(BadPath::Backslash);
    }
    if path.bytes().any(|byte| byte.is_ascii_control()) || has_escaped_control(&path) {
        return Err(BadPath::Control);
    }
    // What follows a `;` is cut off by some servers before they resolve dots.
    let is_dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    if path.split('/').any(is_dots) {
        return Err(BadPath::DotSegment);
    }
    Ok(path)
}

/// Whether nothing in a path could be meant in another way: that is most paths.
fn is_plain(path: &str) -> bool {
    let mut before = b'/';
    path.bytes().all(|byte| {
        let may_be_dots = byte == b'.' && before == b'/';
        before = byte;
        !may_be_dots && (byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte))
    })
}

/// The normal form of a host, with or without a port.
pub fn normal_host(host: &str) -> Cow<'_, str> {
    let end = match host.bytes().rposition(|byte| byte == b':') {
        Some(colon) if !host.get(colon..).is_some_and(|rest| rest.contains(']')) => colon,
        _ => host.len(),
    };
    let name = host.get(..end).unwrap_or(host);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

fn unescape(raw: &str) -> String {
    let mut path = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('%') {
        path.push_str(before);
        let escape = after.get(..2).and_then(|hex| {
            let plain = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            plain.then(|| u8::from_str_radix(hex, 16).ok()).flatten()
        });
        match escape {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                path.push(char::from(byte));
                rest = after.get(2..).unwrap_or_default();
            }
            Some(byte) => {
                path.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
                rest = after.get(2..).unwrap_or_default();
            }
            // Else what follows could make an escape of it.
            None => {
                path.push_str("%25");
                rest = after;
            }
        }
    }
    path.push_str(rest);
    path
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).map_or('0', |digit| digit.to_ascii_uppercase())
}

fn has_escaped_control(path: &str) -> bool {
    let control = |code: &str| code.starts_with(['0', '1']) || code == "7F";
    path.split('%')
        .skip(1)
        .filter_map(|after| after.get(..2))
        .any(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()) && control(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_normal_form() {
        for (raw, normal) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/%61/%7eb", "/a/~b"),
            ("/a%2fb", "/a%2Fb"),
            ("/a//b", "/a//b"),
            ("/100%", "/100%25"),
            ("/%zz%4", "/%25zz%254"),
            ("/%2%30", "/%2520"),
            ("/a%25b", "/a%25b"),
            ("/%2525", "/%2525"),
            ("/...", "/..."),
            ("/a.b./c..", "/a.b./c.."),
            ("/.well-known/x", "/.well-known/x"),
            ("/ü", "/ü"),
        ] {
            assert_eq!(normal_path(raw).as_deref(), Ok(normal), "{raw}");
        }
    }

    #[test]
    fn paths_that_upstreams_read_differently_are_refused() {
        for (raw, why) in [
            ("", BadPath::Relative),
            ("*", BadPath::Relative),
            ("/..", BadPath::DotSegment),
            ("/a/../b", BadPath::DotSegment),
            ("/a/./b", BadPath::DotSegment),
            ("/a/%2e%2E/b", BadPath::DotSegment),
            ("/a/.%2e", BadPath::DotSegment),
            ("/a/..;x=1/b", BadPath::DotSegment),
            ("/a\\b", BadPath::Backslash),
            ("/a%5cb", BadPath::Backslash),
            ("/a%00b", BadPath::Control),
            ("/a%0D%0Ab", BadPath::Control),
            ("/a%7f", BadPath::Control),
        ] {
            assert_eq!(normal_path(raw), Err(why), "{raw}");
        }
    }

    #[test]
    fn a_host_has_one_normal_form() {
        for (raw, normal) in [
            ("Example.COM:8080", "example.com"),
            ("example.com.", "example.com"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(normal_host(raw), normal, "{raw}");
        }
    }
}
