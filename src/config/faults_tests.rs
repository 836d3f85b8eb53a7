//! Are all faults told at once, each with its place, and none with a secret?

use std::path::Path;

use super::testing::{SECRET, check};
use super::{load, parse};

const FOURTEEN: &str = r#"# fourteen things are wrong here
[server]
listen = 8080
threads = 0
idle_timout = "60s"

[store]
kind = "redis"
url = "127.0.0.1:6379"

[limits.api]
key = "{ipp}"
rate = "0r/s"
burst = 5
delay = 6

[limits.Login]
key = "{ip}"
rate = "1r/s"
status = 200

[upstreams.api]
url = "ftp://api.example.com"
set_headers = { authorization = "Bearer ${UNSET}", te = "trailers" }

[[routes]]
path = "api"
upstream = "app"
limits = ["api", "apy"]
"#;

#[test]
fn all_faults_come_at_once_by_line() {
    let faults = check(FOURTEEN).expect_err("fourteen faults");
    assert_eq!(
        faults.lines().collect::<Vec<_>>(),
        [
            "x.toml:3: server.listen: `8080` must be a string",
            "x.toml:4: server.threads: `0` must be from 1 to 1024",
            "x.toml:5: server.idle_timout: unknown key; did you mean `idle_timeout`?",
            "x.toml:9: store.url: must begin with redis:// or rediss://",
            "x.toml:12: limits.api.key: `ipp` is not a part of a key: use ip, host, method, route, path, header.NAME, query.NAME, cookie.NAME or jwt.CLAIM",
            "x.toml:13: limits.api.rate: `0r/s` must be above 0",
            "x.toml:15: limits.api.delay: `6` is above the burst of 5",
            "x.toml:17: limits.Login: a name has 1 to 64 of a-z, 0-9, _ and -",
            "x.toml:20: limits.Login.status: `200` must be from 400 to 599",
            "x.toml:23: upstreams.api.url: `ftp://api.example.com` must begin with http:// or https://",
            "x.toml:24: upstreams.api.set_headers.authorization: the environment variable UNSET is not set",
            "x.toml:24: upstreams.api.set_headers.te: is reserved: weir writes it for each connection itself",
            "x.toml:27: routes[0].path: `api` is no path for a route: the path does not begin with a slash",
            "x.toml:28: routes[0].upstream: `app` is not in [upstreams]; did you mean `api`?",
            "x.toml:29: routes[0].limits[1]: `apy` is not in [limits]; did you mean `api`?",
        ]
    );
}

#[test]
fn unknown_tables_are_faults() {
    let faults =
        check("[sever]\nlisten = \"x\"\n[limit.a]\n[[route]]\npath = \"/\"").expect_err("unknown");
    assert_eq!(
        faults.lines().collect::<Vec<_>>(),
        [
            "x.toml:1: sever: unknown key; did you mean `server`?",
            "x.toml:3: limit: unknown key; did you mean `limits`?",
            "x.toml:4: route: unknown key; did you mean `routes`?",
            "x.toml: routes: there are none: write [[routes]] with a path and an upstream",
        ]
    );
}

