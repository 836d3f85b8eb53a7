//! What does the config say of a limit?

mod exempt;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::key::KeyTemplate;
use crate::line::Pace;

pub use exempt::Exempt;

/// A named policy: what is counted, how fast it may go, what a refusal says.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, as in `[limits.NAME]`.
    pub name: Arc<str>,
    /// Under which key requests are counted.
    pub key: KeyTemplate,
    /// How many leading bits of an IPv6 address count.
    pub ipv6_prefix: u8,
    /// Whom it does not count.
    pub exempt: Exempt,
    /// What happens to a request that has no such key.
    pub on_missing_key: OnMissingKey,
    /// How slots follow each other, and how many may wait for them.
    pub pace: Pace,
    /// The longest wait that a request is admitted to.
    pub max_wait: Option<Duration>,
    /// The status of a refusal.
    pub status: StatusCode,
    /// Whether it only counts what it would refuse.
    pub dry_run: bool,
    /// What happens while the store is away, where it isn't the store's own choice.
    pub on_failure: Option<OnFailure>,
}

/// What happens to a limit while the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Each instance goes on by itself with its part of the rate.
    #[default]
    Local,
    /// Requests pass, unshaped.
    Open,
    /// Requests are answered with 503.
    Closed,
}

/// What happens to a request whose key is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingKey {
    /// It is refused with 400.
    #[default]
    Reject,
    /// The limit does not count it.
    Skip,
}
