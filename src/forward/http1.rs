//! How does HTTP/1.1 carry requests to an upstream?

mod chunked;
mod exchange;
mod head;
mod length;
mod nonsense;
mod received;
mod sending;
mod wire;

#[cfg(test)]
mod tests;

pub(super) use exchange::send;
pub(super) use received::Received;
pub(super) use wire::Wire;
