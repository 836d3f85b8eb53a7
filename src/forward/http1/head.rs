//! How are the heads of requests written, and those of answers read?

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Response, StatusCode, Version};
use hyper::ext::ReasonPhrase;
use smallvec::SmallVec;

use super::chunked::Chunks;
use super::length::Length;
use super::nonsense::Nonsense;
use crate::forward::headers::{is_hop_by_hop, named};

/// The most lines of a head, as of a client's.
const MOST_HEADERS: usize = 100;

/// The most bytes of a head.
const LARGEST_HEAD: usize = 256 * 1024;

/// What an answer is given on its way, as a rule: room for it is made once.
const ADDED: usize = 8;

/// An answer's head, and what it says of the bytes behind it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) length: Length,
    /// Whether the connection may carry another request behind this one.
    pub(super) stays_open: bool,
}

/// How a request's body is told apart from what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none; whether that is said is left as the client has it.
    Nothing,
    /// It has so many bytes.
    Exactly(u64),
    /// It comes in chunks.
    Chunked,
}

/// Writes a request's head. What its headers say of its length gives way to `framing`.
pub(super) fn write(parts: &Parts, framing: Framing, out: &mut BytesMut) {
    let target = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let lines: usize = parts.headers.iter().map(line_length).sum();
    out.reserve(parts.method.as_str().len() + target.len() + lines + 64);
    out.put_slice(parts.method.as_str().as_bytes());
    // A target may be a query alone.
    let before: &[u8] = if target.starts_with('?') { b" /" } else { b" " };
    out.put_slice(before);
    out.put_slice(target.as_bytes());
    out.put_slice(b" HTTP/1.1\r\n");
    let mut says_its_length = false;
    for (name, value) in &parts.headers {
        if *name == header::TRANSFER_ENCODING {
            continue;
        }
        if *name == header::CONTENT_LENGTH {
            says_its_length = true;
            continue;
        }
        put_line(out, name, value);
    }
    let length = match framing {
        Framing::Nothing => says_its_length.then_some(0),
        Framing::Exactly(length) => Some(length),
        Framing::Chunked => {
            out.put_slice(b"transfer-encoding: chunked\r\n");
            None
        }
    };
    if let Some(length) = length {
        out.put_slice(b"content-length: ");
        out.put_slice(itoa::Buffer::new().format(length).as_bytes());
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
}

/// Writes a line of a head, or a trailer.
pub(super) fn put_line(out: &mut BytesMut, name: &HeaderName, value: &HeaderValue) {
    out.reserve(line_length((name, value)));
    out.put_slice(name.as_str().as_bytes());
    out.put_slice(b": ");
    out.put_slice(value.as_bytes());
    out.put_slice(b"\r\n");
}

fn line_length((name, value): (&HeaderName, &HeaderValue)) -> usize {
    name.as_str().len() + value.len() + b": \r\n".len()
}

/// Takes an answer's head out of the buffer, once all of it has come, without the
/// headers that are for this connection alone.
///
/// Nothing is read in more than one way: an answer that says its length twice, or
/// by a coding other than `chunked` alone, is refused.
pub(super) fn read(
    buffer: &mut BytesMut,
    is_asked_for_head: bool,
) -> Result<Option<Head>, Nonsense> {
    if buffer.is_empty() {
        return Ok(None);
    }
    let mut lines = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let read = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut parsed,
        buffer,
        &mut lines,
    )?;
    let httparse::Status::Complete(size) = read else {
        return if buffer.len() < LARGEST_HEAD {
            Ok(None)
        } else {
            Err(Nonsense::Large(LARGEST_HEAD))
        };
    };
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(httparse::Error::Status)?;
    let version = match parsed.version {
        Some(1) => Version::HTTP_11,
        _ => Version::HTTP_10,
    };
    let reason = parsed
        .reason
        .filter(|reason| !reason.is_empty() && status.canonical_reason() != Some(reason));
    let reason = reason.map(|reason| Bytes::copy_from_slice(reason.as_bytes()));
    let mut names: SmallVec<[(HeaderName, Range<usize>); 16]> = SmallVec::new();
    for line in parsed.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes())
            .map_err(|_invalid| httparse::Error::HeaderName)?;
        names.push((name, place(line.value, buffer)));
    }
    let bytes = buffer.split_to(size).freeze();
    let mut headers = HeaderMap::with_capacity(names.len() + ADDED);
    let mut said = Said::default();
    // What follows on it is not for HTTP to tell.
    let is_switching = status == StatusCode::SWITCHING_PROTOCOLS;
    for (name, place) in names {
        let value = HeaderValue::from_maybe_shared(bytes.slice(place))
            .map_err(|_invalid| httparse::Error::HeaderValue)?;
        said.hear(&name, &value);
        if is_switching || !is_hop_by_hop(&name) {
            headers.append(name, value);
        }
    }
    if !is_switching {
        for name in &said.named {
            headers.remove(name);
        }
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.version_mut() = version;
    *response.headers_mut() = headers;
    if let Some(reason) = reason.and_then(|reason| ReasonPhrase::try_from(reason).ok()) {
        response.extensions_mut().insert(reason);
    }
    let has_none = is_asked_for_head
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = said.length(version)?;
    let length = if has_none { Length::NONE } else { length };
    let stays_open = said.stays_open(version) && !matches!(length, Length::ToTheEnd);
    Ok(Some(Head {
        response,
        length,
        stays_open,
    }))
}

/// Where a part stands in its whole.
fn place(part: &[u8], whole: &[u8]) -> Range<usize> {
    let begin = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    begin..begin.saturating_add(part.len())
}

/// What the lines of a head say of the connection and the body.
#[derive(Debug, Default)]
struct Said {
    length: Option<u64>,
    chunked: bool,
    /// Whether it can't be told where the body ends.
    odd: bool,
    /// Whether the connection stays open, where that is said.
    stays: Option<bool>,
    /// Headers that are for this connection alone.
    named: SmallVec<[HeaderName; 2]>,
}

impl Said {
    fn hear(&mut self, name: &HeaderName, value: &HeaderValue) {
        if *name == header::CONTENT_LENGTH {
            let before = self.length.replace(0).is_some();
            match digits(value) {
                Some(length) if !before => self.length = Some(length),
                _ => self.odd = true,
            }
        } else if *name == header::TRANSFER_ENCODING {
            self.odd |= self.chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked");
            self.chunked = true;
        } else if *name == header::CONNECTION {
            self.named.extend(named(value));
            for word in value.as_bytes().split(|byte| *byte == b',') {
                let word = word.trim_ascii();
                if word.eq_ignore_ascii_case(b"close") {
                    self.stays = Some(false);
                } else if word.eq_ignore_ascii_case(b"keep-alive") {
                    self.stays.get_or_insert(true);
                }
            }
        }
    }

    fn length(&self, version: Version) -> Result<Length, Nonsense> {
        match (self.length, self.chunked) {
            _ if self.odd => Err(Nonsense::Length),
            (None, false) => Ok(Length::ToTheEnd),
            (Some(length), false) => Ok(Length::Exactly(length)),
            (None, true) if version == Version::HTTP_11 => Ok(Length::Chunked(Chunks::default())),
            (_, true) => Err(Nonsense::Length),
        }
    }

    fn stays_open(&self, version: Version) -> bool {
        self.stays.unwrap_or(version == Version::HTTP_11)
    }
}

/// A number of digits alone.
fn digits(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}
