//! How does a request reach its upstream?

mod body;
mod client;
mod connect;
mod fault;
mod head;
mod headers;
mod health;
mod patience;
mod pool;
mod target;
mod tls;

pub use body::{AnswerBody, BodyError, RequestBody, Upload};
pub use client::{Answer, Client, Clients, RequestBytes};
pub use fault::{Fault, FaultKind};
pub use head::ParkedHead;
pub use headers::{Hop, ends_plainly, to_client, to_upstream};
pub use health::probe;
pub use target::{Health, HostSent, Respond, ServerTarget, Target, TargetKind, TlsFiles};
pub use tls::{TlsError, client_config};
