//! Which requests does a route of the config take?

use std::net::Ipv4Addr;

use http::Method;
use http::uri::PathAndQuery;

use super::field::Field;
use super::section::Section;
use super::url::is_host;
use crate::key::{normal_host, normal_path};
use crate::route::Pattern;

const LONGEST_PATH: usize = 1_024;
const STANDARD: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::OPTIONS,
    Method::PATCH,
];

pub(super) fn pattern(section: &Section<'_>) -> Option<Pattern> {
    let path = section.need("path", "write \"/\" for all paths");
    let path = path.and_then(|field| path_of(&field));
    let host = section.get("host").map(|field| host_of(&field));
    let methods = section.get("methods").map(|field| methods_of(&field));
    Some(Pattern {
        path: path?,
        host: host.map_or(Some(None), |host| host.map(Some))?,
        methods: methods.unwrap_or_default(),
    })
}

fn path_of(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let path = text.value;
    let refuse = |problem: &str| field.refuse(problem);
    match normal_path(&path) {
        Err(error) => refuse(&format!("is no path for a route: {error}")),
        Ok(_) if path.contains(['?', '#']) => refuse("must not have a query or a fragment"),
        Ok(_) if path.len() > LONGEST_PATH => refuse("is longer than 1 KiB"),
        Ok(normal) if normal != path => {
            let advice = if text.from_env {
                String::new()
            } else {
                format!(": write `{}`", super::field::printable(&normal))
            };
            refuse(&format!("is not in normal form{advice}"));
        }
        Ok(_) if !path.is_ascii() || path.parse::<PathAndQuery>().is_err() => {
            refuse("has characters that a path has only escaped, like %20 for a space");
        }
        Ok(_) => return Some(path),
    }
    None
}

fn host_of(field: &Field<'_>) -> Option<String> {
    let host = field.text()?.value;
    let normal = normal_host(&host).into_owned();
    let bare = host.strip_suffix('.').unwrap_or(&host);
    let name = normal.strip_prefix("*.");
    let known = match name {
        _ if bare.len() != normal.len() => false,
        Some(name) => is_host(name) && !name.starts_with('[') && name.parse::<Ipv4Addr>().is_err(),
        None => is_host(&normal),
    };
    if !known {
        field.refuse(
            "is not a host without a port, like api.example.com, *.example.com or [::1] (other scripts as xn--…)",
        );
    }
    known.then_some(normal)
}

fn methods_of(field: &Field<'_>) -> Vec<Method> {
    let Some(items) = field.items() else {
        return Vec::new();
    };
    if items.is_empty() {
        field.fault("is empty: leave it out where all methods are meant");
    }
    let mut methods = Vec::new();
    for (item, method) in items
        .iter()
        .filter_map(|item| Some((item, method_of(item)?)))
    {
        if methods.contains(&method) {
            item.refuse("is named twice");
        } else {
            methods.push(method);
        }
    }
    methods
}

pub(super) fn method_of(field: &Field<'_>) -> Option<Method> {
    let text = field.text()?.value;
    let Ok(method) = text.parse::<Method>() else {
        field.refuse("is not a method");
        return None;
    };
    let upper = STANDARD
        .iter()
        .find(|known| known.as_str().eq_ignore_ascii_case(&text));
    match upper {
        Some(known) if *known != method => {
            field.refuse(format_args!(
                "is not a method that anyone sends: write {known}"
            ));
            None
        }
        None if ["TRACE", "CONNECT"].contains(&text.to_ascii_uppercase().as_str()) => {
            field.refuse("is refused on every route");
            None
        }
        _ => Some(method),
    }
}
