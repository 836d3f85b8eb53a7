//! How is a rejection told to a client of gRPC?
//!
//! gRPC has statuses of its own, in an answer that is `200` to HTTP. Clients read
//! any other status of HTTP instead of the one that stands beside it.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::rejection::Rejection;
use crate::forward::FaultKind;

/// What `grpc-message` can't hold as it is.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Don't send it again by yourself.
const NEVER: HeaderValue = HeaderValue::from_static("-1");

/// Statuses of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// What a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// HTTP's statuses and a problem in the body.
    Http,
    /// gRPC's statuses.
    Grpc,
    /// The same, from a browser.
    GrpcWeb,
    /// The same, as text.
    GrpcWebText,
}

impl Dialect {
    /// What a request's own content says.
    pub fn of(headers: &HeaderMap) -> Self {
        let Some(kind) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else {
            return Self::Http;
        };
        let Some(rest) = after(kind, b"application/grpc") else {
            return Self::Http;
        };
        let whole = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';' | b' '));
        match (after(rest, b"-web-text"), after(rest, b"-web")) {
            (Some(rest), _) if whole(rest) => Self::GrpcWebText,
            (_, Some(rest)) if whole(rest) => Self::GrpcWeb,
            _ if whole(rest) => Self::Grpc,
            _ => Self::Http,
        }
    }

    const fn content_type(self) -> Option<&'static str> {
        match self {
            Self::Http => None,
            Self::Grpc => Some("application/grpc"),
            Self::GrpcWeb => Some("application/grpc-web"),
            Self::GrpcWebText => Some("application/grpc-web-text"),
        }
    }
}

impl Rejection {
    /// The whole answer, as the client understands it.
    pub fn answer_in(&self, dialect: Dialect) -> Response<Bytes> {
        let mut response = self.answer();
        let Some(content_type) = dialect.content_type() else {
            return response;
        };
        *response.status_mut() = StatusCode::OK;
        *response.body_mut() = Bytes::new();
        let headers = response.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert("grpc-status", HeaderValue::from(self.code() as u16));
        let message = utf8_percent_encode(&self.to_string(), ESCAPED).to_string();
        if let Ok(message) = HeaderValue::try_from(message) {
            headers.insert("grpc-message", message);
        }
        if let Some(pushback) = self.pushback() {
            headers.insert("grpc-retry-pushback-ms", pushback);
        }
        response
    }

    /// After how many milliseconds a client may send the request again by itself.
    fn pushback(&self) -> Option<HeaderValue> {
        if matches!(self, Self::Upstream(fault) if fault.may_have_seen) {
            return Some(NEVER);
        }
        let millis = u32::try_from(self.retry_after()?.as_millis()).unwrap_or(u32::MAX);
        Some(HeaderValue::from(millis.saturating_add(1)))
    }

    fn code(&self) -> Code {
        match self {
            Self::Malformed(_) => Code::Internal,
            Self::NoRoute => Code::Unimplemented,
            Self::MissingKey { .. } | Self::BadCost { .. } => Code::InvalidArgument,
            Self::Refused(_) if self.status() == StatusCode::SERVICE_UNAVAILABLE => {
                Code::Unavailable
            }
            Self::Refused(_) | Self::TooLarge(_) => Code::ResourceExhausted,
            Self::Evicted(_) | Self::Draining => Code::Unavailable,
            Self::Upstream(fault) => match fault.kind {
                FaultKind::Unreachable
                | FaultKind::Foreign
                | FaultKind::NoUpgrade
                | FaultKind::Broken => Code::Unavailable,
                FaultKind::ConnectTimeout | FaultKind::TooSlow => Code::DeadlineExceeded,
                FaultKind::ClientLeft | FaultKind::ClientStalled => Code::Cancelled,
                FaultKind::ClientTooLarge => Code::ResourceExhausted,
            },
        }
    }
}

fn after<'a>(bytes: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = bytes.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Fault;

    #[test]
    fn a_client_of_grpc_is_known_by_what_it_sends() {
        for (kind, dialect) in [
            ("application/grpc", Dialect::Grpc),
            ("Application/gRPC+proto", Dialect::Grpc),
            ("application/grpc;charset=x", Dialect::Grpc),
            ("application/grpc-web+proto", Dialect::GrpcWeb),
            ("application/grpc-web-text", Dialect::GrpcWebText),
            ("application/grpcx", Dialect::Http),
            ("application/json", Dialect::Http),
            ("", Dialect::Http),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            assert_eq!(Dialect::of(&headers), dialect, "{kind}");
        }
        assert_eq!(Dialect::of(&HeaderMap::new()), Dialect::Http);
    }

    #[test]
    fn a_rejection_has_a_status_of_grpc_and_says_whether_to_come_back() {
        let upstream = |kind, may_have_seen| {
            Rejection::Upstream(Fault {
                kind,
                may_have_seen,
                cause: None,
            })
        };
        let limit = "a \u{fc}".into();
        for (rejection, code, pushback) in [
            (Rejection::Draining, "14", Some("1001")),
            (Rejection::NoRoute, "12", None),
            (Rejection::MissingKey { limit }, "3", None),
            (upstream(FaultKind::Unreachable, false), "14", None),
            (upstream(FaultKind::Broken, true), "14", Some("-1")),
            (upstream(FaultKind::TooSlow, true), "4", Some("-1")),
        ] {
            let response = rejection.answer_in(Dialect::Grpc);
            assert_eq!(response.status(), 200, "{rejection}");
            assert!(response.body().is_empty());
            let headers = response.headers();
            assert_eq!(headers["grpc-status"], code, "{rejection}");
            assert_eq!(headers["content-type"], "application/grpc");
            assert!(headers.contains_key("proxy-status"));
            let message = headers["grpc-message"].to_str().expect("ASCII");
            assert!(!message.is_empty() && !message.contains('\u{fc}'));
            let told = headers.get("grpc-retry-pushback-ms");
            assert_eq!(
                told.and_then(|it| it.to_str().ok()),
                pushback,
                "{rejection}"
            );
        }
        let plain = Rejection::Draining.answer_in(Dialect::Http);
        assert_eq!(plain.status(), 503);
        assert_eq!(plain.headers().get("grpc-status"), None);
    }
}
