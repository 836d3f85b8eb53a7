//! Why was a request not served, and which status says so?

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use super::problem::Problem;
use crate::bucket::{Evicted, Refused, Unserved};
use crate::forward::{Fault, FaultKind};
use crate::key::BadPath;
use crate::limit::BadCost;
use crate::metrics::Outcome;
use crate::peer::Oddity;
use crate::units::whole_seconds;

/// How long a client should stay away from an instance that ends.
const SHORTLY: Duration = Duration::from_secs(1);

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
pub enum Rejection {
    /// It is not a request that can be forwarded.
    #[error("bad request: {0}")]
    Malformed(Malformed),
    /// No route takes it.
    #[error("no route takes this request")]
    NoRoute,
    /// A limit needs a key that it doesn't have.
    #[error("limit {limit} needs a key that the request does not have")]
    MissingKey {
        /// The limit.
        limit: Arc<str>,
    },
    /// A limit can't tell what it costs.
    #[error("limit {limit}: {bad}")]
    BadCost {
        /// The limit.
        limit: Arc<str>,
        /// What is wrong.
        bad: BadCost,
    },
    /// Its body has, or grew to, more than this.
    #[error("the request's body has more than {0} bytes")]
    TooLarge(u64),
    /// A limit refused it.
    #[error("limit {} refused: {}", .0.refusal.limit, .0.refusal.reason.as_str())]
    Refused(Box<Refused>),
    /// It waited, and was told to go.
    #[error("no longer waiting: {}", .0.reason.as_str())]
    Evicted(Evicted),
    /// The instance is shutting down.
    #[error("shutting down")]
    Draining,
    /// The upstream did not answer.
    #[error("{0}")]
    Upstream(#[source] Fault),
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// HTTP/1.1 asks for exactly one.
    #[error("it must have exactly one Host")]
    Host,
    /// The target names another host than `Host` does.
    #[error("its target and its Host differ")]
    Authority,
    /// Servers would read it in two ways.
    #[error("{0}")]
    Odd(#[from] Oddity),
    /// The target is not of a scheme that is proxied.
    #[error("its target is neither http nor https")]
    Scheme,
    /// Nothing that a proxy for servers would forward.
    #[error("its method is not forwarded")]
    Method,
    /// The path has no normal form.
    #[error("{0}")]
    Path(#[from] BadPath),
    /// There is more of its head than is taken.
    #[error("its head is too large")]
    TooLarge,
}

impl Rejection {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(Malformed::TooLarge) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Malformed(_) | Self::MissingKey { .. } | Self::BadCost { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Refused(refused) => refused.refusal.status,
            Self::Evicted(_) | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::Upstream(fault) => match fault.kind {
                FaultKind::Unreachable
                | FaultKind::Foreign
                | FaultKind::NoUpgrade
                | FaultKind::Broken => StatusCode::BAD_GATEWAY,
                FaultKind::ConnectTimeout | FaultKind::TooSlow => StatusCode::GATEWAY_TIMEOUT,
                FaultKind::ClientLeft => StatusCode::BAD_REQUEST,
                FaultKind::ClientStalled => StatusCode::REQUEST_TIMEOUT,
                FaultKind::ClientTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            },
        }
    }

    /// How the metrics call it.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(refused) if refused.refusal.shared => Outcome::Shed,
            Self::Malformed(_)
            | Self::NoRoute
            | Self::MissingKey { .. }
            | Self::BadCost { .. }
            | Self::TooLarge(_)
            | Self::Refused(_) => Outcome::Refused,
            Self::Evicted(_) | Self::Draining => Outcome::Shed,
            Self::Upstream(_) if self.is_too_large() => Outcome::Refused,
            Self::Upstream(fault) if fault.kind.is_clients() => Outcome::Left,
            Self::Upstream(_) => Outcome::Failed,
        }
    }

