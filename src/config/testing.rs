//! What do the tests of config faults share?

use std::path::Path;

use super::{Config, Faults, parse};

/// What every config needs, to put below the part that a test is about.
const REST: &str = "
[upstreams.u]
respond = {}
[[routes]]
path = \"/rest\"
upstream = \"u\"
";

pub(super) const SECRET: &str = "5eCr3t";

/// Checks a text as it is; the variables are `SECRET` and `EMPTY`.
pub(super) fn check(text: &str) -> Result<Config, Faults> {
    parse(text, Path::new("x.toml"), &|name| match name {
        "SECRET" => Some(SECRET.to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    })
}

/// A config that begins with `part` and is sound otherwise.
pub(super) fn config(part: &str) -> Config {
    check(&format!("{part}\n{REST}")).expect(part)
}

/// The faults of a config that begins with `part` and is sound otherwise.
pub(super) fn faults(part: &str) -> Vec<String> {
    let faults = check(&format!("{part}\n{REST}")).err();
    let lines = faults.map(|faults| faults.lines().collect::<Vec<_>>());
    let lines = lines.unwrap_or_default().into_iter();
    lines
        .map(|line| line.trim_start_matches("x.toml:").to_owned())
        .collect()
}

/// Each line below `head` alone brings its fault, and no other.
pub(super) fn each_is_a_fault(head: &str, table: &[(&str, &str)]) {
    let line = head.lines().count() + 1;
    for (written, fault) in table {
        let part = format!("{head}\n{written}");
        assert_eq!(faults(&part), [format!("{line}: {fault}")], "{part}");
    }
}
