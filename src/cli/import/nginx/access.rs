//! Who may come to a location, as far as weir can keep others out?

use super::notes::Notes;
use super::tree::Directive;
use super::value::{Level, own};

const CLOSED: &str = "weir checks no access: it answers 403 there until something else checks and the route is changed";

/// Who may come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// All.
    Open,
    /// Nobody, or only those whom weir can't tell from others.
    Closed,
    /// All with one of these methods.
    Methods(Vec<String>),
}

/// Who may come to what lies at a level.
pub(super) fn access(level: &Level<'_>, notes: &mut Notes) -> Access {
    for name in ["auth_basic", "auth_request", "auth_jwt", "auth_digest"] {
        if let Some(directive) = level.one(name) {
            if directive.first() != "off" {
                notes.differs(directive, CLOSED);
                return Access::Closed;
            }
            notes.taken(directive);
        }
    }
    if let Some(directive) = level.one("ssl_verify_client")
        && directive.first() == "on"
    {
        notes.differs(directive, CLOSED);
        return Access::Closed;
    }
    if is_closed(&level.nearest(&["allow", "deny"]), notes) {
        return Access::Closed;
    }
    let Some(except) = own(level.own(), "limit_except") else {
        return Access::Open;
    };
    let [deny] = except.inside() else {
        notes.differs(except, CLOSED);
        return Access::Closed;
    };
    if (&*deny.name, deny.first()) != ("deny", "all") {
        notes.differs(except, CLOSED);
        return Access::Closed;
    }
    notes.taken(except);
    notes.taken(deny);
    let mut methods: Vec<String> = except.texts().map(str::to_ascii_uppercase).collect();
    if methods.iter().any(|method| method == "GET") {
        // NGINX lets HEAD go with GET.
        methods.push("HEAD".to_owned());
    }
    methods.sort();
    methods.dedup();
    Access::Methods(methods)
}

/// Whether rules of addresses keep anybody out. The first that takes an address holds.
fn is_closed(rules: &[&Directive], notes: &mut Notes) -> bool {
    let mut allowed: Vec<&Directive> = Vec::new();
    for rule in rules {
        match (&*rule.name, rule.first()) {
            ("allow", "all") => {
                for rule in allowed {
                    notes.taken(rule);
                }
                notes.taken(rule);
                return false;
            }
            ("allow", _) => allowed.push(rule),
            ("deny", "all") if allowed.is_empty() => {
                notes.taken(rule);
                return true;
            }
            _ => {
                notes.differs(rule, CLOSED);
                return true;
            }
        }
    }
    false
}
