//! Who may see keys, and who may change something?
//!
//! With a token, whoever has it, or has shown it in this browser. Without one, programs on this machine: pages in a
//! browser there must be told apart from them by `Host` and `Origin`, since a name may
//! be pointed at this machine, and a page elsewhere may send a form here.

use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{self, HeaderValue};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::Admin;
use super::error::AdminError;
use super::session::Sessions;

/// Who may pass.
#[derive(Clone, Debug, Default)]
pub struct Doors {
    token: Option<Token>,
    read_only: bool,
}

/// A token's hash: all have one length, so that comparing them tells nothing.
#[derive(Clone)]
pub(super) struct Token([u8; 32]);

/// Where a request on the admin listener comes from.
#[derive(Clone, Copy, Debug)]
pub struct From(pub IpAddr);

/// Who changes something, as the log has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// Somebody with the token, from there.
    Token(IpAddr),
    /// Somebody there.
    Address(IpAddr),
}

impl Doors {
    /// Doors for those with `token`, where there is one.
    pub fn new(token: Option<&str>, read_only: bool) -> Self {
        Self {
            token: token.map(Token::of),
            read_only,
        }
    }

    /// Who asks for a change.
    fn change(
        &self,
        headers: &HeaderMap,
        from: IpAddr,
        sessions: &Sessions,
    ) -> Result<Who, AdminError> {
        if is_foreign(headers) {
            return Err(AdminError::ForeignOrigin);
        }
        let who = self.known(headers, from, sessions)?;
        if self.read_only {
            return Err(AdminError::ReadOnly);
        }
        Ok(who)
    }

    /// Who may see keys and change something: with a token, whoever has it.
    pub(super) fn known(
        &self,
        headers: &HeaderMap,
        from: IpAddr,
        sessions: &Sessions,
    ) -> Result<Who, AdminError> {
        if let Some(token) = &self.token {
            let known = shows(headers, token) || sessions.are_open(headers, token, Instant::now());
            return known.then_some(Who::Token(from)).ok_or(AdminError::NoToken);
        }
        Self::neighbour(headers, from)
    }

    /// The token that is shown, by no page of another origin; `None` where none is asked for.
    pub(super) fn shown(
        &self,
        headers: &HeaderMap,
        from: IpAddr,
    ) -> Result<Option<Token>, AdminError> {
        if is_foreign(headers) {
            return Err(AdminError::ForeignOrigin);
        }
        match &self.token {
            None => Self::neighbour(headers, from).map(|_who| None),
            Some(token) if shows(headers, token) => Ok(Some(token.clone())),
            Some(_) => Err(AdminError::NoToken),
        }
    }

    /// Whether there is a token to be shown.
    pub(super) const fn want_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether nobody may change anything.
    pub(super) const fn are_read_only(&self) -> bool {
        self.read_only
    }

    /// Who asks from this machine, by its own name.
    fn neighbour(headers: &HeaderMap, from: IpAddr) -> Result<Who, AdminError> {
        if !from.is_loopback() {
            return Err(AdminError::NotLocal);
        }
        let host = headers.get(header::HOST);
        if !host.is_some_and(|host| name_of(host).is_some_and(|name| is_loopback(&name))) {
            return Err(AdminError::NotLoopbackHost);
        }
        Ok(Who::Address(from))
    }
}

/// Lets nobody in by a name that somebody else may have pointed here.
pub(super) async fn own_name_only(request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let foreign = |host| !name_of(host).is_some_and(|name| is_own_name(&name));
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if foreign(host) => AdminError::ForeignHost.into_response(),
        (_, Some(_)) => {
            AdminError::BadRequest("it has more than one Host".to_owned()).into_response()
        }
        _ => next.run(request).await,
    }
}

/// Lets those through who may see keys.
pub(super) async fn to_keys(
    State(admin): State<Admin>,
    request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let From(from) = origin(&request)?;
    let doors = admin.doors.load();
    doors.known(request.headers(), from, &admin.sessions)?;
    Ok(next.run(request).await)
}

/// Lets those through who may change something, and says who they are.
pub(super) async fn to_changes(
    State(admin): State<Admin>,
    mut request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let From(from) = origin(&request)?;
    let doors = admin.doors.load();
    let who = doors.change(request.headers(), from, &admin.sessions)?;
    let headers = request.headers();
    let has_body = headers
        .get(header::CONTENT_LENGTH)
        .is_some_and(|length| length.as_bytes() != b"0")
        || headers.contains_key(header::TRANSFER_ENCODING);
    if has_body {
        return Err(AdminError::Body);
    }
    request.extensions_mut().insert(who);
    Ok(next.run(request).await)
}

