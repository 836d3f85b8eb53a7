//! Is each fault of `[limits.NAME]` named?

use std::time::Duration;

use super::testing::{config, each_is_a_fault, faults};
use crate::limit::{OnMissingKey, Policy};
use crate::window::{Kind, Window};

#[test]
fn each_fault_of_a_limit_is_named() {
    each_is_a_fault(
        "[limits.l]\nkey = \"{ip}\"\nrate = \"1r/s\"",
        &[
            (
                "burst = -1",
                "limits.l.burst: `-1` must be from 0 to 10000000",
            ),
            (
                "burst = 4294967295",
                "limits.l.burst: `4294967295` must be from 0 to 10000000",
            ),
            (
                "burst = \"5\"",
                "limits.l.burst: `5` must be a whole number",
            ),
            (
                "brust = 5",
                "limits.l.brust: unknown key; did you mean `burst`?",
            ),
            ("delay = 5", "limits.l.delay: `5` is above the burst of 0"),
            (
                "delay = -5",
                "limits.l.delay: `-5` must be from 0 to 10000000",
            ),
            (
                "delay = 0\nnodelay = true",
                "limits.l.delay: does not go with nodelay, which lets the whole burst pass at once",
            ),
            ("nodelay = 1", "limits.l.nodelay: `1` must be true or false"),
            (
                "capacity = 5",
                "limits.l.capacity: belongs to `algorithm = \"token_bucket\"`; a leaky bucket has a burst",
            ),
            (
                "limit = 5",
                "limits.l.limit: belongs to the window algorithms; a bucket has a rate",
            ),
            (
                "window = \"1d\"",
                "limits.l.window: belongs to the window algorithms; a bucket has a rate",
            ),
            (
                "offset = \"1h\"",
                "limits.l.offset: belongs to the window algorithms; a bucket has a rate",
            ),
            (
                "on_failure = \"open\"",
                "limits.l.on_failure: belongs to a store of `kind = \"redis\"`",
            ),
            (
                "max_wait = \"0s\"",
                "limits.l.max_wait: `0s` must be from 1ms to 30d",
            ),
            (
                "on_missing_key = \"ignore\"",
                "limits.l.on_missing_key: `ignore` is not known here; known are reject, skip",
            ),
            (
                "ipv6_prefix = 129",
                "limits.l.ipv6_prefix: `129` must be from 0 to 128",
            ),
            (
                "status = 200",
                "limits.l.status: `200` must be from 400 to 599",
            ),
            (
                "dry_run = \"true\"",
                "limits.l.dry_run: `true` must be true or false",
            ),
            (
                "skip = [\"10.0.0/8\"]",
                "limits.l.skip[0]: `10.0.0/8` is not a network like 10.0.0.0/8, nor an address",
            ),
            (
                "skip = \"10.0.0.0/8\"",
                "limits.l.skip: `10.0.0.0/8` must be a list",
            ),
            (
                "skip_methods = [\"options\"]",
                "limits.l.skip_methods[0]: `options` is not a method that anyone sends: write OPTIONS",
            ),
            (
                "skip_keys = [\"10.0.0.1\", \"alice\"]",
                "limits.l.skip_keys[1]: `alice` is not how a key of this limit can read",
            ),
            (
                "algorithm = \"leaky_buket\"",
                "limits.l.algorithm: `leaky_buket` is not known here; did you mean `leaky_bucket`?",
            ),
        ],
    );
}

#[test]
fn each_fault_of_a_rate_is_named() {
    let shape =
        "is not a rate: write a number and a unit, like 10r/s, 5r/m, 0.5r/s, 100r/h or 1r/d";
    let range = "is out of range: from 1r/d to 100000r/s";
    for (rate, problem) in [
        ("", shape),
        ("r/s", shape),
        ("10", shape),
        ("-1r/s", shape),
        ("10 per second", shape),
        ("0r/s", "must be above 0"),
        ("1000000000r/s", range),
        ("0.5r/d", range),
    ] {
        let written = format!("rate = \"{rate}\"");
        let fault = format!("limits.l.rate: `{rate}` {problem}");
        each_is_a_fault("[limits.l]\nkey = \"{ip}\"", &[(&written, &fault)]);
    }
    let number = ("rate = 10", "limits.l.rate: `10` must be a string");
    each_is_a_fault("[limits.l]\nkey = \"{ip}\"", &[number]);
}

#[test]
fn each_fault_of_a_key_is_named() {
    each_is_a_fault(
        "[limits.l]\nrate = \"1r/s\"",
        &[
            (
                "key = \"\"",
                "limits.l.key: a key must not be empty: write {ip} for one bucket per address, or a word for one bucket in all",
            ),
            (
                "key = \"{ip\"",
                "limits.l.key: `{ip` has a brace without its partner",
            ),
            (
                "key = \"{ip}{addr}\"",
                "limits.l.key: `addr` is not a part of a key: use ip, host, method, route, path, header.NAME, query.NAME, cookie.NAME or jwt.CLAIM",
            ),
            (
                "key = [\"{ip}\"]",
                "limits.l.key: must be a string, not a list",
            ),
        ],
    );
}

