//! How does an instance begin, serve and end?

mod assemble;
mod instance;
mod janitor;
mod listen;
mod run;
mod serve;

pub use run::{Ended, Order, ServerError, run};
