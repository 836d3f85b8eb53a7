//! How are the chunks of an answer told apart?

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use memchr::memmem;

use super::length::some_of;
use super::nonsense::Nonsense;

const END_OF_LINE: &[u8] = b"\r\n";

/// A chunk's size with what may stand behind it.
const LONGEST_LINE: usize = 4096;

/// All trailers together.
const LARGEST_TRAILERS: usize = 16 * 1024;

/// The most lines that the trailers may have.
const MOST_TRAILERS: usize = 100;

/// What comes next of a body in chunks (RFC 9112, 7.1).
#[derive(Debug, Default)]
pub(super) enum Chunks {
    /// The line before a chunk.
    #[default]
    Size,
    /// So many bytes of a chunk.
    Data(u64),
    /// The end of a chunk's last line.
    DataEnd,
    /// What stands behind the last chunk.
    Trailers,
    /// Nothing.
    Over,
}

impl Chunks {
    pub(super) const fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// The next part of a chunk, or the trailers, as far as they have come. The
    /// body's end is seen with its last chunk where it has come with it.
    pub(super) fn take(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame<Bytes>>, Nonsense> {
        loop {
            if let Self::Data(left) = self {
                let Some(data) = some_of(left, buffer) else {
                    return Ok(None);
                };
                if *left == 0 {
                    *self = Self::DataEnd;
                    // What is wrong behind it is said when that is asked for.
                    let _later = self.skip(buffer);
                }
                return Ok(Some(Frame::data(data)));
            }
            self.skip(buffer)?;
            match self {
                Self::Data(_) => (),
                Self::Trailers => return Ok(self.trailers(buffer)?.map(Frame::trailers)),
                Self::Size | Self::DataEnd | Self::Over => return Ok(None),
            }
        }
    }

    /// Reads on, up to what makes a frame.
    fn skip(&mut self, buffer: &mut BytesMut) -> Result<(), Nonsense> {
        loop {
            *self = match self {
                Self::DataEnd if buffer.len() < END_OF_LINE.len() => return Ok(()),
                Self::DataEnd if buffer.starts_with(END_OF_LINE) => {
                    buffer.advance(END_OF_LINE.len());
                    Self::Size
                }
                Self::DataEnd => return Err(Nonsense::Chunk),
                Self::Size => match size(buffer)? {
                    None => return Ok(()),
                    Some(0) => Self::Trailers,
                    Some(size) => Self::Data(size),
                },
                Self::Trailers if buffer.starts_with(END_OF_LINE) => {
                    buffer.advance(END_OF_LINE.len());
                    Self::Over
                }
                Self::Trailers | Self::Data(_) | Self::Over => return Ok(()),
            }
        }
    }

    /// The trailers, once all have come.
    fn trailers(&mut self, buffer: &mut BytesMut) -> Result<Option<HeaderMap>, Nonsense> {
        let mut lines = [httparse::EMPTY_HEADER; MOST_TRAILERS];
        let parsed = match httparse::parse_headers(buffer, &mut lines)? {
            httparse::Status::Complete((length, lines)) if length <= LARGEST_TRAILERS => {
                let mut trailers = HeaderMap::with_capacity(lines.len());
                for line in lines {
                    let name = HeaderName::from_bytes(line.name.as_bytes());
                    let value = HeaderValue::from_bytes(line.value);
                    let (Ok(name), Ok(value)) = (name, value) else {
                        return Err(Nonsense::Chunk);
                    };
                    trailers.append(name, value);
                }
                Some((length, trailers))
            }
            httparse::Status::Partial if buffer.len() <= LARGEST_TRAILERS => None,
            _ => return Err(Nonsense::Chunk),
        };
        Ok(parsed.map(|(length, trailers)| {
            buffer.advance(length);
            *self = Self::Over;
            trailers
        }))
    }
}

/// A chunk's size, once its line is here.
fn size(buffer: &mut BytesMut) -> Result<Option<u64>, Nonsense> {
    let within = buffer.get(..LONGEST_LINE).unwrap_or(buffer);
    let Some(length) = memmem::find(within, END_OF_LINE) else {
        return if buffer.len() < LONGEST_LINE {
            Ok(None)
        } else {
            Err(Nonsense::Chunk)
        };
    };
    let line = within.get(..length).unwrap_or_default();
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let (digits, behind) = line.split_at(digits.count());
    // Extensions say nothing that weir knows.
    let is_plain = matches!(behind, [] | [b';' | b' ' | b'\t', ..])
        && !behind.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    let size = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let size = size.filter(|_| is_plain).ok_or(Nonsense::Chunk)?;
    buffer.advance(length.saturating_add(END_OF_LINE.len()));
    Ok(Some(size))
}
