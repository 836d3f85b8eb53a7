//! Where does an answer's body end?

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

use super::chunked::Chunks;
use super::nonsense::Nonsense;

/// What is still to come of a body (RFC 9112, 6.3).
#[derive(Debug)]
pub(super) enum Length {
    /// So many bytes.
    Exactly(u64),
    /// Chunks, of which the last is empty.
    Chunked(Chunks),
    /// All that comes until the connection ends.
    ToTheEnd,
}

impl Length {
    /// Nothing more.
    pub(super) const NONE: Self = Self::Exactly(0);

    /// Whether all of the body has been taken.
    pub(super) const fn is_over(&self) -> bool {
        match self {
            Self::Exactly(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_over(),
            Self::ToTheEnd => false,
        }
    }

    /// Takes what has come of the body out of the buffer; nothing where more must
    /// come first.
    pub(super) fn take(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame<Bytes>>, Nonsense> {
        match self {
            Self::Exactly(left) => Ok(some_of(left, buffer).map(Frame::data)),
            Self::Chunked(chunks) => chunks.take(buffer),
            Self::ToTheEnd if buffer.is_empty() => Ok(None),
            Self::ToTheEnd => Ok(Some(Frame::data(buffer.split().freeze()))),
        }
    }

    /// The connection has ended, with nothing left in the buffer that makes a frame.
    pub(super) fn end(&mut self) -> Result<(), Nonsense> {
        if matches!(self, Self::ToTheEnd) {
            *self = Self::NONE;
        }
        if self.is_over() {
            Ok(())
        } else {
            Err(Nonsense::Ended)
        }
    }

    /// What is known of the size of the rest.
    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Exactly(left) => SizeHint::with_exact(*left),
            Self::Chunked(chunks) if chunks.is_over() => SizeHint::with_exact(0),
            Self::Chunked(_) | Self::ToTheEnd => SizeHint::new(),
        }
    }
}

/// The bytes that have come of the `left` that are still to come.
pub(super) fn some_of(left: &mut u64, buffer: &mut BytesMut) -> Option<Bytes> {
    let here = usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len()));
    *left = left.saturating_sub(here as u64);
    (here > 0).then(|| buffer.split_to(here).freeze())
}