#[test]
fn what_has_no_default_is_missed_at_its_table() {
    assert_eq!(
        faults("\n[limits.l]"),
        [
            "2: limits.l.key: is missing: write \"{ip}\" for one bucket per address, or a word for one bucket in all",
            "2: limits.l.rate: is missing: write a number and a unit, like \"10r/s\"",
        ]
    );
    assert_eq!(
        faults(
            "[limits]\nl = { key = \"{ip}\", rate = \"1r/s\", algorithm = \"token_bucket\", burst = 1 }"
        ),
        [
            "2: limits.l.burst: belongs to `algorithm = \"leaky_bucket\"`; a token bucket has a capacity",
            "2: limits.l.capacity: is missing: write how many requests may pass at once",
        ]
    );
}

#[test]
fn each_fault_of_a_token_bucket_is_named() {
    each_is_a_fault(
        "[limits.l]\nkey = \"{ip}\"\nrate = \"1r/d\"\nalgorithm = \"token_bucket\"",
        &[
            (
                "capacity = 0",
                "limits.l.capacity: `0` must be from 1 to 10000000",
            ),
            (
                "capacity = 4294967295",
                "limits.l.capacity: `4294967295` must be from 1 to 10000000",
            ),
            (
                "capacity = 5000",
                "limits.l.capacity: a burst of 4999 at 1r/d takes 5000d to drain; at most 3650d can be kept exactly",
            ),
        ],
    );
}

#[test]
fn each_fault_of_a_window_is_named() {
    let fixed = "algorithm = \"fixed_window\"\nlimit = 5\nwindow = \"1h\"";
    let bucket = "belongs to the bucket algorithms; a window has a limit";
    let limit = format!("[limits.l]\nkey = \"{{ip}}\"\n{fixed}");
    for (written, of) in [
        ("rate = \"1r/s\"", "rate"),
        ("burst = 5", "burst"),
        ("delay = 5", "delay"),
        ("nodelay = true", "nodelay"),
        ("capacity = 5", "capacity"),
    ] {
        each_is_a_fault(&limit, &[(written, &format!("limits.l.{of}: {bucket}"))]);
    }
    each_is_a_fault(
        &limit,
        &[
            (
                "offset = \"1h\"",
                "limits.l.offset: `1h` is not shorter than the window of 1h",
            ),
            (
                "offset = \"1\"",
                "limits.l.offset: `1` is not a span of time: write a number and a unit, like 250ms, 5s, 2m, 1h or 1d",
            ),
            (
                "offset = \"-1h\"",
                "limits.l.offset: `-1h` is not a span of time: write a number and a unit, like 250ms, 5s, 2m, 1h or 1d",
            ),
        ],
    );
    let window = |text: &str| format!("[limits.l]\nkey = \"{{ip}}\"\n{text}");
    each_is_a_fault(
        &window("algorithm = \"sliding_window_log\"\nwindow = \"1m\""),
        &[
            ("limit = 0", "limits.l.limit: `0` must be from 1 to 100000"),
            (
                "limit = -5",
                "limits.l.limit: `-5` must be from 1 to 100000",
            ),
            (
                "limit = 100001",
                "limits.l.limit: `100001` must be from 1 to 100000",
            ),
            (
                "offset = \"1s\"\nlimit = 5",
                "limits.l.offset: belongs to `algorithm = \"fixed_window\"`; a sliding window begins nowhere",
            ),
        ],
    );
    each_is_a_fault(
        &window("algorithm = \"sliding_window_counter\"\nlimit = 5"),
        &[
            (
                "window = \"0s\"",
                "limits.l.window: `0s` must be from 100ms to 366d",
            ),
            (
                "window = \"400d\"",
                "limits.l.window: `400d` must be from 100ms to 366d",
            ),
            (
                "window = 60",
                "limits.l.window: `60` must be a span of time, as a string like \"250ms\" or \"5s\"",
            ),
        ],
    );
    assert_eq!(
        faults("\n[limits.l]\nkey = \"{ip}\"\nalgorithm = \"fixed_window\""),
        [
            "2: limits.l.limit: is missing: write how many may pass in a window",
            "2: limits.l.window: is missing: write a span of time, like \"1m\" or \"1d\"",
        ]
    );
}

