//! How does a request reach its upstream?

mod answer;
mod body;
mod client;
mod connect;
mod dial;
mod fault;
mod head;
mod headers;
mod health;
mod http1;
mod http2;
mod patience;
mod pool;
mod target;
mod tls;
mod tunnel;
mod upgrade;

pub use answer::{Answer, AnswerBody};
pub use body::{BodyError, RequestBody, Upload};
pub use client::{Client, Clients, RequestBytes};
pub use fault::{Fault, FaultKind};
pub use head::ParkedHead;
pub use headers::{Hop, to_client, to_upstream};
pub use health::probe;
pub use target::{Health, HostSent, Protocol, Respond, ServerTarget, Target, TargetKind, TlsFiles};
pub use tls::{TlsError, client_config};
pub use tunnel::Tunnel;
pub use upgrade::{is_websocket, to_websocket};
