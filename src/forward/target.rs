//! What does the config say of an upstream?

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, StatusCode};

/// A named upstream.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name, as in `[upstreams.NAME]`.
    pub name: Arc<str>,
    /// How many requests may be under way at once, to the end of their answers.
    pub max_in_flight: Option<u32>,
    /// Who answers.
    pub kind: TargetKind,
}

/// Who answers for an upstream.
#[derive(Clone, Debug)]
pub enum TargetKind {
    /// A server.
    Server(Box<ServerTarget>),
    /// weir itself.
    Respond(Respond),
}

/// A built-in answer.
#[derive(Clone, Debug)]
pub struct Respond {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Bytes,
    /// Its content type.
    pub content_type: HeaderValue,
    /// How long it takes, as a slow backend would.
    pub delay: Duration,
}

/// A server that requests are forwarded to.
#[derive(Clone, Debug)]
pub struct ServerTarget {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// Where it listens.
    pub authority: Authority,
    /// A path that goes before each request's own; none for `/`.
    pub base_path: Option<String>,
    /// How long it may go without any progress until its answer begins, and
    /// between two parts of it.
    pub timeout: Duration,
    /// How long a connection may take to come up, TLS included.
    pub connect_timeout: Duration,
    /// Headers that replace the client's.
    pub set_headers: Vec<(HeaderName, HeaderValue)>,
    /// Which `Host` is sent.
    pub host: HostSent,
    /// Which HTTP is spoken to it.
    pub protocol: Protocol,
    /// Where TLS differs from the system's roots and no client certificate.
    pub tls: TlsFiles,
    /// How it is asked whether it is well.
    pub health: Option<Health>,
}

/// Which `Host` an upstream sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostSent {
    /// The one in its URL.
    #[default]
    Upstream,
    /// The client's.
    Client,
}

/// Which HTTP is spoken to an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What the upstream chooses over TLS, HTTP/1.1 without.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge.
    Http2,
}

/// PEM files for TLS to an upstream.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Roots that are trusted instead of the system's.
    pub ca: Option<PathBuf>,
    /// The client certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A request that is sent again and again to see whether an upstream is well.
#[derive(Clone, Debug)]
pub struct Health {
    /// What is asked for.
    pub path: PathAndQuery,
    /// How often.
    pub interval: Duration,
}

impl Target {
    /// How long a request that no line makes wait may wait for a permit.
    pub fn patience(&self) -> Duration {
        match &self.kind {
            TargetKind::Server(server) => server.timeout,
            TargetKind::Respond(_) => Duration::from_secs(30),
        }
    }
}
