//! Is each fault of `[server]`, `[store]` and `[log]` named?

use std::time::Duration;

use super::testing::{config, each_is_a_fault, faults};
use super::{LogFormat, ServerConfig};

#[test]
fn each_fault_of_a_listener_is_named() {
    each_is_a_fault(
        "[server]",
        &[
            ("listen = 8080", "server.listen: `8080` must be a string"),
            (
                "listen = \"localhost:8080\"",
                "server.listen: `localhost:8080` is not an address with a port, like 127.0.0.1:8080 or [::]:8080",
            ),
            (
                "listen = \"127.0.0.1:65536\"",
                "server.listen: `127.0.0.1:65536` is not an address with a port, like 127.0.0.1:8080 or [::]:8080",
            ),
            (
                "lisen = \"127.0.0.1:1\"",
                "server.lisen: unknown key; did you mean `listen`?",
            ),
            (
                "admin = \"127.0.0.1:8080\"",
                "server.admin: `127.0.0.1:8080` must not be where requests come in: `listen` has the same port",
            ),
            (
                "admin = \"0.0.0.0:9180\"",
                "server.admin: `0.0.0.0:9180` is not loopback: set admin_token, or admin_read_only = true",
            ),
            (
                "admin = \"[::]:9180\"",
                "server.admin: `[::]:9180` is not loopback: set admin_token, or admin_read_only = true",
            ),
            (
                "admin_token = \"\"",
                "server.admin_token: must not be empty",
            ),
            (
                "admin_token = \"hush hush\"",
                "server.admin_token: must be visible ASCII without spaces, since it is sent in a header",
            ),
            (
                "admin_token = 12345",
                "server.admin_token: must be a string",
            ),
            (
                "admin_token = \"${EMPTY}\"",
                "server.admin_token: `${EMPTY}` must not be empty",
            ),
            (
                "admin_token = \"${UNSET}\"",
                "server.admin_token: the environment variable UNSET is not set",
            ),
            (
                "admin_read_only = \"yes\"",
                "server.admin_read_only: `yes` must be true or false",
            ),
            (
                "trusted_proxies = \"10.0.0.0/8\"",
                "server.trusted_proxies: `10.0.0.0/8` must be a list",
            ),
            (
                "trusted_proxies = [\"::1\", \"10.0.0.0/33\"]",
                "server.trusted_proxies[1]: `10.0.0.0/33` is not a network like 10.0.0.0/8, nor an address",
            ),
            (
                "trusted_proxies = [\"::ffff:10.0.0.0/104\"]",
                "server.trusted_proxies[0]: `::ffff:10.0.0.0/104` must be written as an IPv4 network",
            ),
        ],
    );
}

