//! Where does a body in chunks end, and is each of them one?
//!
//! hyper lets a blank stand behind a chunk's size, and control characters in its
//! extension. It writes chunks anew, so that nobody is deceived behind weir; but
//! whoever sends such a chunk hopes that two servers read it differently.

/// A body in chunks as its bytes come in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkScan {
    at: At,
    size: u64,
    digits: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    /// Behind a size: only an extension may follow.
    Blank,
    Extension,
    SizeLf,
    Content,
    ContentCr,
    ContentLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
}

/// What became of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// All belong to the body.
    More,
    /// It ended with the first so many.
    End(usize),
    /// Only the first so many are sound.
    Bad(usize),
}

/// No size needs more digits; leading zeros count.
const DIGITS: u8 = 16;

impl ChunkScan {
    /// Reads on.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Chunks {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            if self.at == At::Content {
                used = used.saturating_add(self.skip(rest.len()));
                continue;
            }
            let Some(byte) = rest.first() else { break };
            match self.next(*byte) {
                Some(at) => self.at = at,
                None => return Chunks::Bad(used),
            }
            used = used.saturating_add(1);
            if self.at == At::LastLf && *byte == b'\n' {
                return Chunks::End(used);
            }
        }
        Chunks::More
    }

    /// Passes over a chunk's content; how much of it is here.
    fn skip(&mut self, here: usize) -> usize {
        let here = self.size.min(here as u64);
        self.size = self.size.saturating_sub(here);
        if self.size == 0 {
            self.at = At::ContentCr;
        }
        usize::try_from(here).unwrap_or(usize::MAX)
    }

    /// Where a byte leads; nowhere if it does not belong there.
    fn next(&mut self, byte: u8) -> Option<At> {
        match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (At::Size, b'\r') if self.digits > 0 => Some(At::SizeLf),
            (At::Size, b';') if self.digits > 0 => Some(At::Extension),
            (At::Size, b' ' | b'\t') if self.digits > 0 => Some(At::Blank),
            (At::Blank, b' ' | b'\t') => Some(At::Blank),
            (At::Blank, b';') => Some(At::Extension),
            (At::Extension, b'\r') => Some(At::SizeLf),
            (At::Extension, byte) if is_text(byte) => Some(At::Extension),
            (At::SizeLf, b'\n') if self.size == 0 => Some(At::TrailerStart),
            (At::SizeLf, b'\n') => Some(At::Content),
            (At::ContentCr, b'\r') => Some(At::ContentLf),
            (At::ContentLf, b'\n') => {
                *self = Self::default();
                Some(At::Size)
            }
            (At::TrailerStart, b'\r') | (At::LastLf, b'\n') => Some(At::LastLf),
            (At::TrailerStart | At::Trailer, byte) if is_text(byte) => Some(At::Trailer),
            (At::Trailer, b'\r') => Some(At::TrailerLf),
            (At::TrailerLf, b'\n') => Some(At::TrailerStart),
            _ => None,
        }
    }

    fn digit(&mut self, byte: u8) -> Option<At> {
        let value = char::from(byte).to_digit(16)?;
        self.digits = self
            .digits
            .checked_add(1)
            .filter(|count| *count <= DIGITS)?;
        self.size = self.size.checked_mul(16)?.checked_add(u64::from(value))?;
        Some(At::Size)
    }
}

/// Whether a byte may stand in a line that servers pass over.
const fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_with_its_last_chunk_wherever_its_bytes_are_cut() {
        for body in [
            &b"0\r\n\r\n"[..],
            b"2\r\nab\r\n0\r\n\r\n",
            b"2;a=b\r\n\r\n\r\n00\r\n\r\n",
            b"A ;x=\"y\"\r\n0123456789\r\n0;z\r\nX-Sum: 1\r\nX-B: \r\n\r\n",
            b"0000000000000002\r\nab\r\n0\r\n\r\n",
        ] {
            for cut in 0..=body.len() {
                let (first, second) = body.split_at(cut);
                let mut scan = ChunkScan::default();
                if cut < body.len() {
                    assert_eq!(scan.read(first), Chunks::More, "{body:?} at {cut}");
                    let behind = [second, b"GET"].concat();
                    assert_eq!(scan.read(&behind), Chunks::End(second.len()), "{cut}");
                } else {
                    assert_eq!(scan.read(first), Chunks::End(cut));
                }
            }
        }
    }

    #[test]
    fn what_is_no_chunk_is_told_with_what_was_sound_before() {
        for (sound, rest) in [
            ("", "\r\nab"),
            ("", " 2\r\nab"),
            ("", "-2\r\nab"),
            ("0", "x2\r\nab"),
            ("2 ", "\r\nab"),
            ("2 ", "0\r\nab"),
            ("2", "\nab"),
            ("2;a", "\nab"),
            ("2;a", "\0\r\nab"),
            ("2\r", "ab"),
            ("2\r\nab", "c\r\n"),
            ("2\r\nab", "\n0\r\n"),
            ("2\r\nab\r", "0\r\n"),
            ("0000000000000000", "2\r\nab"),
            ("ffffffffffffffff", "f\r\nab"),
            ("0\r\nX: a", "\n\r\n"),
            ("0\r\n", "\n"),
        ] {
            let mut scan = ChunkScan::default();
            let bytes = format!("{sound}{rest}");
            assert_eq!(
                scan.read(bytes.as_bytes()),
                Chunks::Bad(sound.len()),
                "{bytes:?}"
            );
        }
    }
}