#[test]
fn each_fault_of_a_sync_is_named() {
    let redis =
        "[store]\nkind = \"redis\"\nurl = \"redis://127.0.0.1\"\n[limits.l]\nkey = \"{ip}\"";
    let window = "algorithm = \"sliding_window_log\"\nlimit = 5\nwindow = \"1s\"";
    each_is_a_fault(
        &format!("{redis}\n{window}"),
        &[
            (
                "sync = \"1s\"",
                "limits.l.sync: `1s` is not shorter than the window of 1s",
            ),
            (
                "sync = \"1ms\"",
                "limits.l.sync: `1ms` must be from 5ms to 1m",
            ),
        ],
    );
    each_is_a_fault(
        &format!("{redis}\nrate = \"1r/s\"\nburst = 3"),
        &[(
            "sync = \"50ms\"",
            "limits.l.sync: belongs to limits in which nobody waits: the slots of a line are Redis's to give",
        )],
    );
    each_is_a_fault(
        &format!("[limits.l]\nkey = \"{{ip}}\"\n{window}"),
        &[(
            "sync = \"50ms\"",
            "limits.l.sync: belongs to a store of `kind = \"redis\"`",
        )],
    );
}

#[test]
fn a_window_is_what_is_written() {
    let read = |text: &str| {
        let config = config(&format!("[limits.l]\nkey = \"{{ip}}\"\n{text}"));
        let limit = config.limits.first().expect("a limit").rule;
        *limit.window().expect("a window")
    };
    let hours = |hours| Duration::from_hours(hours);
    for (text, kind, limit, span, offset) in [
        (
            "algorithm = \"fixed_window\"\nlimit = 5\nwindow = \"1d\"\noffset = \"5h\"",
            Kind::Fixed,
            5,
            hours(24),
            hours(5),
        ),
        (
            "algorithm = \"sliding_window_log\"\nlimit = 100000\nwindow = \"1h\"",
            Kind::Log,
            100_000,
            hours(1),
            hours(0),
        ),
        (
            "algorithm = \"sliding_window_counter\"\nlimit = 10000000\nwindow = \"366d\"",
            Kind::Counter,
            10_000_000,
            hours(366 * 24),
            hours(0),
        ),
    ] {
        assert_eq!(read(text), Window::new(kind, limit, span, offset), "{text}");
    }
}

#[test]
fn names_are_plain() {
    for name in ["\"\"", "API", "\"a b\"", "ü", &"x".repeat(65)] {
        let name = if name.is_ascii() {
            name.to_owned()
        } else {
            format!("\"{name}\"")
        };
        let text = format!("[limits.{name}]\nkey = \"{{ip}}\"\nrate = \"1r/s\"");
        let faults = faults(&text);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults
                .iter()
                .all(|fault| fault.ends_with(": a name has 1 to 64 of a-z, 0-9, _ and -"))
        );
    }
}

fn policy(text: &str) -> Policy {
    let head = "[limits.l]\nkey = \"{ip}\"\nrate = \"10r/s\"";
    let config = config(&format!("{head}\n{text}"));
    config.limits.first().expect("a limit").clone()
}

#[test]
fn a_burst_is_places_or_passes() {
    let pace = |text| (policy(text).rule.burst(), policy(text).rule.delay());
    for (text, burst, delay) in [
        ("", 0, 0),
        ("burst = 20", 20, 0),
        ("burst = 20\ndelay = 5", 20, 5),
        ("burst = 20\ndelay = 20", 20, 20),
        ("burst = 20\nnodelay = true", 20, 20),
        ("burst = 20\nnodelay = false\ndelay = 1", 20, 1),
        ("burst = 0x14", 20, 0),
        ("burst = 10_000_000", 10_000_000, 0),
        ("algorithm = \"leaky_bucket\"\nburst = 1", 1, 0),
        ("algorithm = \"token_bucket\"\ncapacity = 1", 0, 0),
        ("algorithm = \"token_bucket\"\ncapacity = 20", 19, 19),
    ] {
        assert_eq!(pace(text), (burst, delay), "{text}");
    }
}

#[test]
fn what_is_not_written_has_its_default() {
    let limit = policy("");
    assert_eq!((&*limit.name, limit.ipv6_prefix), ("l", 64));
    assert_eq!(limit.on_missing_key, OnMissingKey::Reject);
    assert_eq!((limit.max_wait, limit.status.as_u16()), (None, 429));
    assert!(!limit.dry_run);
    let limit = policy(
        "max_wait = \"5s\"\nstatus = 503\nipv6_prefix = 48\non_missing_key = \"skip\"\ndry_run = true",
    );
    assert_eq!(limit.on_missing_key, OnMissingKey::Skip);
    assert_eq!(limit.max_wait, Some(Duration::from_secs(5)));
    assert_eq!((limit.status.as_u16(), limit.ipv6_prefix), (503, 48));
    assert!(limit.dry_run);
}
