//! What went wrong on the way to an upstream, and may it have seen the request?

use std::error::Error;
use std::fmt;

use crate::metrics::UpstreamError;

/// A request that an upstream did not answer.
#[derive(Debug)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// Whether any byte of the request may have reached the upstream: if not, it
    /// is safe to send the request again.
    pub may_have_seen: bool,
    /// What the client library said.
    pub cause: Option<Box<dyn Error + Send + Sync>>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No connection came up.
    Unreachable,
    /// No connection came up in time.
    ConnectTimeout,
    /// A connection came up to something that does not speak HTTP/2.
    Foreign,
    /// A WebSocket was asked for, which the upstream's protocol can't carry.
    NoUpgrade,
    /// The connection broke, or what came back was not HTTP.
    Broken,
    /// Nothing came back in time.
    TooSlow,
    /// The client's body broke off; the upstream is not to blame.
    ClientLeft,
    /// The client's body made no progress; the upstream is not to blame.
    ClientStalled,
    /// The client's body grew too large; the upstream is not to blame.
    ClientTooLarge,
}

impl Fault {
    /// No byte of the request was sent.
    pub(super) fn unsent(kind: FaultKind, cause: Box<dyn Error + Send + Sync>) -> Self {
        Self {
            kind,
            may_have_seen: false,
            cause: Some(cause),
        }
    }

    /// The client is gone, behind a body that was not read to its end.
    pub fn client_left(cause: Option<std::io::Error>) -> Self {
        Self {
            kind: FaultKind::ClientLeft,
            may_have_seen: true,
            cause: cause.map(Into::into),
        }
    }

    /// The upstream has the request, and made no progress for too long.
    pub(super) const fn too_slow() -> Self {
        Self {
            kind: FaultKind::TooSlow,
            may_have_seen: true,
            cause: None,
        }
    }
}

impl FaultKind {
    /// Whether it is the client's own, for which no upstream is to blame.
    pub const fn is_clients(self) -> bool {
        matches!(
            self,
            Self::ClientLeft | Self::ClientStalled | Self::ClientTooLarge
        )
    }

    /// How the metrics call it; none where the upstream is not to blame.
    pub const fn metric(self) -> Option<UpstreamError> {
        match self {
            Self::Unreachable | Self::Foreign => Some(UpstreamError::Connect),
            Self::ConnectTimeout | Self::TooSlow => Some(UpstreamError::Timeout),
            Self::Broken => Some(UpstreamError::Broken),
            Self::ClientLeft | Self::ClientStalled | Self::ClientTooLarge | Self::NoUpgrade => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FaultKind::Unreachable => "the upstream can't be reached",
            FaultKind::ConnectTimeout => "the upstream did not take the connection in time",
            FaultKind::Foreign => {
                "the upstream does not speak HTTP/2, which its protocol is set to"
            }
            FaultKind::NoUpgrade => {
                "the upstream is spoken to by HTTP/2, which carries no WebSocket"
            }
            FaultKind::Broken => "the upstream broke off or answered nonsense",
            FaultKind::TooSlow => "the upstream did not answer in time",
            FaultKind::ClientLeft => "the request's body broke off",
            FaultKind::ClientStalled => "the request's body made no progress",
            FaultKind::ClientTooLarge => "the request's body is too large",
        })
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause
            .as_deref()
            .map(|cause| cause as &(dyn Error + 'static))
    }
}
