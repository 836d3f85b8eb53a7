//! What does a request's head say of its body, and does it say one thing?
//!
//! hyper drops a `Content-Length` that stands beside `Transfer-Encoding` or beside
//! its like, takes `gzip, chunked` for chunks and a line feed for a line's end, and
//! the URI that it parses has lost its fragment. Servers behind other proxies read
//! such requests in two ways, so they are looked for in the bytes.

use memchr::memchr;

/// Bytes of a line that are enough to know what it says of the body.
const ENOUGH: usize = 48;

/// How HTTP/2 begins, which is no head.
const HTTP_2: &[u8] = b"PRI * HTTP/2";

/// Why servers would read a request in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Oddity {
    /// Several lines say where the body ends, or one that can't be read.
    #[error("it must say once, and plainly, where its body ends")]
    Length,
    /// A coding other than `chunked`, or more than one.
    #[error("its Transfer-Encoding is not chunked alone")]
    Coding,
    /// A line ends with a line feed alone.
    #[error("a line of its head does not end with CR LF")]
    LineEnd,
    /// What came with the head as a chunk is none.
    #[error("a chunk of its body is none")]
    Chunk,
    /// The target has a fragment.
    #[error("its target has a fragment")]
    Fragment,
    /// It came behind one that asks for another protocol.
    #[error("it came before the upgrade that was asked for was answered")]
    Early,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Follows {
    pub(super) body: Framing,
    /// Whether another protocol may follow.
    pub(super) upgrade: bool,
}

/// How a body's end is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Framing {
    #[default]
    None,
    Length(u64),
    Chunks,
}

/// A head that is whole.
pub(super) enum Head {
    Sound(Follows),
    Odd(Oddity),
    /// None of HTTP/1.
    Other,
}

/// A head, line by line, as its bytes come in.
#[derive(Debug)]
pub(super) struct HeadScan {
    /// The first bytes of a line that is not whole yet.
    start: [u8; ENOUGH],
    length: usize,
    /// The last of them so far.
    last: u8,
    in_headers: bool,
    is_other: bool,
    odd: Option<Oddity>,
    follows: Follows,
}

impl Default for HeadScan {
    fn default() -> Self {
        Self {
            start: [0; ENOUGH],
            length: 0,
            last: 0,
            in_headers: false,
            is_other: false,
            odd: None,
            follows: Follows::default(),
        }
    }
}

impl HeadScan {
    /// Reads on; says how many bytes belong to the head, and what it is once it
    /// is whole.
    pub(super) fn read(&mut self, bytes: &[u8]) -> (usize, Option<Head>) {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            let ended = if self.length == 0 {
                self.look_for_fragment(line);
                self.end_line(first(line), line.len(), line.last())
            } else {
                self.keep(line);
                let (start, length, last) = (self.start, self.length, self.last);
                self.length = 0;
                let kept = start.get(..length).unwrap_or(&start);
                self.end_line(kept, length, Some(&last))
            };
            if ended {
                return (bytes.len().saturating_sub(rest.len()), Some(self.end()));
            }
        }
        self.keep(rest);
        (bytes.len(), None)
    }

    fn end(&mut self) -> Head {
        let head = std::mem::take(self);
        match head.odd {
            _ if head.is_other => Head::Other,
            Some(odd) => Head::Odd(odd),
            None => Head::Sound(head.follows),
        }
    }

    /// Keeps what a line begins with, of which this is a part.
    fn keep(&mut self, part: &[u8]) {
        let Some(last) = part.last() else { return };
        self.last = *last;
        self.look_for_fragment(part);
        let free = self.start.get_mut(self.length..).unwrap_or_default();
        for (slot, byte) in free.iter_mut().zip(part) {
            *slot = *byte;
        }
        self.length = self.length.saturating_add(part.len());
    }

    fn look_for_fragment(&mut self, part: &[u8]) {
        if !self.in_headers && memchr(b'#', part).is_some() {
            self.find(Oddity::Fragment);
        }
    }

    /// The first of several counts.
    fn find(&mut self, odd: Oddity) {
        self.odd.get_or_insert(odd);
    }

    /// Takes in what is kept of a line of `length` bytes; true at the last line.
    fn end_line(&mut self, line: &[u8], length: usize, last: Option<&u8>) -> bool {
        if last != Some(&b'\r') {
            self.find(Oddity::LineEnd);
        }
        match (line, self.in_headers) {
            // Empty lines may stand before a request.
            (b"" | b"\r", false) => false,
            (b"" | b"\r", true) => true,
            (target, false) => {
                self.in_headers = true;
                self.is_other = target.starts_with(HTTP_2);
                false
            }
            (header, true) => {
                self.header(header, header.len() == length);
                false
            }
        }
    }

    fn header(&mut self, line: &[u8], is_whole: bool) {
        // A look at the first letter spares most lines the rest.
        match line.first() {
            Some(b'c' | b'C') => {
                if let Some(value) = value(line, b"content-length:") {
                    self.length(value, is_whole);
                }
            }
            Some(b't' | b'T') => {
                if let Some(value) = value(line, b"transfer-encoding:") {
                    self.coding(value, is_whole);
                }
            }
            Some(b'u' | b'U') if value(line, b"upgrade:").is_some() => self.follows.upgrade = true,
            _ => (),
        }
    }

    fn length(&mut self, value: &[u8], is_whole: bool) {
        let digits = is_whole && value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value).ok().filter(|_| digits);
        match length.and_then(|text| text.parse().ok()) {
            Some(length) if self.follows.body == Framing::None => {
                self.follows.body = Framing::Length(length);
            }
            _ => self.find(Oddity::Length),
        }
    }

    fn coding(&mut self, value: &[u8], is_whole: bool) {
        if !is_whole || !value.eq_ignore_ascii_case(b"chunked") {
            self.find(Oddity::Coding);
        }
        match self.follows.body {
            Framing::None => self.follows.body = Framing::Chunks,
            Framing::Length(_) => self.find(Oddity::Length),
            Framing::Chunks => self.find(Oddity::Coding),
        }
    }
}

/// What is kept of a line.
fn first(line: &[u8]) -> &[u8] {
    line.get(..ENOUGH).unwrap_or(line)
}

/// What stands behind a header's name, if it is this one.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}
