//! What does hyper not tell of a request's head?
//!
//! hyper drops a `Content-Length` that stands beside `Transfer-Encoding`, and the
//! URI that it parses has lost its fragment. Servers behind other proxies read
//! such requests in two ways, so they are looked for in the bytes.

use memchr::memchr;

/// Bytes of a line that are enough to know the two names by.
const ENOUGH: usize = "transfer-encoding:".len();

/// What is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Target,
    Headers,
    Body,
}

/// A head, line by line, as its bytes come in.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    /// The first bytes of a line that is not whole yet.
    start: [u8; ENOUGH],
    length: usize,
    at: Part,
    has_length: bool,
    has_coding: bool,
    has_fragment: bool,
}

impl HeadScan {
    /// Reads on; true once the head is one that servers read in two ways, with
    /// the number of bytes that came behind it.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> (bool, usize) {
        while self.at != Part::Body && !bytes.is_empty() {
            let end = memchr(b'\n', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.take(line);
            if end.is_some() {
                self.end_line();
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
        (
            self.has_fragment || (self.has_length && self.has_coding),
            bytes.len(),
        )
    }

    fn take(&mut self, part: &[u8]) {
        if self.at == Part::Target && memchr(b'#', part).is_some() {
            self.has_fragment = true;
        }
        let free = self.start.get_mut(self.length..).unwrap_or_default();
        for (slot, byte) in free.iter_mut().zip(part) {
            *slot = byte.to_ascii_lowercase();
        }
        self.length = self.length.saturating_add(part.len());
    }

    fn end_line(&mut self) {
        let start = self
            .start
            .get(..self.length.min(ENOUGH))
            .unwrap_or_default();
        match start {
            // Empty lines may stand before a request.
            b"" | b"\r" if self.at == Part::Target => (),
            b"" | b"\r" => self.at = Part::Body,
            _ if self.at == Part::Target => self.at = Part::Headers,
            _ if start.starts_with(b"content-length:") => self.has_length = true,
            _ if start.starts_with(b"transfer-encoding:") => self.has_coding = true,
            _ => (),
        }
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(scan: &mut HeadScan, bytes: &[u8]) -> bool {
        scan.read(bytes).0
    }

    const BOTH: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 3\r\nTransfer-Encoding:chunked\r\n\r\n0\r\n\r\n";

    #[test]
    fn two_ways_to_end_a_body_are_noticed_wherever_the_bytes_are_cut() {
        for cut in 0..BOTH.len() {
            let (first, second) = BOTH.split_at(cut);
            let mut scan = HeadScan::default();
            odd(&mut scan, first);
            assert!(odd(&mut scan, second), "cut at {cut}");
        }
        let mut scan = HeadScan::default();
        let odd = BOTH.iter().any(|byte| odd(&mut scan, &[*byte]));
        assert!(odd, "byte by byte");
    }

    #[test]
    fn a_fragment_in_the_target_is_noticed_and_elsewhere_is_none() {
        assert!(odd(&mut HeadScan::default(), b"GET /a#b HTTP/1.1\r\n"));
        assert!(!odd(
            &mut HeadScan::default(),
            b"GET /a HTTP/1.1\r\nX: #\r\n\r\n#"
        ));
    }

    #[test]
    fn what_a_body_says_is_no_header() {
        let body = b"\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 40\r\nA: b\r\n\r\nTransfer-Encoding: chunked\r\n";
        assert!(!odd(&mut HeadScan::default(), body));
    }
}
