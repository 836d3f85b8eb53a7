//! What did not come along, or not as it was?

use std::collections::BTreeSet;

use super::reasons::why_left_out;
use super::tree::{Directive, shown};

/// Says of each directive whether it came along.
#[derive(Debug, Default)]
pub(super) struct Notes {
    seen: BTreeSet<usize>,
    /// By the directives' order.
    said: BTreeSet<(usize, usize, String)>,
}

impl Notes {
    /// It means the same in what comes out.
    pub(super) fn taken(&mut self, directive: &Directive) {
        self.seen.insert(directive.id);
    }

    /// Nothing of it came along.
    pub(super) fn left_out(&mut self, directive: &Directive, why: &str) {
        self.say(directive, "left out", why);
    }

    /// It came along, but not quite as it was.
    pub(super) fn differs(&mut self, directive: &Directive, why: &str) {
        self.say(directive, "differs", why);
    }

    /// Names what nobody has looked at, in `directives` and the blocks that were gone into.
    pub(super) fn sweep(&mut self, directives: &[Directive]) {
        for directive in directives {
            if self.seen.contains(&directive.id) {
                if !self.is_left_out(directive) {
                    self.sweep(directive.inside());
                }
            } else {
                let why = why_left_out(&directive.name);
                let all = if directive.inside().is_empty() {
                    ""
                } else {
                    ", with all that is in it"
                };
                self.left_out(directive, &format!("{why}{all}"));
            }
        }
    }

    /// Each note as a line, in the order of the directives.
    pub(super) fn lines(self) -> Vec<String> {
        self.said.into_iter().map(|(_, _, line)| line).collect()
    }

    fn is_left_out(&self, directive: &Directive) -> bool {
        let all = (directive.id, 0, String::new())..(directive.id + 1, 0, String::new());
        let mut said = self.said.range(all);
        said.any(|(_, _, line)| line.contains(": left out: "))
    }

    fn say(&mut self, directive: &Directive, what: &str, why: &str) {
        self.seen.insert(directive.id);
        let line = format!("{}: {}: {what}: {why}", directive.spot(), named(directive));
        if !self.said.iter().any(|(_, _, said)| *said == line) {
            self.said.insert((directive.id, self.said.len(), line));
        }
    }
}

/// A directive in a few words. The values of headers may be secrets.
fn named(directive: &Directive) -> String {
    let values = if directive.name.ends_with("_header") {
        1
    } else {
        usize::MAX
    };
    let mut text = directive.name.clone();
    for value in directive.texts().take(values) {
        text.push(' ');
        text.push_str(value);
    }
    shown(&text)
}