/// Where a request comes from.
pub(super) fn origin(request: &Request) -> Result<From, AdminError> {
    let from = request.extensions().get().copied();
    from.ok_or(AdminError::NotLocal)
}

/// Whether a page of another origin sent this.
fn is_foreign(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return false;
    };
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let origin = origin.as_bytes();
    let authority = origin
        .strip_prefix(b"http://")
        .or_else(|| origin.strip_prefix(b"https://"));
    match (authority, host) {
        (Some(authority), Some(host)) => !authority.eq_ignore_ascii_case(host),
        _ => true,
    }
}

/// Whether this is the token that the headers show.
fn shows(headers: &HeaderMap, token: &Token) -> bool {
    bearer(headers).is_some_and(|given| Token::of(given) == *token)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim_start_matches(' '))
}

fn name_of(host: &HeaderValue) -> Option<String> {
    let name = crate::key::normal_host(host.to_str().ok()?);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    Some(bare.to_owned())
}

/// Whether a name is an address, localhost, or has no dot, as in a cluster.
fn is_own_name(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || !name.contains('.') || name.ends_with(".localhost")
}

fn is_loopback(name: &str) -> bool {
    name == "localhost"
        || name.ends_with(".localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

impl Token {
    pub(super) fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(from) => write!(f, "token from {from}"),
            Self::Address(from) => write!(f, "{from}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    fn change(doors: &Doors, from: IpAddr, fields: &[(&'static str, &'static str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        match doors.change(&headers, from, &Sessions::new()) {
            Ok(_) => 200,
            Err(error) => error.into_response().status().as_u16(),
        }
    }

    #[test]
    fn the_listener_answers_to_its_own_names_only() {
        for (host, own) in [
            ("127.0.0.1:9180", true),
            ("[::1]:9180", true),
            ("localhost:9180", true),
            ("weir:9180", true),
            ("evil.example:9180", false),
            ("127.0.0.1.evil.example", false),
        ] {
            let name = name_of(&HeaderValue::from_static(host)).expect("text");
            assert_eq!(is_own_name(&name), own, "{host}");
        }
    }

    #[test]
    fn without_a_token_only_programs_of_this_machine_change_something() {
        let doors = Doors::new(None, false);
        for (from, fields, status) in [
            (HERE, &[("host", "127.0.0.1:9180")][..], 200),
            (HERE, &[("host", "[::1]:9180")], 200),
            (
                HERE,
                &[
                    ("host", "LOCALHOST:9180"),
                    ("origin", "http://localhost:9180"),
                ],
                200,
            ),
            (HERE, &[("host", "weir:9180")], 421),
            (HERE, &[("host", "10.0.0.7:9180")], 421),
            (HERE, &[], 421),
            (ELSEWHERE, &[("host", "localhost:9180")], 403),
            (
                HERE,
                &[
                    ("host", "localhost:9180"),
                    ("origin", "http://evil.example"),
                ],
                403,
            ),
            (
                HERE,
                &[
                    ("host", "localhost:9180"),
                    ("origin", "http://localhost:3000"),
                ],
                403,
            ),
            (HERE, &[("host", "localhost:9180"), ("origin", "null")], 403),
            (
                HERE,
                &[("host", "localhost:9180"), ("sec-fetch-site", "cross-site")],
                403,
            ),
            (
                HERE,
                &[
                    ("host", "localhost:9180"),
                    ("sec-fetch-site", "same-origin"),
                ],
                200,
            ),
        ] {
            assert_eq!(change(&doors, from, fields), status, "{from} {fields:?}");
        }
    }

    #[test]
    fn with_a_token_only_who_has_it_changes_something() {
        let doors = Doors::new(Some("s3cret"), false);
        let host = ("host", "10.0.0.7:9180");
        for (fields, status) in [
            (&[host, ("authorization", "Bearer s3cret")][..], 200),
            (&[host, ("authorization", "bearer  s3cret")], 200),
            (&[host, ("authorization", "Bearer s3cre")], 401),
            (&[host, ("authorization", "Bearer s3cret2")], 401),
            (&[host, ("authorization", "Basic s3cret")], 401),
            (&[host, ("authorization", "s3cret")], 401),
            (&[("host", "localhost:9180")], 401),
        ] {
            assert_eq!(change(&doors, ELSEWHERE, fields), status, "{fields:?}");
        }
        let read_only = Doors::new(Some("s3cret"), true);
        let fields = [host, ("authorization", "Bearer s3cret")];
        assert_eq!(change(&read_only, HERE, &fields), 403);
        assert!(!format!("{doors:?}").contains("s3cret"));
    }
}
