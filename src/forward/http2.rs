//! How does HTTP/2 carry requests to an upstream?

mod link;
mod links;
mod pump;
mod received;
mod send;
mod traffic;

pub(super) use link::{Link, NoLink, Share};
pub(super) use links::Links;
pub(super) use pump::Pumped;
pub(super) use received::Received;
pub(super) use send::send;
