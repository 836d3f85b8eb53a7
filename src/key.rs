//! Under which text is a request counted?

mod client;
#[cfg(test)]
mod fuzz_tests;
mod id;
mod jwt;
mod normal;
mod spelling;
mod template;

pub use client::{client_address, is_trusted};
pub use id::{KeyHasher, KeyId};
pub use normal::{BadPath, normal_host, normal_path};
pub use template::{Facts, KeyTemplate, TemplateError, is_secret_name};
