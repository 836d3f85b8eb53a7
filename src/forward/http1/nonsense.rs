//! What may an upstream do that is not HTTP/1.1?

use std::io;

/// Why an answer can't be read on.
#[derive(Debug, thiserror::Error)]
pub(in crate::forward) enum Nonsense {
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[from] io::Error),
    /// It ended before the answer did.
    #[error("the connection ended before the answer")]
    Ended,
    /// The head is none.
    #[error("the answer's head is not HTTP/1.1: {0}")]
    Head(#[from] httparse::Error),
    /// The head is too large.
    #[error("the answer's head has more than {0} bytes")]
    Large(usize),
    /// The head says in no plain way where the answer ends.
    #[error("the answer's head does not say plainly how long it is")]
    Length,
    /// The chunks are none.
    #[error("the answer's chunks are broken")]
    Chunk,
}
