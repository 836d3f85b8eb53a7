//! How do environment variables get into a string?

/// Why a string could not be filled in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpandError {
    /// The variable has no value.
    #[error("the environment variable {0} is not set")]
    Unset(String),
    /// What stands in the braces is no name.
    #[error("`${{{0}}}` does not name an environment variable: write $${{ for a plain ${{")]
    Name(String),
    /// There is no closing brace.
    #[error("a `${{` has no closing brace: write $${{ for a plain ${{")]
    Open,
}

/// Replaces each `${NAME}` by the variable's value and each `$${` by `${`.
///
/// What a variable brings is not looked through again. Fails with all that is
/// wrong with the string.
pub(super) fn expand(
    written: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<String, Vec<ExpandError>> {
    let mut value = String::with_capacity(written.len());
    let mut errors = Vec::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            value.push_str(before);
            value.push_str("${");
            rest = after;
            continue;
        }
        value.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            errors.push(ExpandError::Open);
            return Err(errors);
        };
        if is_name(name) {
            match env(name) {
                Some(variable) => value.push_str(&variable),
                None => errors.push(ExpandError::Unset(name.to_owned())),
            }
        } else {
            errors.push(ExpandError::Name(super::field::printable(name)));
        }
        rest = after;
    }
    value.push_str(rest);
    if errors.is_empty() {
        Ok(value)
    } else {
        Err(errors)
    }
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(plain) && text.starts_with(|first: char| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, Vec<ExpandError>> {
        expand(text, &|name| match name {
            "A" => Some("a".to_owned()),
            "TRICK" => Some("${A}".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn variables_are_filled_in_anywhere() {
        for (text, value) in [
            ("", ""),
            ("${A}", "a"),
            ("x${A}y${A}", "xaya"),
            ("$A ${TRICK}", "$A ${A}"),
            ("$${A}", "${A}"),
            ("$$${A}", "$${A}"),
            ("cost: $5 {A}", "cost: $5 {A}"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn all_that_cannot_be_filled_in_is_named() {
        let unset = |name: &str| ExpandError::Unset(name.to_owned());
        assert_eq!(expanded("${B}${A}${C}"), Err(vec![unset("B"), unset("C")]));
        for name in ["", "1A", "a b", "A-B", "ü", "${A"] {
            let error = ExpandError::Name(name.to_owned());
            assert_eq!(expanded(&format!("${{{name}}}")), Err(vec![error]));
        }
        assert_eq!(expanded("a${A"), Err(vec![ExpandError::Open]));
    }
}