#[test]
fn each_number_of_the_server_has_its_range() {
    each_is_a_fault(
        "[server]",
        &[
            (
                "shutdown_grace = 30",
                "server.shutdown_grace: `30` must be a span of time, as a string like \"250ms\" or \"5s\"",
            ),
            (
                "shutdown_grace = \"30\"",
                "server.shutdown_grace: `30` is not a span of time: write a number and a unit, like 250ms, 5s, 2m, 1h or 1d",
            ),
            (
                "shutdown_grace = \"2h\"",
                "server.shutdown_grace: `2h` must be from 0s to 1h",
            ),
            ("threads = 0", "server.threads: `0` must be from 1 to 1024"),
            (
                "threads = -1",
                "server.threads: `-1` must be from 1 to 1024",
            ),
            (
                "threads = 1.5",
                "server.threads: `1.5` must be a whole number",
            ),
            (
                "threads = 0x",
                "server.threads: `0x` must be from 1 to 1024",
            ),
            (
                "header_timeout = \"0s\"",
                "server.header_timeout: `0s` must be from 10ms to 1d",
            ),
            (
                "idle_timeout = \"-5s\"",
                "server.idle_timeout: `-5s` is not a span of time: write a number and a unit, like 250ms, 5s, 2m, 1h or 1d",
            ),
            (
                "body_timeout = \"99999999999999d\"",
                "server.body_timeout: `99999999999999d` is not a span of time: write a number and a unit, like 250ms, 5s, 2m, 1h or 1d",
            ),
            (
                "write_timeout = \"25h\"",
                "server.write_timeout: `25h` must be from 10ms to 1d",
            ),
            (
                "max_connections = 4294967295",
                "server.max_connections: `4294967295` must be from 1 to 1000000",
            ),
            (
                "max_header_bytes = 1024",
                "server.max_header_bytes: `1024` must be from 8 KiB to 1024 KiB",
            ),
            (
                "max_header_bytes = \"2 MiB\"",
                "server.max_header_bytes: `2 MiB` must be from 8 KiB to 1024 KiB",
            ),
            (
                "max_header_bytes = \"64 kilo\"",
                "server.max_header_bytes: `64 kilo` is not a size: write a number of bytes or one with a unit, like 64 KiB",
            ),
            (
                "max_body_bytes = \"2000 GiB\"",
                "server.max_body_bytes: `2000 GiB` must be from 0 KiB to 1073741824 KiB",
            ),
            (
                "max_header_bytes = true",
                "server.max_header_bytes: `true` must be a number of bytes, or a string like \"64 KiB\"",
            ),
            (
                "max_waiting = 0",
                "server.max_waiting: `0` must be from 1 to 10000000",
            ),
            (
                "max_keys = 999999999999999999999999999999999999999999999999",
                "server.max_keys: `999999999999999999999999999999999999999999999999` must be from 1 to 100000000",
            ),
            (
                "legacy_headers = {}",
                "server.legacy_headers: must be true or false, not a table",
            ),
            (
                "legacy_headers = []",
                "server.legacy_headers: must be true or false, not a list",
            ),
            ("tls = true", "server.tls: `true` must be a table"),
            (
                "proxy_protocol = true",
                "server.proxy_protocol: needs trusted_proxies: only they are asked for whom they connect",
            ),
        ],
    );
}

#[test]
fn each_fault_of_the_store_and_the_log_is_named() {
    let of_redis = |key: &str, value: &str| {
        let fault = "belongs to `kind = \"redis\"`";
        (format!("{key} = {value}"), format!("store.{key}: {fault}"))
    };
    for (written, fault) in [
        of_redis("url", "\"redis://127.0.0.1\""),
        of_redis("urls", "[]"),
        of_redis("cluster", "true"),
        of_redis("sentinel", "\"mymaster\""),
        of_redis("ca", "\"ca.pem\""),
        of_redis("timeout", "\"50ms\""),
        of_redis("on_failure", "\"local\""),
        of_redis("prefix", "\"weir\""),
    ] {
        each_is_a_fault("[store]", &[(&written, &fault)]);
    }
    each_is_a_fault(
        "[store]",
        &[
            (
                "kind = \"disk\"",
                "store.kind: `disk` is not known here; known are memory, redis",
            ),
            ("key_secret = \"\"", "store.key_secret: must not be empty"),
            (
                "key_secrets = \"x\"",
                "store.key_secrets: unknown key; did you mean `key_secret`?",
            ),
        ],
    );
    each_is_a_fault(
        "[log]",
        &[
            (
                "format = \"jsno\"",
                "log.format: `jsno` is not known here; did you mean `json`?",
            ),
            ("access = 1", "log.access: `1` must be true or false"),
            (
                "level = \"debug\"",
                "log.level: unknown key; known are format, access",
            ),
        ],
    );
}

#[test]
fn an_admin_listener_on_the_network_is_guarded() {
    for guard in ["admin_token = \"${SECRET}\"", "admin_read_only = true"] {
        config(&format!("[server]\nadmin = \"0.0.0.0:9180\"\n{guard}"));
    }
    let text = "[server]\nadmin = \"0.0.0.0:9180\"\nadmin_token = \"${UNSET}\"";
    let fault = "3: server.admin_token: the environment variable UNSET is not set";
    assert_eq!(faults(text), [fault]);
}

