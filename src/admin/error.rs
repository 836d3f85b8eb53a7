//! Why does the admin listener not do what was asked?

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, HeaderValue};

use crate::respond::Problem;

/// Why a request on the admin listener is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminError {
    #[error("this listener answers to an address or to localhost")]
    ForeignHost,
    #[error("a change without a token must come by a loopback address or localhost")]
    NotLoopbackHost,
    #[error("changes by pages of other origins are refused")]
    ForeignOrigin,
    #[error("the admin token is needed: Authorization: Bearer TOKEN")]
    NoToken,
    #[error("this listener takes no changes: admin_read_only is set")]
    ReadOnly,
    #[error("without an admin token this is for clients on this machine only")]
    NotLocal,
    #[error("no such page")]
    NoPage,
    #[error("this page does not know that method")]
    NoMethod,
    #[error("no limit is called `{0}`")]
    NoLimit(String),
    #[error("this key has no bucket in limit `{0}`")]
    NoBucket(String),
    #[error("{0}")]
    BadRequest(String),
    #[error("nothing is read from a body here: send none")]
    Body,
    #[error("{0}")]
    Full(#[from] crate::bucket::TooManyPaused),
    #[error("the config was not reloaded, and nothing changed")]
    Faults(Vec<String>),
    #[error("the instance is shutting down")]
    Draining,
    #[error("too many watch already")]
    TooManyWatch,
    #[error("the machine has no random numbers")]
    NoRandom,
}

impl AdminError {
    fn status(&self) -> StatusCode {
        match self {
            Self::ForeignHost | Self::NotLoopbackHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin | Self::ReadOnly | Self::NotLocal => StatusCode::FORBIDDEN,
            Self::NoToken => StatusCode::UNAUTHORIZED,
            Self::NoPage | Self::NoLimit(_) | Self::NoBucket(_) => StatusCode::NOT_FOUND,
            Self::NoMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Body => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Full(_) => StatusCode::CONFLICT,
            Self::Faults(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Draining | Self::TooManyWatch | Self::NoRandom => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let mut problem = Problem::new(self.status(), self.to_string());
        if let Self::Faults(faults) = &self {
            problem = problem.faults(faults);
        }
        let mut response = problem.answer().map(Body::from);
        if matches!(self, Self::NoToken) {
            let bearer = HeaderValue::from_static("Bearer realm=\"weir\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}
