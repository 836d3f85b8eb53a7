//! Where do buckets live?
//!
//! In memory, in a `table`; those that instances share in `redis` as well.

mod redis;
mod table;

pub use redis::{
    Addresses, BucketName, Paused, RedisConfig, RedisStore, StoreError, StoreNews, Topology,
    is_redis_url,
};
pub use table::{Room, Table, TableFull};