#[test]
fn what_is_not_written_has_its_default() {
    let config = config("");
    let seconds = Duration::from_secs;
    let ServerConfig {
        listen,
        admin,
        tls,
        proxy_protocol,
        admin_token,
        admin_read_only,
        trusted_proxies,
        shutdown_grace,
        threads,
        header_timeout,
        idle_timeout,
        body_timeout,
        write_timeout,
        max_connections,
        max_header_bytes,
        max_body_bytes,
        max_waiting,
        max_keys,
        legacy_headers,
    } = config.server;
    assert_eq!(listen.to_string(), "127.0.0.1:8080");
    assert_eq!(admin.to_string(), "127.0.0.1:9180");
    assert!(admin_token.is_none() && trusted_proxies.is_empty());
    assert!(tls.is_none() && !proxy_protocol);
    assert!(!admin_read_only && !legacy_headers && threads >= 1);
    assert_eq!((shutdown_grace, header_timeout), (seconds(30), seconds(10)));
    assert_eq!((idle_timeout, body_timeout), (seconds(60), seconds(30)));
    assert_eq!((write_timeout, max_connections), (seconds(30), 20_000));
    assert_eq!((max_header_bytes, max_waiting), (65_536, 50_000));
    assert_eq!(max_body_bytes, 1 << 30);
    assert_eq!(max_keys, 1_000_000);
    assert_eq!(config.store.key_secret.reveal(), "weir");
    assert!(config.log.access && config.log.format == LogFormat::Text);
}

#[test]
fn what_is_written_is_taken() {
    let config = config(
        "[server]\nlisten = \"[::1]:0\"\nadmin = \"127.0.0.2:0\"\nthreads = 3\nmax_header_bytes = \"8 KiB\"\ntrusted_proxies = [\"10.1.2.3/8\", \"::1\"]\nheader_timeout = \"1.5s\"\n[store]\nkind = \"memory\"\nkey_secret = \"a${SECRET}\"\n[log]\nformat = \"json\"\naccess = false",
    );
    let server = config.server;
    assert_eq!(server.listen.to_string(), "[::1]:0");
    assert_eq!((server.threads, server.max_header_bytes), (3, 8_192));
    let networks = server.trusted_proxies.iter().map(ToString::to_string);
    assert_eq!(networks.collect::<Vec<_>>(), ["10.0.0.0/8", "::1/128"]);
    assert_eq!(server.header_timeout, Duration::from_millis(1_500));
    assert_eq!(config.store.key_secret.reveal(), "a5eCr3t");
    assert!(!config.log.access && config.log.format == LogFormat::Json);
}

#[test]
fn each_fault_of_a_redis_store_is_named() {
    each_is_a_fault(
        "[store]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:6379/0\"",
        &[
            (
                "timeout = \"0ms\"",
                "store.timeout: `0ms` must be from 1ms to 10s",
            ),
            (
                "on_failure = \"close\"",
                "store.on_failure: `close` is not known here; did you mean `closed`?",
            ),
            (
                "prefix = \"a{b}\"",
                "store.prefix: `a{b}` must have 1 to 64 of A-Z, a-z, 0-9, `_`, `-`, `.` and `:`",
            ),
            (
                "sentinel = \"\"",
                "store.sentinel: `` must name the master that the sentinels know",
            ),
            (
                "urls = [\"redis://127.0.0.1\"]",
                "store.urls: a store has either a url or urls, not both",
            ),
        ],
    );
    each_is_a_fault(
        "[store]\nkind = \"redis\"",
        &[
            (
                "url = \"127.0.0.1:6379\"",
                "store.url: must begin with redis:// or rediss://",
            ),
            (
                "url = \"redis://:5eCr3t@:6379/0\"",
                "store.url: is not a URL like redis://user:password@127.0.0.1:6379/0",
            ),
            (
                "url = \"redis://:5eCr3t@127.0.0.1/zero\"",
                "store.url: is not a URL like redis://user:password@127.0.0.1:6379/0",
            ),
            (
                "url = \"redis://127.0.0.1?db=1\"",
                "store.url: must not have a query or a fragment",
            ),
            ("urls = []", "store.urls: must name at least one server"),
            (
                "urls = [\"redis://a\", \"redis://b\"]",
                "store.urls: several servers go with cluster = true or sentinel = \"NAME\" only",
            ),
            (
                "url = \"${SECRET}\"",
                "store.url: must begin with redis:// or rediss://",
            ),
        ],
    );
    each_is_a_fault(
        "[store]\nkind = \"redis\"\ncluster = true",
        &[(
            "urls = [\"redis://a\", \"rediss://b\"]",
            "store.urls: must be all redis:// or all rediss://",
        )],
    );
}
