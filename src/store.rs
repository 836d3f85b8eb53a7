//! Where do buckets live?

mod table;

pub use table::{Room, Table, TableFull};
