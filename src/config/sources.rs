//! What is a config made of, and what does another say otherwise?

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// Files that were read, each with a hash of what it held; `None` where it could not be.
pub type Files = BTreeMap<PathBuf, Option<u64>>;

/// What a config was read from. Hashes only: some of it is secret.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file itself, where it was read from one.
    file: Option<(PathBuf, Option<u64>)>,
    /// The files that it names.
    named: Files,
    /// What each key says.
    keys: BTreeMap<String, u64>,
}

impl Sources {
    pub(super) fn new(text: &str, named: Files) -> Self {
        let mut keys = BTreeMap::new();
        // What is no table has been refused before.
        let table: toml::Table = text.parse().unwrap_or_default();
        flatten(&toml::Value::Table(table), "", &mut keys);
        Self {
            file: None,
            named,
            keys,
        }
    }

    /// The same, read from the file at `path`.
    pub(super) fn of_file(self, path: &Path, hash: u64) -> Self {
        Self {
            file: Some((path.to_owned(), Some(hash))),
            ..self
        }
    }

    /// All files that were read.
    pub(super) fn files(&self) -> Files {
        let named = self.named.iter().map(|(path, hash)| (path.clone(), *hash));
        named.chain(self.file.clone()).collect()
    }

    /// The keys and files in which the two differ.
    pub(super) fn changes(&self, new: &Self) -> Vec<String> {
        let keys = differing(&self.keys, &new.keys).cloned();
        let named = differing(&self.named, &new.named);
        // No more of it: a variable may be a part of the path.
        let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
        let files = named.filter_map(name);
        let mut changes: Vec<String> = keys.collect();
        changes.extend(files);
        changes
    }
}

/// A hash of what a file holds; `None` where it can't be read.
pub fn fingerprint(path: &Path) -> Option<u64> {
    super::read(path).ok()?.map(|bytes| hash(&bytes))
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn differing<'a, K: Ord, V: PartialEq>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let gone = old.keys().filter(|key| !new.contains_key(key));
    let other = new
        .iter()
        .filter(|(key, value)| old.get(key) != Some(value))
        .map(|(key, _)| key);
    gone.chain(other)
}

fn flatten(value: &toml::Value, path: &str, keys: &mut BTreeMap<String, u64>) {
    let inside = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                flatten(value, &inside(name), keys);
            }
        }
        toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
            for (place, value) in items.iter().enumerate() {
                flatten(value, &format!("{path}[{place}]"), keys);
            }
        }
        other => {
            keys.insert(path.to_owned(), hash(other.to_string().as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_otherwise_is_told_by_its_path() {
        let file = PathBuf::from("ca.pem");
        let files = |hash| Files::from([(file.clone(), Some(hash))]);
        let old = "[limits.a]\nrate = \"1r/s\"\nburst = 2\n[[routes]]\npath = \"/\"\n";
        let new = "[limits.a]\nrate = \"2r/s\"\n[[routes]]\npath = \"/\"\nhost = \"x\"\n";
        let (old, new) = (Sources::new(old, files(1)), Sources::new(new, files(2)));
        let changes = [
            "limits.a.burst",
            "limits.a.rate",
            "routes[0].host",
            "ca.pem",
        ];
        assert_eq!(old.changes(&new), changes);
        assert_eq!(old.changes(&old.clone()), [""; 0]);
    }
}
