//! weir: an HTTP reverse proxy that shapes traffic.
//!
//! Requests wait in bounded queues, one for each key, and leave at an even rate.
//! `ARCHITECTURE.md` leads through the modules; each opens with the question
//! that it answers.

pub mod admin;
pub mod bucket;
pub mod cli;
pub mod config;
pub mod forward;
pub mod key;
pub mod layer;
pub mod limit;
pub mod line;
pub mod metrics;
pub mod peer;
pub mod pem;
pub mod proxy;
pub mod respond;
pub mod route;
pub mod server;
pub mod store;
pub mod timer;
pub mod units;
pub mod window;
