//! Which headers does an upstream get from the config?

use http::{HeaderName, HeaderValue};

use super::field::Field;
use super::section::Section;

/// Headers that say how a message is carried: weir writes them itself.
const RESERVED: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn set_headers(section: &Section<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let Some(table) = section.get("set_headers").and_then(|field| field.section()) else {
        return Vec::new();
    };
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, field) in table.entries() {
        let field = field.secret();
        let value = value(&field);
        let Ok(name) = name.parse::<HeaderName>() else {
            field.fault("is not a header's name");
            continue;
        };
        if let Some(advice) = reserved(&name) {
            field.fault(advice);
        } else if headers.iter().any(|(known, _)| *known == name) {
            field.fault("is set twice: upper and lower case are one name");
        } else if let Some(value) = value {
            headers.push((name, value));
        }
    }
    headers
}

fn reserved(name: &HeaderName) -> Option<&'static str> {
    match name.as_str() {
        "host" => Some("is reserved: choose it with `host = \"upstream\"` or \"client\""),
        name if RESERVED.contains(&name) => {
            Some("is reserved: weir writes it for each connection itself")
        }
        _ => None,
    }
}

fn value(field: &Field<'_>) -> Option<HeaderValue> {
    let text = field.text()?;
    let Ok(mut value) = HeaderValue::from_str(&text.value) else {
        field.refuse(
            "is not a header's value: visible ASCII and spaces only, no line break at its end",
        );
        return None;
    };
    value.set_sensitive(text.from_env);
    Some(value)
}
