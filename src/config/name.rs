//! Which name may have been meant by one that nobody knows?

use std::fmt::Write as _;

/// Longer texts are no misspelt names.
const LONGEST: usize = 64;
/// So many known names are worth listing.
const LISTED: usize = 12;

/// Whether a limit, an upstream or a route may have this name.
pub fn is_name(text: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(plain)
}

/// The end of a fault about an unknown `name`: the nearest of the known ones,
/// or all of them, also where the name must stay hidden.
pub(super) fn hint<'a>(name: Option<&str>, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let mut hint = String::new();
    let nearest = known
        .iter()
        .filter_map(|candidate| Some((distance(name?, candidate), candidate)))
        .min_by_key(|(distance, _)| *distance);
    let written = match nearest {
        Some((distance, candidate)) if distance <= most_apart(candidate) => {
            write!(hint, "; did you mean `{candidate}`?")
        }
        _ if known.is_empty() => Ok(()),
        _ => {
            let more = if known.len() > LISTED { ", …" } else { "" };
            let list: Vec<&str> = known.into_iter().take(LISTED).collect();
            write!(hint, "; known are {}{more}", list.join(", "))
        }
    };
    written.expect("a string takes any text");
    hint
}

/// How many letters a misspelling of `name` has wrong.
fn most_apart(name: &str) -> usize {
    name.len()
        .div_ceil(3)
        .min(name.len().saturating_sub(1))
        .min(3)
}

/// How many letters must be put in, taken out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    if a.len() > LONGEST {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let changed = corner + usize::from(x != y);
            corner = *cell;
            left = changed.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_apart_are_counted() {
        for (a, b, apart) in [
            ("", "", 0),
            ("rate", "rate", 0),
            ("rat", "rate", 1),
            ("burts", "burst", 2),
            ("", "key", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (apart, apart), "{a} {b}");
        }
    }

    #[test]
    fn a_near_name_is_proposed_and_a_far_one_is_not() {
        let hint = |name| hint(Some(name), ["rate", "burst", "max_wait"]);
        assert_eq!(hint("brust"), "; did you mean `burst`?");
        assert_eq!(hint("maxwait"), "; did you mean `max_wait`?");
        assert_eq!(hint("colour"), "; known are rate, burst, max_wait");
        assert_eq!(super::hint(Some("x"), []), "");
        assert_eq!(super::hint(Some("x"), ["y"]), "; known are y");
        assert_eq!(super::hint(None, ["rate"]), "; known are rate");
        assert_eq!(
            hint(&"x".repeat(1_000)),
            "; known are rate, burst, max_wait"
        );
    }
}
