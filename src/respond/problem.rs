//! How is a fault told to a program? (RFC 9457)

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// A body of `application/problem+json`.
#[derive(Debug, Serialize)]
pub struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "<[_]>::is_empty")]
    violated_policies: Vec<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    faults: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream_may_have_seen: Option<bool>,
}

impl<'a> Problem<'a> {
    /// A problem that its status names.
    pub fn new(status: StatusCode, detail: String) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Refused"),
            status: status.as_u16(),
            detail,
            violated_policies: Vec::new(),
            faults: &[],
            upstream_may_have_seen: None,
        }
    }

    /// These limits leave no room.
    #[must_use]
    pub fn quota_exceeded(mut self, violated: &'a [Arc<str>]) -> Self {
        self.kind = QUOTA_EXCEEDED;
        self.title = "Request cannot be satisfied as assigned quota has been exceeded";
        self.violated_policies = violated.iter().map(AsRef::as_ref).collect();
        self
    }

    /// What all share leaves no room.
    #[must_use]
    pub fn reduced_capacity(mut self) -> Self {
        self.kind = REDUCED_CAPACITY;
        self.title = "Request cannot be satisfied due to temporary server capacity constraints";
        self
    }

    /// All that is wrong.
    #[must_use]
    pub fn faults(mut self, faults: &'a [String]) -> Self {
        self.faults = faults;
        self
    }

    /// Whether the upstream may have seen the request.
    #[must_use]
    pub fn seen(mut self, may_have_seen: bool) -> Self {
        self.upstream_may_have_seen = Some(may_have_seen);
        self
    }
}

impl Problem<'_> {
    /// The whole answer.
    pub fn answer(&self) -> Response<Bytes> {
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}
