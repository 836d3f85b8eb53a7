//! How large may a request's body be?

use super::notes::Notes;
use super::value::{Level, bytes};

/// NGINX's default for `client_max_body_size`.
const BODY: u64 = 1 << 20;
/// The largest body that weir takes.
const MOST_BYTES: u64 = 1 << 40;

/// The largest body that is taken at a level.
pub(super) fn body(level: &Level<'_>, notes: &mut Notes) -> u64 {
    let Some(directive) = level.one("client_max_body_size") else {
        return BODY;
    };
    match bytes(directive.first()) {
        Some(bytes @ 1..=MOST_BYTES) => {
            notes.taken(directive);
            bytes
        }
        Some(_) => {
            notes.differs(directive, "a body has 1 TiB at most");
            MOST_BYTES
        }
        None => {
            notes.left_out(directive, "it is not a size");
            BODY
        }
    }
}

/// A size as weir's config has it.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        whole if whole % (1 << 20) == 0 => format!("\"{} MiB\"", whole >> 20),
        whole if whole % (1 << 10) == 0 => format!("\"{} KiB\"", whole >> 10),
        odd => odd.to_string(),
    }
}
