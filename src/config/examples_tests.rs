//! Are the configs that come with weir sound?

use std::path::{Path, PathBuf};

use super::{Config, parse, warnings};
use crate::forward::TargetKind;

fn example(name: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, super::Faults> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("config")
        .join(name);
    let text = std::fs::read_to_string(path).expect(name);
    parse(&text, Path::new(name), env)
}

fn token(name: &str) -> Option<String> {
    let known = ["PAYMENTS_API_TOKEN", "REDIS_PASSWORD", "WEIR_KEY_SECRET"];
    let token = || Some("t0ken".to_owned());
    match name {
        "WEIR_ADMIN_TOKEN" => Some("a-t0ken-that-nobody-guesses".to_owned()),
        "WEIR_REDIS_URL" => Some("redis://redis:6379/0".to_owned()),
        _ => known.contains(&name).then(token).flatten(),
    }
}

#[test]
fn every_example_is_sound_and_has_no_surprises() {
    for name in [
        "weir.toml",
        "slow-database.toml",
        "payments.toml",
        "cluster.toml",
        "../deploy/weir.toml",
    ] {
        let config = example(name, &token).expect(name);
        assert_eq!(warnings(&config), [], "{name}");
    }
}

#[test]
fn the_quick_start_needs_nothing_else() {
    let config = example("weir.toml", &|_| None).expect("sound");
    let answers = |target: &crate::forward::Target| matches!(target.kind, TargetKind::Respond(_));
    assert!(config.upstreams.iter().all(answers));
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.server.admin.to_string(), "127.0.0.1:9180");
    let routes: Vec<_> = config.routes.iter().map(|route| &*route.name).collect();
    assert_eq!(routes, ["/api/", "/"]);
}

#[test]
fn the_payments_example_misses_its_token() {
    let faults = example("payments.toml", &|_| None).expect_err("no token");
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let fault = "upstreams.payments.set_headers.authorization: the environment variable PAYMENTS_API_TOKEN is not set";
    assert_eq!(faults, [fault]);
}

const REFERENCE: &str = include_str!("../../config/README.md");

#[test]
fn every_snippet_of_the_reference_is_sound() {
    let snippets = REFERENCE.split("```toml\n").skip(1);
    let snippets = snippets.filter_map(|rest| rest.split("```").next());
    let faults: Vec<_> = snippets.clone().map(super::testing::faults).collect();
    assert_eq!(faults, vec![Vec::<String>::new(); 7], "{faults:#?}");
}

const COMING_FROM: &str = include_str!("../../docs/coming-from.md");

#[test]
fn every_snippet_for_those_who_come_from_elsewhere_is_sound() {
    let snippets = COMING_FROM.split("```toml\n").skip(1);
    let snippets: Vec<_> = snippets
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(snippets.len(), 7, "one for each product");
    for snippet in snippets {
        let config = parse(snippet, Path::new("x.toml"), &|_| None).expect(snippet);
        let asked = |limit| {
            config
                .routes
                .iter()
                .any(|route| route.limits.contains(&limit))
        };
        assert!((0..config.limits.len()).all(asked), "{snippet}");
    }
}

#[test]
fn the_reference_has_every_key() {
    let keys = "listen admin admin_token admin_read_only trusted_proxies shutdown_grace threads \
        header_timeout idle_timeout body_timeout write_timeout max_connections max_header_bytes \
        max_body_bytes max_waiting max_keys legacy_headers kind key_secret format access key algorithm rate burst \
        delay nodelay capacity max_wait on_missing_key ipv6_prefix skip skip_methods skip_keys overrides overrides_by cost status dry_run url respond \
        max_in_flight timeout connect_timeout protocol set_headers host ca client_cert client_key \
        urls cluster sentinel prefix on_failure \
        health health_interval body content_type path methods upstream limits name strip_prefix";
    for key in keys.split_whitespace() {
        let named = format!("`{key}`");
        let row = |line: &str| line.starts_with("| ") && line.contains(&named);
        assert!(REFERENCE.lines().any(row), "{key}");
    }
}
