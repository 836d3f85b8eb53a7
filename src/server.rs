//! How does an instance begin, serve and end?

mod assemble;
mod instance;
mod janitor;
mod listen;
mod run;
mod serve;
mod welcome;

pub use run::{Ended, Order, ServerError, run};
