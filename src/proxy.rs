//! What happens to a request, from its head to the end of its answer?

mod account;
mod app;
mod claim;
mod outgoing;
mod path;
mod send;
mod sight;
mod socket;
mod streams;

pub use app::{App, Edition, Route, Settings, Upstream, Worker};
pub use claim::claim;
pub use outgoing::Outgoing;
pub use path::proxy;
pub use sight::prefer_wait;
pub use streams::Streams;
