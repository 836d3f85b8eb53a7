//! How does an instance stand, at a glance?
//!
//! The page itself is a plain table of what is so now. Its script puts something livelier
//! in its place, and speaks to the API for those who look at it.

mod tables;

use std::fmt;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{self, HeaderName, HeaderValue};

use super::Admin;
use super::door::{From, origin};
use super::error::AdminError;

const STYLE: &str = include_str!("page/weir.css");
const SCRIPT: &str = include_str!("page/weir.js");
const ICON: &str = include_str!("page/weir.svg");

/// Nothing runs or loads but what weir itself serves, and no page frames this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'";

const GUARDS: [(HeaderName, HeaderValue); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
];

/// What whoever looks may do, for the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// See keys and change things.
    Open,
    /// The same, since the token was shown.
    Session,
    /// As soon as the token is shown.
    Token,
    /// Nothing more.
    Closed,
}

/// Text within HTML: whatever it holds, it stays text.
struct Escaped<T>(T);

/// The page and what it is made of.
pub(super) fn router() -> Router<Admin> {
    Router::new()
        .route("/", get(page))
        .route(
            "/weir.css",
            get(|| async { file("text/css; charset=utf-8", STYLE) }),
        )
        .route(
            "/weir.js",
            get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }),
        )
        .route(
            "/weir.svg",
            get(|| async { file("image/svg+xml; charset=utf-8", ICON) }),
        )
}

async fn page(State(admin): State<Admin>, request: Request) -> Result<Response, AdminError> {
    let From(from) = origin(&request)?;
    let doors = admin.doors.load();
    let known = doors.known(request.headers(), from, &admin.sessions);
    let (right, closed) = match &known {
        Ok(_) if doors.want_token() => (Right::Session, String::new()),
        Ok(_) => (Right::Open, String::new()),
        Err(AdminError::NoToken) => (Right::Token, String::new()),
        Err(closed) => (Right::Closed, closed.to_string()),
    };
    let state = if *admin.draining.borrow() {
        "draining"
    } else {
        "ready"
    };
    let page = format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>weir</title>
<link rel="icon" href="weir.svg">
<link rel="stylesheet" href="weir.css">
<script src="weir.js" defer></script>
<noscript><meta http-equiv="refresh" content="5"></noscript>
</head>
<body data-right="{right}" data-closed="{closed}" data-read-only="{read_only}">
<main id="plain">
<h1>weir {version} <span class="chip {state}">{state}</span></h1>
{tables}<p class="quiet">As of this moment. <noscript>The page asks again every five seconds; with JavaScript it
is live, and steers. </noscript><a href="metrics">Metrics</a> · <a href="api/openapi.json">API</a></p>
</main>
</body>
</html>
"#,
        closed = Escaped(closed),
        read_only = doors.are_read_only(),
        version = env!("CARGO_PKG_VERSION"),
        tables = tables::Tables {
            app: &admin.app.load(),
            keys: known.is_ok(),
        },
    );
    Ok(file("text/html; charset=utf-8", page))
}

fn file(kind: &'static str, text: impl IntoResponse) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.extend(GUARDS);
    response
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Session => "session",
            Self::Token => "token",
            Self::Closed => "closed",
        })
    }
}

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;

        for sign in self.0.to_string().chars() {
            match sign {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // What turns text around would make one key look like another.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_char('\u{fffd}')?,
                sign if sign.is_control() => f.write_char('\u{fffd}')?,
                sign => f.write_char(sign)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_key_holds_stays_text() {
        let key = "<img src=x onerror='alert(1)'>&\"\u{202e}\n";
        assert_eq!(
            Escaped(key).to_string(),
            "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&quot;\u{fffd}\u{fffd}"
        );
    }
}
