//! Which warnings does a sound config bring?

use std::path::Path;

use super::{Warning, parse, warnings};

fn of(limit: &str, more: &str) -> Vec<String> {
    let text = format!(
        "[limits.l]\n{limit}\n[upstreams.u]\nurl = \"http://u\"\n{more}\n[[routes]]\npath = \"/\"\nupstream = \"u\"\nlimits = [\"l\"]\n"
    );
    let config = parse(&text, Path::new("x.toml"), &|_| None).expect(&text);
    warnings(&config).iter().map(Warning::to_string).collect()
}

#[test]
fn numbers_that_surprise_are_named() {
    for (limit, more, starts) in [
        (
            "key = \"a\"\nrate = \"50r/s\"",
            "",
            "limits.l: 50r/s without burst refuses whatever comes closer together than 20ms",
        ),
        (
            "key = \"a\"\nrate = \"5r/m\"\nburst = 3",
            "",
            "limits.l: a request may wait 36s, and clients",
        ),
        (
            "key = \"a\"\nrate = \"5r/m\"\nburst = 3",
            "",
            "limits.l: a request may wait 36s, longer than the shutdown_grace of 30s",
        ),
        (
            "key = \"a\"\nrate = \"1r/m\"\nburst = 3\nmax_wait = \"2m\"",
            "",
            "limits.l: a request may wait 2m, and clients",
        ),
        (
            "key = \"a\"\nrate = \"10r/s\"\nburst = 100\nmax_wait = \"5s\"",
            "",
            "limits.l: max_wait of 5s is reached with 50 waiting: 50 places stay empty",
        ),
        (
            "key = \"a\"\nrate = \"1r/s\"\nburst = 5\nmax_wait = \"5ms\"",
            "",
            "limits.l: max_wait of 5ms is shorter than one interval of 1s",
        ),
        (
            "key = \"a\"\nrate = \"1r/s\"\nburst = 9\nmax_wait = \"5s\"\ncost = { header = \"x-cost\", max = 7 }",
            "",
            "limits.l: a request that costs 7 never passes: its slots take longer than the max_wait of 5s",
        ),
        (
            "key = \"a\"\nrate = \"1r/s\"\nburst = 5\nnodelay = true\nmax_wait = \"5s\"",
            "",
            "limits.l: max_wait has no effect",
        ),
        (
            "key = \"a\"\nrate = \"100r/s\"\nburst = 500\nnodelay = true",
            "",
            "routes[0]: 501 requests of one key reach upstream `u` at once",
        ),
        (
            "key = \"{header.x-user}\"\nrate = \"1r/s\"\nburst = 5\non_missing_key = \"skip\"",
            "",
            "limits.l: a request without its key",
        ),
        (
            "key = \"{ip}\"\nrate = \"1r/s\"\nburst = 5\nipv6_prefix = 0",
            "",
            "limits.l: ipv6_prefix of 0",
        ),
        (
            "key = \"a\"\nrate = \"100r/s\"\nburst = 100",
            "[server]\nmax_waiting = 99",
            "server.max_waiting: 99 is less than the 100 places",
        ),
        (
            "key = \"a\"\nrate = \"1r/s\"\nburst = 1",
            "[server]\ntrusted_proxies = [\"::/0\"]",
            "server.trusted_proxies: whoever",
        ),
        (
            "key = \"a\"\nrate = \"1r/s\"\nburst = 1",
            "[server]\nadmin_token = \"short\"",
            "server.admin_token: shorter",
        ),
        (
            "key = \"a\"\nrate = \"1r/s\"\nburst = 1",
            "[upstreams.v]\nurl = \"http://v\"",
            "upstreams.v: no route leads to it",
        ),
        (
            "key = \"a\"\nrate = \"1r/s\"\nburst = 1",
            "[limits.k]\nkey = \"a\"\nrate = \"1r/s\"",
            "limits.k: no route asks it",
        ),
    ] {
        let warnings = of(limit, more);
        assert!(
            warnings.iter().any(|warning| warning.starts_with(starts)),
            "{starts}\n{warnings:#?}"
        );
    }
}

#[test]
fn numbers_that_fit_are_not() {
    for (limit, more) in [
        ("key = \"{ip}\"\nrate = \"2r/s\"\nburst = 5", ""),
        (
            "key = \"{ip}\"\nrate = \"5r/m\"\nburst = 5\nmax_wait = \"30s\"\n",
            "[server]\nshutdown_grace = \"1m\"",
        ),
        (
            "key = \"a\"\nrate = \"100r/s\"\nburst = 500\nnodelay = true",
            "max_in_flight = 64",
        ),
        (
            "key = \"{header.x|ip}\"\nrate = \"1r/s\"\nburst = 5\non_missing_key = \"skip\"",
            "",
        ),
    ] {
        let mut warnings = of(limit, more);
        warnings.retain(|warning| !warning.contains("places stay empty"));
        assert_eq!(warnings, [""; 0], "{limit}");
    }
}
