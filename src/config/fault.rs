//! What is wrong with a config file, and where?

use std::fmt;
use std::path::{Path, PathBuf};

use super::sources::Files;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    line: Option<usize>,
    path: String,
    problem: String,
}

/// All that is wrong with a file, by line.
#[derive(Clone, PartialEq, Eq)]
pub struct Faults {
    file: PathBuf,
    all: Vec<Fault>,
    /// What was read all the same.
    files: Files,
}

impl Fault {
    /// A fault at a key, such as `limits.api.rate`; no line where nothing is written.
    pub(super) fn of_key(line: Option<usize>, path: String, problem: String) -> Self {
        Self {
            line,
            path,
            problem,
        }
    }

    /// A fault because of which no key was read.
    pub(super) fn of_syntax(line: Option<usize>, problem: &str) -> Self {
        Self::of_key(line, String::new(), problem.to_owned())
    }

    /// A fault of the file itself.
    pub(super) fn of_file(problem: String) -> Self {
        Self::of_key(None, String::new(), problem)
    }

    /// The line in the file, from 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key, such as `limits.api.rate`; empty where none was read.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)
    }
}

impl Faults {
    /// The one fault of `file`.
    pub(super) fn one(file: &Path, fault: Fault) -> Self {
        Self::new(file, vec![fault])
    }

    /// The faults of `file`, found in any order.
    pub(super) fn new(file: &Path, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| fault.line.unwrap_or(usize::MAX));
        Self {
            file: file.to_owned(),
            all: faults,
            files: Files::new(),
        }
    }

    /// The same, of a config that is made of these files.
    pub(super) fn in_files(
        mut self,
        files: impl IntoIterator<Item = (PathBuf, Option<u64>)>,
    ) -> Self {
        self.files.extend(files);
        self
    }

    /// The files that were read, as far as it came.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Each fault, by line.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.all.iter()
    }

    /// Each fault as a line of text: `config/weir.toml:12: limits.api.rate: …`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let file = self.file.display();
        self.all.iter().map(move |fault| match fault.line {
            Some(line) => format!("{file}:{line}: {fault}"),
            None => format!("{file}: {fault}"),
        })
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().collect::<Vec<_>>().join("\n"))
    }
}

impl fmt::Debug for Faults {
    /// Without the files: a variable may be a part of their names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.all).finish()
    }
}

impl std::error::Error for Faults {}
