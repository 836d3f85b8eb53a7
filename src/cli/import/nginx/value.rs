//! What do times, sizes and levels of an NGINX config come to?

use super::tree::Directive;

/// Where a setting is looked for: in a block, and in those around it.
#[derive(Clone, Debug)]
pub(super) struct Level<'a>(Vec<&'a [Directive]>);

impl<'a> Level<'a> {
    /// The outermost block.
    pub(super) fn outermost(directives: &'a [Directive]) -> Self {
        Self(vec![directives])
    }

    /// The block of `directive` in this one.
    pub(super) fn within(&self, directive: &'a Directive) -> Self {
        let mut levels = self.0.clone();
        levels.push(directive.inside());
        Self(levels)
    }

    /// What stands in the block itself.
    pub(super) fn own(&self) -> &'a [Directive] {
        self.0.last().copied().unwrap_or_default()
    }

    /// The directives of these names in the innermost block that has any: NGINX lets a
    /// block have what stands around it unless it says something itself.
    pub(super) fn nearest(&self, names: &[&str]) -> Vec<&'a Directive> {
        let named = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            let named = level.iter().filter(|one| names.contains(&&*one.name));
            named.collect()
        };
        let found = self.0.iter().rev().map(named);
        found
            .into_iter()
            .find(|all| !all.is_empty())
            .unwrap_or_default()
    }

    /// The one directive of this name that holds here.
    pub(super) fn one(&self, name: &str) -> Option<&'a Directive> {
        self.nearest(&[name]).into_iter().next()
    }
}

/// The one of this name in a block itself.
pub(super) fn own<'a>(directives: &'a [Directive], name: &str) -> Option<&'a Directive> {
    directives.iter().find(|one| one.name == name)
}

/// `90`, `90s`, `1m30s`, `500ms`: in milliseconds.
pub(super) fn millis(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(letters)?;
        let unit: u64 = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return None,
        };
        let span = number.parse::<u64>().ok()?.checked_mul(unit)?;
        sum = sum.checked_add(span)?;
        rest = after.trim_start();
    }
    Some(sum)
}

/// `65536`, `8k`, `10m`, `1g`: in bytes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.strip_prefix(number)? {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_as_nginx_does() {
        for (text, expected) in [
            ("60", Some(60_000)),
            ("500ms", Some(500)),
            ("1m30s", Some(90_000)),
            ("1h 30m", Some(5_400_000)),
            ("", None),
            ("s", None),
            ("5y", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1024", Some(1_024)),
            ("10m", Some(10 << 20)),
            ("8K", Some(8 << 10)),
            ("m", None),
            ("1t", None),
            ("99999999999g", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
