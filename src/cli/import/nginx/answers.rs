//! What does weir answer where nothing is forwarded?

use super::notes::Notes;
use super::plan::{string, takes_upstream};
use super::tree::Directive;
use super::upstreams::Upstreams;
use super::value::Level;

/// For what NGINX does and weir doesn't: files, other protocols.
pub(super) fn not_imported(upstreams: &mut Upstreams<'_>) -> String {
    upstreams.respond(
        "not-imported",
        "status = 501",
        "what NGINX does and weir does not",
    )
}

/// Where NGINX has nothing either.
pub(super) fn not_found(upstreams: &mut Upstreams<'_>) -> String {
    upstreams.respond("not-found", "status = 404", "what has no location")
}

/// Where access is restricted.
pub(super) fn forbidden(upstreams: &mut Upstreams<'_>) -> String {
    upstreams.respond("forbidden", "status = 403", "what only some may see")
}

/// The upstream that a `return` comes to.
pub(super) fn answer(
    directive: &Directive,
    level: &Level<'_>,
    upstreams: &mut Upstreams<'_>,
    notes: &mut Notes,
) -> String {
    let (code, text) = match directive.values.as_slice() {
        [code] => (code.as_str(), None),
        [code, text] => (code.as_str(), Some(text.as_str())),
        _ => ("", None),
    };
    let status = code.parse::<u16>().ok();
    let Some(status) = status.filter(|status| (200..600).contains(status)) else {
        notes.left_out(
            directive,
            "weir answers with a status from 200 to 599; it answers 501",
        );
        return not_imported(upstreams);
    };
    let redirects = matches!(status, 301 | 302 | 303 | 307 | 308);
    if redirects {
        notes.left_out(directive, "weir does not redirect; it answers 501");
        return not_imported(upstreams);
    }
    notes.taken(directive);
    if status == 444 {
        notes.differs(
            directive,
            "weir answers 444 instead of closing the connection",
        );
    }
    let has_no_body = matches!(status, 204 | 205 | 304);
    let body = text.filter(|text| !has_no_body && !text.contains('$'));
    if text.is_some() && body.is_none() {
        notes.differs(
            directive,
            "its text is left out: an answer's text has no variables",
        );
    }
    if text.is_none() && status >= 400 && status != 444 {
        notes.differs(directive, "the answer has no page");
    }
    let mut respond = format!("status = {status}");
    if let Some(body) = body {
        respond = format!("{respond}, body = {}", string(body));
        if let Some(kind) = level.one("default_type") {
            let with = format!("{respond}, content_type = {}", string(kind.first()));
            if takes_upstream(&[format!("respond = {{ {with} }}")]).is_ok() {
                notes.taken(kind);
                respond = with;
            }
        }
    }
    upstreams.respond(&format!("return-{status}"), &respond, &directive.spot())
}
