//! Where do buckets live in a test?
//!
//! Each of these is real `redis-server` processes on ports of their own, ready
//! when `start` returns and killed when it is dropped.

mod caller;
mod cluster;
mod secure;
mod sentinels;
mod server;
mod value;

pub(crate) use caller::Caller;
pub(crate) use cluster::Cluster;
pub(crate) use secure::Secure;
pub(crate) use sentinels::Sentinels;
pub(crate) use server::Redis;
pub(crate) use value::Value;

/// How long a call to a store may take where nobody asks how long one does.
const PATIENCE: &str = "timeout = \"1s\"\n";