#[test]
fn a_text_that_is_not_toml_has_one_fault_with_its_line() {
    for (text, fault) in [
        ("[server\n", "x.toml:1: unclosed table, expected `]`"),
        (
            "[server]\nlisten = x",
            "x.toml:2: string values must be quoted, expected literal string",
        ),
        ("[server]\n[server]", "x.toml:2: duplicate key"),
        ("a = \"x\n", "x.toml:1: invalid basic string, expected `\"`"),
    ] {
        assert_eq!(check(text).expect_err(text).to_string(), fault, "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("weir.toml");
    let name = path.display().to_string();
    let fault = || load(&path).expect_err("no config").to_string();
    assert_eq!(
        fault(),
        format!("{name}: No such file or directory (os error 2)")
    );
    std::fs::write(&path, b"[server]\n# caf\xe9\n").expect("written");
    assert_eq!(fault(), format!("{name}:2: not UTF-8 text"));
    std::fs::write(&path, vec![b'\n'; (4 << 20) + 1]).expect("written");
    assert_eq!(fault(), format!("{name}: longer than 4 MiB"));
    let path = dir.path();
    let fault = load(path).expect_err("a directory").to_string();
    assert_eq!(
        fault,
        format!("{}: Is a directory (os error 21)", path.display())
    );
}

/// Every place that takes a string, each with a value that is wrong there.
const SECRETS: &str = r#"
[server]
listen = "${SECRET}"
admin = "${SECRET}"
admin_token = "${SECRET} ${SECRET}"
trusted_proxies = ["${SECRET}"]
shutdown_grace = "${SECRET}"
max_header_bytes = "${SECRET}"
threads = "${SECRET}"
legacy_headers = "${SECRET}"
tls = "${SECRET}"
[store]
kind = "${SECRET}"
key_secret = ["${SECRET}"]
[log]
format = "${SECRET}"
[limits.a]
key = "{${SECRET}}"
rate = "${SECRET}"
algorithm = "${SECRET}"
max_wait = "${SECRET}"
on_missing_key = "${SECRET}"
[limits.b]
key = "${SECRET}{"
rate = "${SECRET}r/s"
burst = "${SECRET}"
status = "${SECRET}"
[limits.c]
key = "{ip}"
rate = "${SLOW}"
burst = 10000000
[limits.d]
key = "{header.${SECRET} x}"
rate = "${ZERO}"
[upstreams.a]
url = "${SECRET}"
timeout = "${SECRET}"
protocol = "${SECRET}"
host = "${SECRET}"
health = "${SECRET}"
ca = "${SECRET}"
client_cert = "${SECRET}"
set_headers = { x = "${SECRET}\n", "${SECRET}" = "x", host = "${SECRET}" }
[upstreams.b]
url = "http://user:${SECRET}@b"
[upstreams.c]
respond = { body = ["${SECRET}"], content_type = "${SECRET}\n", delay = "${SECRET}" }
[[routes]]
name = "${SECRET}"
path = "${SECRET}"
host = "${SECRET}:80"
methods = ["${SECRET} "]
upstream = "${SECRET}"
limits = ["${SECRET}"]
[[routes]]
path = "/%61${SECRET}"
upstream = "c"
[[routes]]
path = "/${SECRET}"
upstream = "c"
[[routes]]
path = "/${SECRET}/"
upstream = "c"
methods = ["${LOWER}"]
[[routes]]
path = "/${SECRET}/"
upstream = "c"
"#;

#[test]
fn what_a_variable_brings_is_never_shown() {
    let env = |name: &str| match name {
        "SECRET" => Some(SECRET.to_owned()),
        "SLOW" => Some("2r/d".to_owned()),
        "ZERO" => Some("0.000r/m".to_owned()),
        "LOWER" => Some("delete".to_owned()),
        _ => None,
    };
    let faults = parse(SECRETS, Path::new("x.toml"), &env).expect_err("faults");
    let shown = format!("{faults}\n{faults:?}");
    for secret in [SECRET, "2r/d", "0.000r/m", "delete"] {
        let line = faults.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
        assert!(!shown.contains(secret), "{secret}");
    }
    // Each line of the text but the tables' heads has its fault.
    let sound = [
        "key = \"{ip}\"",
        "upstream = \"c\"",
        "path = \"/${SECRET}",
        "burst = 10000000",
        "rate = \"${SLOW}\"",
    ];
    for (index, text) in SECRETS.lines().enumerate().skip(1) {
        let is_sound = text.starts_with('[') || sound.iter().any(|start| text.starts_with(start));
        let found = faults.iter().any(|fault| fault.line() == Some(index + 1));
        assert!(found || is_sound, "{}: {text}\n{faults}", index + 1);
    }
}
