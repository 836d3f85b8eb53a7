//! Why has a call to the store no answer, and what follows from that?

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::answer::OddReply;
use crate::metrics::StoreErrorKind;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no connection.
    #[error("Redis can't be reached")]
    Away,
    /// It took too long; it may have been heard all the same.
    #[error("Redis did not answer in time")]
    Timeout,
    /// Redis answered with an error, or the connection broke.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// What came is no answer.
    #[error("the reply has another shape than the script gives it")]
    Reply,
}

impl From<OddReply> for StoreError {
    fn from(OddReply: OddReply) -> Self {
        Self::Reply
    }
}

impl StoreError {
    /// Whether others will fare no better: a server is away, not one bucket odd.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Away | Self::Timeout => true,
            Self::Reply => false,
            Self::Redis(error) => !matches!(
                (error.kind(), error.code()),
                (
                    ErrorKind::Server(ServerErrorKind::ResponseError)
                        | ErrorKind::UnexpectedReturnType,
                    _
                ) | (_, Some("WRONGTYPE"))
            ),
        }
    }

    /// Whether the connection broke.
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Self::Away | Self::Timeout | Self::Reply => false,
            Self::Redis(error) => error.is_io_error() || error.is_connection_dropped(),
        }
    }

    /// Whether the connection leads to the wrong place, or nowhere.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Timeout => true,
            Self::Away | Self::Reply => false,
            Self::Redis(error) => {
                error.is_unrecoverable_error()
                    || error.is_io_error()
                    || error.is_connection_dropped()
                    || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
            }
        }
    }

    pub(super) fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Away => StoreErrorKind::Connection,
            Self::Timeout => StoreErrorKind::Timeout,
            Self::Reply => StoreErrorKind::Reply,
            Self::Redis(error) => match error.kind() {
                ErrorKind::Server(_) | ErrorKind::Extension => StoreErrorKind::Server,
                ErrorKind::Parse | ErrorKind::UnexpectedReturnType => StoreErrorKind::Reply,
                _ => StoreErrorKind::Connection,
            },
        }
    }
}
