//! Where in the file is something written, and what has been found wrong so far?

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::expand::{ExpandError, expand};
use super::fault::{Fault, Faults};
use super::sources::{Files, Sources, hash};

/// A file under check.
pub(super) struct Document<'a> {
    text: &'a str,
    file: &'a Path,
    env: &'a dyn Fn(&str) -> Option<String>,
    faults: RefCell<Vec<Fault>>,
    /// The files that were read because it names them.
    named: RefCell<Files>,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        text: &'a str,
        file: &'a Path,
        env: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            text,
            file,
            env,
            faults: RefCell::default(),
            named: RefCell::default(),
        }
    }

    /// Notes what is wrong with the key `path`, written at the byte `at`.
    pub(super) fn fault(&self, at: Option<usize>, path: &str, problem: String) {
        let line = at.map(|at| self.line(at));
        let fault = Fault::of_key(line, path.to_owned(), problem);
        self.faults.borrow_mut().push(fault);
    }

    /// The line of the byte `at`, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        line(self.text, at)
    }

    /// What is written between two bytes.
    pub(super) fn written(&self, span: std::ops::Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }

    /// Puts environment variables into a string.
    pub(super) fn expand(&self, written: &str) -> Result<String, Vec<ExpandError>> {
        expand(written, self.env)
    }

    /// A file that the config names, as seen from the config's own directory.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.file
            .parent()
            .map_or_else(|| PathBuf::from(name), |dir| dir.join(name))
    }

    /// What such a file holds; `None` where it is too long.
    pub(super) fn read(&self, path: &Path) -> std::io::Result<Option<Vec<u8>>> {
        let bytes = super::read(path);
        let held = bytes.as_ref().ok().and_then(Option::as_deref);
        let mut named = self.named.borrow_mut();
        named.insert(path.to_owned(), held.map(hash));
        bytes
    }

    /// The config, if nothing was found wrong.
    pub(super) fn conclude<T>(
        self,
        config: impl FnOnce(Sources) -> Option<T>,
    ) -> Result<T, Faults> {
        let (faults, named) = (self.faults.into_inner(), self.named.into_inner());
        if faults.is_empty()
            && let Some(config) = config(Sources::new(self.text, named.clone()))
        {
            return Ok(config);
        }
        Err(Faults::new(self.file, faults).in_files(named))
    }
}

/// The line of the byte `at`, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    let newlines = text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    newlines.saturating_add(1)
}
