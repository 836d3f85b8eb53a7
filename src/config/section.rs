//! Which keys does a table have, and which of them does nobody know?

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeTable;

use super::document::Document;
use super::field::{Field, printable};
use super::name::{hint, is_name};

/// A table of the file, or one that is not written and has only defaults.
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    path: String,
    at: Option<usize>,
    table: Option<&'a DeTable<'a>>,
    /// Keys that have a meaning here.
    asked: RefCell<Vec<&'static str>>,
    /// Keys that have none here, of which enough has been said.
    settled: RefCell<Vec<&'static str>>,
}

/// The tables under `[limits]` or `[upstreams]`.
pub(super) struct Named<T> {
    /// Their names, also of those with faults.
    pub(super) names: Vec<String>,
    /// What they say, in the order of the names; `None` after a fault.
    pub(super) checked: Option<Vec<T>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        document: &'a Document<'a>,
        path: String,
        at: Option<usize>,
        table: Option<&'a DeTable<'a>>,
    ) -> Self {
        Self {
            document,
            path,
            at,
            table,
            asked: RefCell::default(),
            settled: RefCell::default(),
        }
    }

    /// The whole file.
    pub(super) fn root(document: &'a Document<'a>, table: &'a DeTable<'a>) -> Self {
        Self::new(document, String::new(), None, Some(table))
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            printable(key)
        } else {
            format!("{}.{}", self.path, printable(key))
        }
    }

    /// The value of a key, if it is written.
    pub(super) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.find(key)
    }

    fn find(&self, key: &'static str) -> Option<Field<'a>> {
        let value = self.table?.get(key)?;
        Some(Field::new(self.document, self.path_of(key), value))
    }

    /// The value of a key that has no default.
    pub(super) fn need(&self, key: &'static str, advice: &str) -> Option<Field<'a>> {
        let field = self.get(key);
        if field.is_none() {
            self.fault(key, format_args!("is missing: {advice}"));
        }
        field
    }

    /// Notes a fault of a key that is not written.
    pub(super) fn fault(&self, key: &str, problem: impl Display) {
        self.document
            .fault(self.at, &self.path_of(key), problem.to_string());
    }

    /// Notes a fault where a key is written that has no place here.
    pub(super) fn refuse(&self, keys: &[&'static str], problem: &str) {
        self.settle(keys);
        for field in keys.iter().filter_map(|key| self.find(key)) {
            field.fault(problem);
        }
    }

    /// Says nothing of keys that cannot be judged after another fault.
    pub(super) fn settle(&self, keys: &[&'static str]) {
        self.settled.borrow_mut().extend(keys);
    }

    /// Notes all keys that nobody asked for.
    pub(super) fn close(&self) {
        let (asked, settled) = (self.asked.borrow(), self.settled.borrow());
        for key in self.table.into_iter().flatten().map(|(key, _)| key) {
            let name: &str = key.get_ref();
            if !asked.contains(&name) && !settled.contains(&name) {
                let problem = format!("unknown key{}", hint(Some(name), asked.iter().copied()));
                let at = Some(key.span().start);
                self.document.fault(at, &self.path_of(name), problem);
            }
        }
    }

    /// All keys with their values, whatever they are called.
    pub(super) fn entries(&self) -> Vec<(&'a str, Field<'a>)> {
        let entry = |(key, value): (&'a toml::Spanned<_>, _)| {
            let name: &'a std::borrow::Cow<'a, str> = key.get_ref();
            let field = Field::new(self.document, self.path_of(name), value);
            (name.as_ref(), field)
        };
        self.table.into_iter().flatten().map(entry).collect()
    }

    /// The same in the order of the file, where what they are called is secret: faults
    /// have their numbers, from 1.
    pub(super) fn secret_entries(&self) -> Vec<(&'a str, Field<'a>)> {
        let entry = |((key, value), nth): ((&'a toml::Spanned<_>, _), usize)| {
            let name: &'a std::borrow::Cow<'a, str> = key.get_ref();
            let path = format!("{}[{nth}]", self.path);
            (name.as_ref(), Field::new(self.document, path, value))
        };
        let mut entries: Vec<_> = self.table.into_iter().flatten().collect();
        // A table has its keys by name; people count as they are written.
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().zip(1..).map(entry).collect()
    }

    /// What `read` makes of a table, or of its defaults where it is not written.
    pub(super) fn section<T>(&self, key: &'static str, read: impl FnOnce(&Section<'a>) -> T) -> T {
        let section = self.get(key).and_then(|field| field.section());
        let section =
            section.unwrap_or_else(|| Section::new(self.document, self.path_of(key), None, None));
        let value = read(&section);
        section.close();
        value
    }

    /// What `read` makes of each table in a table of named ones.
    pub(super) fn named<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Section<'a>, &str) -> Option<T>,
    ) -> Named<T> {
        let outer = self.get(key).and_then(|field| field.section());
        let entries = outer.map_or_else(Vec::new, |outer| outer.entries());
        let names = entries.iter().map(|(name, _)| (*name).to_owned());
        let names = names.collect();
        let values: Vec<Option<T>> = entries
            .into_iter()
            .map(|(name, field)| {
                if !is_name(name) {
                    field.fault("a name has 1 to 64 of a-z, 0-9, _ and -");
                }
                let section = field.section()?;
                let value = read(&section, name);
                section.close();
                value
            })
            .collect();
        Named {
            names,
            checked: values.into_iter().collect(),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &'static str, default: bool) -> bool {
        self.get(key)
            .and_then(|field| field.flag())
            .unwrap_or(default)
    }

    /// A whole number.
    pub(super) fn whole<N>(&self, key: &'static str, default: N, range: &RangeInclusive<N>) -> N
    where
        N: Copy + PartialOrd + Display + TryFrom<i128>,
    {
        self.get(key)
            .and_then(|field| field.whole(range))
            .unwrap_or(default)
    }

    /// A span of time.
    pub(super) fn duration(
        &self,
        key: &'static str,
        default: Duration,
        range: &RangeInclusive<Duration>,
    ) -> Duration {
        self.get(key)
            .and_then(|field| field.duration(range))
            .unwrap_or(default)
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &'static str,
        default: T,
        now: &[(&str, T)],
        later: &[&str],
    ) -> T {
        self.get(key)
            .and_then(|field| field.choice(now, later))
            .unwrap_or(default)
    }
}
