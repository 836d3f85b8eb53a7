//! What is the value of a key, and is it in its range?

use std::fmt::Display;

use toml::Spanned;
use toml::de::DeValue;

use super::document::Document;
use super::name::hint;
use super::section::Section;

/// So much of a value is shown in a fault.
const SHOWN: usize = 64;

/// A key's value. What reads it answers `None` after noting a fault.
#[derive(Clone)]
pub(super) struct Field<'a> {
    document: &'a Document<'a>,
    path: String,
    value: &'a Spanned<DeValue<'a>>,
    secret: bool,
}

/// A string with its variables filled in.
pub(super) struct Text {
    /// The string.
    pub(super) value: String,
    /// Whether a part of it came through `${…}`, and must never be shown.
    pub(super) from_env: bool,
}

impl Text {
    /// The string, where it may be shown.
    pub(super) fn shown(&self) -> Option<&str> {
        (!self.from_env).then_some(self.value.as_str())
    }
}

impl<'a> Field<'a> {
    pub(super) fn new(
        document: &'a Document<'a>,
        path: String,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Self {
        Self {
            document,
            path,
            value,
            secret: false,
        }
    }

    /// The same, never shown unless it is written as `${…}`.
    pub(super) fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    pub(super) fn document(&self) -> &'a Document<'a> {
        self.document
    }

    fn at(&self) -> usize {
        self.value.span().start
    }

    /// The key and its line, for a fault of another.
    pub(super) fn place(&self) -> String {
        let line = self.document.line(self.at());
        format!("{} (line {line})", self.path)
    }

    /// Notes a fault that does not need the value.
    pub(super) fn fault(&self, problem: impl Display) {
        self.document
            .fault(Some(self.at()), &self.path, problem.to_string());
    }

    /// Notes that the value, which is shown, has a `problem`.
    pub(super) fn refuse(&self, problem: impl Display) {
        match self.shown() {
            Some(shown) => self.fault(format_args!("`{shown}` {problem}")),
            None => self.fault(problem),
        }
    }

    /// The value, to be matched on its type.
    pub(super) fn value(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// The value as it is written, for a fault: never what a variable brought.
    pub(super) fn shown(&self) -> Option<String> {
        match self.value.get_ref() {
            DeValue::String(text) if self.secret && !text.contains("${") => None,
            DeValue::Array(_) | DeValue::Table(_) => None,
            DeValue::String(text) => Some(printable(text)),
            _ if self.secret => None,
            _ => Some(printable(self.document.written(self.value.span()))),
        }
    }

    /// Notes that the value is of another type than the one `wanted`.
    pub(super) fn mismatch(&self, wanted: &str) {
        match self.value.get_ref() {
            DeValue::Array(_) => self.fault(format_args!("must be {wanted}, not a list")),
            DeValue::Table(_) => self.fault(format_args!("must be {wanted}, not a table")),
            _ => self.refuse(format_args!("must be {wanted}")),
        }
    }

    /// A string.
    pub(super) fn text(&self) -> Option<Text> {
        self.text_like("a string")
    }

    /// A string that is called something better than one in a fault.
    pub(super) fn text_like(&self, wanted: &str) -> Option<Text> {
        let DeValue::String(written) = self.value.get_ref() else {
            self.mismatch(wanted);
            return None;
        };
        match self.document.expand(written) {
            Ok(value) => Some(Text {
                value,
                from_env: written.contains("${"),
            }),
            Err(errors) => {
                for error in errors {
                    self.fault(error);
                }
                None
            }
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.mismatch("true or false");
        }
        flag
    }

    /// One of the words in `now`; those in `later` come with a later version.
    pub(super) fn choice<T: Copy>(&self, now: &[(&str, T)], later: &[&str]) -> Option<T> {
        let text = self.text()?;
        let word = text.value.as_str();
        let chosen = now.iter().find(|(name, _)| *name == word);
        if chosen.is_none() {
            let names = now.iter().map(|(name, _)| *name);
            if later.contains(&word) {
                let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
                self.refuse(format_args!(
                    "is not supported yet; use {}",
                    names.join(" or ")
                ));
            } else {
                let names: Vec<&str> = names.collect();
                self.refuse(format_args!(
                    "is not known here{}",
                    hint(text.shown(), names)
                ));
            }
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        let DeValue::Array(array) = self.value.get_ref() else {
            self.mismatch("a list");
            return None;
        };
        let item = |(index, value)| Self {
            path: format!("{}[{index}]", self.path),
            value,
            ..self.clone()
        };
        Some(array.iter().enumerate().map(item).collect())
    }

    /// A table.
    pub(super) fn section(&self) -> Option<Section<'a>> {
        let DeValue::Table(table) = self.value.get_ref() else {
            self.mismatch("a table");
            return None;
        };
        Some(Section::new(
            self.document,
            self.path.clone(),
            Some(self.at()),
            Some(table),
        ))
    }
}

/// A text on one line, without control characters and not too long.
pub(super) fn printable(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
