//! Where does one request of a connection end and the next begin?
//!
//! hyper reads the same bytes. What it takes for granted, and what it keeps to
//! itself, is looked for here as the bytes pass: each head is counted, so that a
//! verdict finds its request even where several come at once.

use super::chunks::{ChunkScan, Chunks};
use super::head::{Framing, Head, HeadScan, Oddity};

/// The requests of a connection as their bytes come in.
#[derive(Debug, Default)]
pub(super) struct Scan {
    at: Part,
    /// Heads that are whole.
    count: u32,
    /// Whether the head that came last asks for another protocol.
    upgrades: bool,
    /// The first request that is odd: nothing behind it is read.
    odd: Option<(u32, Oddity)>,
}

#[derive(Debug)]
enum Part {
    Head(HeadScan),
    Body(u64),
    Chunks(ChunkScan),
    /// What comes is another protocol's, or comes too early.
    Behind,
    /// Nothing more is looked at.
    Over,
}

impl Default for Part {
    fn default() -> Self {
        Self::Head(HeadScan::default())
    }
}

/// What some bytes were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// So many may go on; behind them stands a chunk that is none.
    pub(super) sound: usize,
    /// So many came behind a head.
    pub(super) behind: usize,
    /// Whether a head became whole with them.
    pub(super) has_head: bool,
}

impl Scan {
    /// The first request that is odd, counted from 1.
    pub(super) const fn odd(&self) -> Option<(u32, Oddity)> {
        self.odd
    }

    /// Every request so far has been answered: what comes begins another.
    pub(super) fn all_answered(&mut self) {
        if matches!(self.at, Part::Behind) {
            self.at = Part::default();
        }
    }

    /// Reads on.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Passed {
        let mut rest = bytes;
        let heads = self.count;
        let mut behind = match self.at {
            Part::Head(_) => 0,
            _ => bytes.len(),
        };
        while !rest.is_empty() {
            let used = match &mut self.at {
                Part::Head(scan) => {
                    let (used, head) = scan.read(rest);
                    if let Some(head) = head {
                        behind = behind.max(rest.len().saturating_sub(used));
                        self.begin(&head);
                    }
                    used
                }
                Part::Body(left) => {
                    let here = (*left).min(rest.len() as u64);
                    *left = left.saturating_sub(here);
                    if *left == 0 {
                        self.end();
                    }
                    usize::try_from(here).unwrap_or(usize::MAX)
                }
                Part::Chunks(scan) => match scan.read(rest) {
                    Chunks::More => rest.len(),
                    Chunks::End(used) => {
                        self.end();
                        used
                    }
                    Chunks::Bad(sound) => {
                        self.odd = Some((self.count, Oddity::Chunk));
                        self.at = Part::Over;
                        let sound = bytes.len().saturating_sub(rest.len()).saturating_add(sound);
                        let has_head = self.count != heads;
                        return Passed {
                            sound,
                            behind,
                            has_head,
                        };
                    }
                },
                Part::Behind => {
                    self.odd = Some((self.count.saturating_add(1), Oddity::Early));
                    self.at = Part::Over;
                    rest.len()
                }
                Part::Over => rest.len(),
            };
            rest = rest.get(used..).unwrap_or_default();
        }
        Passed {
            sound: bytes.len(),
            behind,
            has_head: self.count != heads,
        }
    }

    /// A head is whole.
    fn begin(&mut self, head: &Head) {
        self.count = self.count.saturating_add(1);
        match head {
            Head::Sound(follows) => {
                self.upgrades = follows.upgrade;
                match follows.body {
                    Framing::None | Framing::Length(0) => self.end(),
                    Framing::Length(length) => self.at = Part::Body(length),
                    Framing::Chunks => self.at = Part::Chunks(ChunkScan::default()),
                }
            }
            Head::Odd(oddity) => {
                self.odd = Some((self.count, *oddity));
                self.at = Part::Over;
            }
            Head::Other => self.at = Part::Over,
        }
    }

    /// A request is whole.
    fn end(&mut self) {
        self.at = if self.upgrades {
            Part::Behind
        } else {
            Part::default()
        };
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
