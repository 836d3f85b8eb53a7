//! Which keys could somebody mean by a text?

use std::net::IpAddr;

use super::id::{KeyHasher, KeyId};
use super::template::{KeyTemplate, Named, Part, Source, network};

/// So many readings of one text are looked at.
const MOST_READINGS: usize = 64;

/// A way to read a text: each part with its source.
type Reading<'a> = Vec<(&'a str, String)>;

impl KeyTemplate {
    /// The ids of the keys that are written as `text`, the most likely first: one text
    /// may be a header's value or an address, which are two keys.
    pub fn ids(&self, text: &str, ipv6_prefix: u8, hasher: &KeyHasher) -> Vec<KeyId> {
        let mut readings = Vec::new();
        read(
            &self.parts,
            text,
            ipv6_prefix,
            &mut Vec::new(),
            &mut readings,
        );
        let id = |reading: Reading<'_>| {
            let mut key = hasher.begin();
            for (name, value) in reading {
                key.add(name, value.as_bytes());
            }
            key.finish()
        };
        readings.into_iter().map(id).collect()
    }
}

fn read<'a>(
    parts: &'a [Part],
    text: &str,
    ipv6_prefix: u8,
    so_far: &mut Reading<'a>,
    readings: &mut Vec<Reading<'a>>,
) {
    if readings.len() >= MOST_READINGS {
        return;
    }
    match parts.split_first() {
        None if text.is_empty() => readings.push(so_far.clone()),
        None => (),
        Some((Part::Constant(constant), rest)) => {
            if let Some(text) = text.strip_prefix(constant.as_str()) {
                so_far.push(("", constant.clone()));
                read(rest, text, ipv6_prefix, so_far, readings);
                so_far.pop();
            }
        }
        Some((Part::FirstOf(sources), rest)) => {
            for end in ends(text, rest) {
                let (value, text) = text.split_at(end);
                for (name, value) in meanings(sources, value, ipv6_prefix) {
                    so_far.push((name, value));
                    read(rest, text, ipv6_prefix, so_far, readings);
                    so_far.pop();
                }
            }
        }
    }
}

/// Where a part that begins `text` may end, given those that follow.
fn ends(text: &str, rest: &[Part]) -> Vec<usize> {
    match rest.first() {
        None => vec![text.len()],
        Some(Part::Constant(next)) => text.match_indices(next).map(|(at, _)| at).collect(),
        Some(Part::FirstOf(_)) => text.char_indices().map(|(at, _)| at).collect(),
    }
    .into_iter()
    .filter(|end| *end > 0)
    .take(MOST_READINGS)
    .collect()
}

/// What a part's text may be, those first that only few texts are.
fn meanings<'a>(
    sources: &'a [Named],
    text: &str,
    ipv6_prefix: u8,
) -> impl Iterator<Item = (&'a str, String)> {
    let meaning = |named: &'a Named| {
        let value = match named.source {
            Source::Ip => network(text.parse::<IpAddr>().ok()?, ipv6_prefix).to_string(),
            Source::Path if !text.starts_with('/') => return None,
            _ => text.to_owned(),
        };
        let rank = match named.source {
            Source::Ip => 0,
            Source::Path => 1,
            _ => 2,
        };
        Some((rank, named.name.as_str(), value))
    };
    let mut found: Vec<_> = sources.iter().filter_map(meaning).collect();
    found.sort_by_key(|(rank, ..)| *rank);
    found.into_iter().map(|(_, name, value)| (name, value))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::key::Facts;

    fn facts<'a>(ip: &str, headers: &'a HeaderMap) -> Facts<'a> {
        Facts {
            ip: Some(ip.parse().expect("an address")),
            host: "pay.example",
            method: &Method::POST,
            route: "pay:out",
            path: "/v1/x:y",
            query: None,
            headers,
        }
    }

    #[test]
    fn the_text_of_a_key_leads_back_to_it() {
        let hasher = KeyHasher::new("test");
        let mut named = HeaderMap::new();
        named.insert("x-user-id", "al:ice".parse().expect("a value"));
        let nobody = HeaderMap::new();
        for template in [
            "{ip}",
            "all",
            "{header.x-user-id|ip}",
            "{header.x-user-id|ip}:{route}",
            "{route}:{path}",
            "{method}{host}{path}",
            "u={header.x-user-id|ip};",
        ] {
            let template: KeyTemplate = template.parse().expect(template);
            for (ip, headers) in [
                ("10.1.2.3", &named),
                ("10.1.2.3", &nobody),
                ("2001:db8::7", &nobody),
            ] {
                let facts = facts(ip, headers);
                let text = template.text(&facts, 64).expect("all parts");
                let id = template.read(&facts, 64, &hasher).expect("all parts");
                let ids = template.ids(&text, 64, &hasher);
                assert!(ids.contains(&id), "{template} as {text}");
            }
        }
    }

    #[test]
    fn an_address_is_meant_before_a_header_and_any_spelling_of_it() {
        let hasher = KeyHasher::new("test");
        let template: KeyTemplate = "{header.x-user-id|ip}".parse().expect("a key");
        let nobody = HeaderMap::new();
        let id = template.read(&facts("2001:db8::", &nobody), 64, &hasher);
        let ids = template.ids("2001:0db8:0::0007", 64, &hasher);
        assert_eq!((ids.first().copied(), ids.len()), (id, 2));
        assert_eq!(template.ids("alice", 64, &hasher).len(), 1);
    }

    #[test]
    fn no_text_has_too_many_readings() {
        let template: KeyTemplate = "{host}{route}{method}{path}".parse().expect("a key");
        let text = "/".repeat(200);
        let ids = template.ids(&text, 64, &KeyHasher::new("test"));
        assert!(ids.len() <= MOST_READINGS, "{}", ids.len());
        assert_eq!(template.ids("", 64, &KeyHasher::new("test")), []);
    }
}