    /// Whether its body has, or grew to, more than it may.
    pub fn is_too_large(&self) -> bool {
        match self {
            Self::TooLarge(_) => true,
            Self::Upstream(fault) => fault.kind == FaultKind::ClientTooLarge,
            Self::Malformed(_)
            | Self::NoRoute
            | Self::MissingKey { .. }
            | Self::BadCost { .. }
            | Self::Refused(_)
            | Self::Evicted(_)
            | Self::Draining => false,
        }
    }

    /// When to come back, where that may help.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refused) => Some(refused.retry_after),
            Self::Evicted(evicted) => Some(evicted.retry_after),
            Self::Draining => Some(SHORTLY),
            Self::Malformed(_)
            | Self::NoRoute
            | Self::MissingKey { .. }
            | Self::BadCost { .. }
            | Self::TooLarge(_)
            | Self::Upstream(_) => None,
        }
    }

    /// Whether nothing more is to be read from the connection: what follows a bad
    /// request may be part of it, and a client that left wants nothing more.
    fn ends_connection(&self) -> bool {
        match self {
            Self::Malformed(_) | Self::TooLarge(_) => true,
            Self::Upstream(fault) => fault.kind.is_clients(),
            Self::NoRoute
            | Self::MissingKey { .. }
            | Self::BadCost { .. }
            | Self::Refused(_)
            | Self::Evicted(_)
            | Self::Draining => false,
        }
    }

    /// The error type of RFC 9209.
    fn proxy_error(&self) -> &'static str {
        match self {
            Self::Malformed(_)
            | Self::MissingKey { .. }
            | Self::BadCost { .. }
            | Self::TooLarge(_) => "http_request_error",
            Self::NoRoute => "destination_not_found",
            Self::Refused(refused) if refused.refusal.shared => "connection_limit_reached",
            Self::Refused(_) => "http_request_denied",
            Self::Evicted(_) => "connection_limit_reached",
            Self::Draining => "proxy_internal_response",
            Self::Upstream(fault) => match fault.kind {
                FaultKind::Unreachable => "destination_unavailable",
                FaultKind::ConnectTimeout => "connection_timeout",
                FaultKind::Foreign => "http_protocol_error",
                FaultKind::NoUpgrade => "http_upgrade_failed",
                FaultKind::Broken => "connection_terminated",
                FaultKind::TooSlow => "http_response_timeout",
                FaultKind::ClientLeft | FaultKind::ClientStalled | FaultKind::ClientTooLarge => {
                    "http_request_error"
                }
            },
        }
    }

    fn problem(&self) -> Problem<'_> {
        let mut problem = Problem::new(self.status(), self.to_string());
        match self {
            Self::Refused(refused) if self.outcome() == Outcome::Refused => {
                problem = problem.quota_exceeded(&refused.violated);
            }
            Self::Refused(_) | Self::Evicted(_) | Self::Draining => {
                problem = problem.reduced_capacity();
            }
            Self::Upstream(fault) => problem = problem.seen(fault.may_have_seen),
            Self::Malformed(_)
            | Self::NoRoute
            | Self::MissingKey { .. }
            | Self::BadCost { .. }
            | Self::TooLarge(_) => (),
        }
        problem
    }
}

impl Rejection {
    /// The whole answer.
    pub fn answer(&self) -> Response<Bytes> {
        let mut response = self.problem().answer();
        let headers = response.headers_mut();
        let details = self.to_string().replace(['"', '\\'], "'");
        let status = format!("weir; error={}; details=\"{details}\"", self.proxy_error());
        if let Ok(status) = HeaderValue::try_from(status) {
            headers.insert("proxy-status", status);
        }
        if let Some(wait) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        if self.ends_connection() {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<Malformed> for Rejection {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Unserved> for Rejection {
    fn from(unserved: Unserved) -> Self {
        match unserved {
            Unserved::Refused(refused) => Self::Refused(refused),
            Unserved::Evicted(evicted) => Self::Evicted(evicted),
        }
    }
}
