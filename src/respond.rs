//! What does weir answer by itself?

mod built_in;
mod grpc;
mod limits;
mod problem;
mod rejection;

pub use built_in::answer as built_in;
pub use grpc::Dialect;
pub use limits::LimitFields;
pub use problem::Problem;
pub use rejection::{Malformed, Rejection};
