//! How does an instance begin, serve and end?

mod assemble;
mod instance;
mod janitor;
mod listen;
mod pages;
mod run;
mod serve;
mod watch;
mod welcome;

pub use run::{Ended, Order, ServerError, run};
