//! Is each fault of `[[routes]]` named?

use super::testing::{check, config, each_is_a_fault, faults};

#[test]
fn each_fault_of_a_route_is_named() {
    each_is_a_fault(
        "[limits.slow]\nkey = \"a\"\nrate = \"1r/s\"\n[[routes]]\nupstream = \"u\"\npath = \"/a\"",
        &[
            (
                "name = \"A\"",
                "routes[0].name: `A` is not a name: 1 to 64 of a-z, 0-9, _ and -",
            ),
            (
                "name = \"none\"",
                "routes[0].name: `none` is the name of requests that have no route",
            ),
            (
                "limits = \"slow\"",
                "routes[0].limits: `slow` must be a list",
            ),
            (
                "limits = [\"slow\", \"slow\"]",
                "routes[0].limits[1]: `slow` is asked twice on this route",
            ),
            (
                "limits = [\"slwo\"]",
                "routes[0].limits[0]: `slwo` is not in [limits]; did you mean `slow`?",
            ),
            (
                "limits = [\"other\"]",
                "routes[0].limits[0]: `other` is not in [limits]; known are slow",
            ),
            (
                "methods = []",
                "routes[0].methods: is empty: leave it out where all methods are meant",
            ),
            (
                "methods = [\"GET\", \"GET\"]",
                "routes[0].methods[1]: `GET` is named twice",
            ),
            (
                "methods = [\"get\"]",
                "routes[0].methods[0]: `get` is not a method that anyone sends: write GET",
            ),
            (
                "methods = [\"A B\"]",
                "routes[0].methods[0]: `A B` is not a method",
            ),
            (
                "methods = [\"TRACE\"]",
                "routes[0].methods[0]: `TRACE` is refused on every route",
            ),
            (
                "methods = [5]",
                "routes[0].methods[0]: `5` must be a string",
            ),
            (
                "max_body_bytes = \"lots\"",
                "routes[0].max_body_bytes: `lots` is not a size: write a number of bytes or one with a unit, like 64 KiB",
            ),
            (
                "strip_prefix = 1",
                "routes[0].strip_prefix: `1` must be true or false",
            ),
            (
                "method = [\"GET\"]",
                "routes[0].method: unknown key; did you mean `methods`?",
            ),
        ],
    );
}

#[test]
fn each_fault_of_an_upstream_name_is_named() {
    each_is_a_fault(
        "[upstreams.api]\nurl = \"http://a\"\n[[routes]]\npath = \"/a\"",
        &[
            (
                "upstream = \"apu\"",
                "routes[0].upstream: `apu` is not in [upstreams]; did you mean `api`?",
            ),
            (
                "upstream = \"backend\"",
                "routes[0].upstream: `backend` is not in [upstreams]; known are api, u",
            ),
            (
                "upstream = { url = \"x\" }",
                "routes[0].upstream: must be a string, not a table",
            ),
        ],
    );
}

#[test]
fn each_fault_of_a_path_is_named() {
    for (path, problem) in [
        (
            "",
            "is no path for a route: the path does not begin with a slash",
        ),
        (
            "a",
            "is no path for a route: the path does not begin with a slash",
        ),
        (
            "/a/../b",
            "is no path for a route: the path has dot segments",
        ),
        (
            "/a/%2e%2E",
            "is no path for a route: the path has dot segments",
        ),
        ("/a%5Cb", "is no path for a route: the path has a backslash"),
        (
            "/a%00",
            "is no path for a route: the path has a control character",
        ),
        ("/a?b", "must not have a query or a fragment"),
        ("/a#b", "must not have a query or a fragment"),
        ("/%61%2f", "is not in normal form: write `/a%2F`"),
        (
            "/a b",
            "has characters that a path has only escaped, like %20 for a space",
        ),
        (
            "/ü",
            "has characters that a path has only escaped, like %20 for a space",
        ),
    ] {
        let written = format!("path = \"{path}\"");
        let fault = format!("routes[0].path: `{path}` {problem}");
        each_is_a_fault("[[routes]]\nupstream = \"u\"", &[(&written, &fault)]);
    }
}

