//! How is the API described to programs?

use serde::Serialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema};

/// What is common to the whole API.
#[derive(OpenApi)]
#[openapi(
    info(title = "weir", description = "See and steer an instance of weir."),
    modifiers(&Token),
    tags((name = "see", description = "What there is to see."), (name = "steer", description = "What can be changed.")),
)]
pub(super) struct Description;

struct Token;

impl Modify for Token {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The admin token, where the config has one."));
        api.components
            .get_or_insert_default()
            .add_security_scheme("token", SecurityScheme::Http(bearer.build()));
    }
}

/// A fault, as RFC 9457 has it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    /// All that is wrong with a config file.
    #[schema(nullable = false)]
    faults: Option<Vec<String>>,
}

/// What a request may get that names something.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum Seeing {
    /// What is asked for can't be read.
    #[response(status = 400, content_type = "application/problem+json")]
    Unreadable(Problem),
    /// There is no such limit, or no such bucket.
    #[response(status = 404, content_type = "application/problem+json")]
    Missing(Problem),
    /// It came by a name that isn't this listener's.
    #[response(status = 421, content_type = "application/problem+json")]
    Misdirected(Problem),
}

/// What a request may get that names nothing.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum Asking {
    /// What is asked for can't be read.
    #[response(status = 400, content_type = "application/problem+json")]
    Unreadable(Problem),
    /// It came by a name that isn't this listener's.
    #[response(status = 421, content_type = "application/problem+json")]
    Misdirected(Problem),
}

/// What a request for keys may get.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum Guarded {
    /// The token is missing, or another.
    #[response(status = 401, content_type = "application/problem+json")]
    Unknown(Problem),
    /// Without a token this is for clients on the same machine.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
}

/// What a change may get.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum Changing {
    /// The token is missing, or another.
    #[response(status = 401, content_type = "application/problem+json")]
    Unknown(Problem),
    /// The listener is read-only, or a page of another origin asks.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// It has a body, which nothing is read from.
    #[response(status = 415, content_type = "application/problem+json")]
    Body(Problem),
}
