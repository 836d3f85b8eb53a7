//! What do `[store]` and `[log]` say?

use super::checked::{LogConfig, LogFormat, Secret, StoreConfig};
use super::field::Field;
use super::section::Section;

/// What key texts are hashed with where nothing else is said: instances agree.
const KEY_SECRET: &str = "weir";
const REDIS_KEYS: [&str; 7] = [
    "url",
    "urls",
    "cluster",
    "sentinel",
    "timeout",
    "on_failure",
    "prefix",
];

pub(super) fn store(section: &Section<'_>) -> StoreConfig {
    section.choice("kind", (), &[("memory", ())], &["redis"]);
    section.refuse(
        &REDIS_KEYS,
        "belongs to `kind = \"redis\"`, which is not supported yet",
    );
    let key_secret = section
        .get("key_secret")
        .and_then(|field| secret(&field.secret()));
    StoreConfig {
        key_secret: key_secret.unwrap_or_else(|| Secret::new(KEY_SECRET.to_owned())),
    }
}

pub(super) fn log(section: &Section<'_>) -> LogConfig {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    LogConfig {
        format: section.choice("format", LogFormat::default(), &formats, &[]),
        access: section.flag("access", true),
    }
}

/// A text that is never shown, and not empty.
pub(super) fn secret(field: &Field<'_>) -> Option<Secret> {
    let text = field.text()?;
    if text.value.is_empty() {
        field.refuse("must not be empty");
        return None;
    }
    Some(Secret::new(text.value))
}