#[test]
fn each_fault_of_a_host_is_named() {
    let problem = "is not a host without a port, like api.example.com, *.example.com or [::1] (other scripts as xn--…)";
    for host in [
        "",
        ".",
        "a:80",
        "a..b",
        "*",
        "*.",
        "a.*.b",
        "*a.b",
        "*.[::1]",
        "*.1.2.3.4",
        "bücher.example",
        "a/b",
        "[::g]",
        "http://a",
    ] {
        let written = format!("host = \"{host}\"");
        let fault = format!("routes[0].host: `{host}` {problem}");
        each_is_a_fault(
            "[[routes]]\nupstream = \"u\"\npath = \"/\"",
            &[(&written, &fault)],
        );
    }
}

#[test]
fn routes_that_clash_are_named_with_their_lines() {
    let with = |first: &str, second: &str| {
        faults(&format!(
            "[[routes]]\nupstream = \"u\"\n{first}\n[[routes]]\nupstream = \"u\"\n{second}"
        ))
    };
    let clash = "4: routes[1]: takes the same requests as routes[0] (line 1); differ in host, path or methods";
    let name = "4: routes[1]: has the same name as routes[0] (line 1); set `name`";
    for (first, second, fault) in [
        ("path = \"/a\"", "path = \"/a/\"", clash),
        (
            "path = \"/a\"\nhost = \"A.example\"",
            "path = \"/a\"\nhost = \"a.example.\"",
            "5: routes[1]: takes the same requests as routes[0] (line 1); differ in host, path or methods",
        ),
        (
            "path = \"/a\"\nmethods = [\"GET\", \"PUT\"]",
            "path = \"/a\"\nmethods = [\"PUT\"]\nname = \"b\"",
            "5: routes[1]: takes the same requests as routes[0] (line 1); differ in host, path or methods",
        ),
        ("path = \"/a\"", "path = \"/a\"\nmethods = [\"PUT\"]", name),
    ] {
        assert_eq!(with(first, second), [fault], "{first} {second}");
    }
    let named = with("path = \"/a\"\nname = \"x\"", "path = \"/b\"\nname = \"x\"");
    assert_eq!(
        named,
        ["5: routes[1]: has the same name as routes[0] (line 1); set `name`"]
    );
    for (first, second) in [
        ("path = \"/a\"", "path = \"/a\"\nhost = \"b.example\""),
        ("path = \"/a\"", "path = \"/a/b\""),
        (
            "path = \"/a\"",
            "path = \"/a\"\nmethods = [\"PUT\"]\nname = \"put\"",
        ),
    ] {
        assert_eq!(with(first, second), [""; 0], "{first} {second}");
    }
}

#[test]
fn a_config_without_routes_is_none() {
    let problem = "routes: there are none: write [[routes]] with a path and an upstream";
    for (text, place) in [("", ""), ("routes = []", "1: ")] {
        let place = if place.is_empty() {
            ": x".replace('x', "")
        } else {
            format!(":{place}")
        };
        let faults = check(text).expect_err("no routes").to_string();
        assert_eq!(faults, format!("x.toml{place}{problem}"));
    }
    let faults = check("[routes]\npath = \"/\"")
        .expect_err("a table")
        .to_string();
    assert_eq!(faults, "x.toml:1: routes: must be a list, not a table");
}

#[test]
fn names_and_hosts_are_taken_in_normal_form() {
    let config = config(
        "[limits.b]\nkey = \"b\"\nrate = \"1r/s\"\n[limits.a]\nkey = \"a\"\nrate = \"1r/s\"\n[[routes]]\nupstream = \"u\"\npath = \"/v1/\"\nhost = \"Pay.Example.COM.\"\nmethods = [\"POST\", \"PURGE\"]\nlimits = [\"b\", \"a\"]\nstrip_prefix = true\n[[routes]]\nupstream = \"u\"\npath = \"/\"\nhost = \"*.example.com\"\n[[routes]]\nname = \"ten\"\nupstream = \"u\"\npath = \"/\"\nhost = \"[::1]\"",
    );
    let names: Vec<_> = config.routes.iter().map(|route| &*route.name).collect();
    assert_eq!(
        names,
        ["pay.example.com/v1/", "*.example.com/", "ten", "/rest"]
    );
    let first = config.routes.first().expect("a route");
    assert_eq!(first.pattern.host.as_deref(), Some("pay.example.com"));
    let limits = first
        .limits
        .iter()
        .map(|limit| config.limits.get(*limit).expect("a limit"));
    assert_eq!(
        limits.map(|limit| &*limit.name).collect::<Vec<_>>(),
        ["b", "a"]
    );
    assert!(first.strip_prefix && first.pattern.methods.len() == 2);
}
