//! Are costs and overrides read as they are meant?

use super::testing::{config, each_is_a_fault, faults};
use crate::limit::Cost;

#[test]
fn each_fault_of_a_cost_is_named() {
    each_is_a_fault(
        "[limits.l]\nkey = \"{ip}\"\nrate = \"1r/s\"\nburst = 9",
        &[
            ("cost = 0", "limits.l.cost: `0` must be from 1 to 10"),
            ("cost = 11", "limits.l.cost: `11` must be from 1 to 10"),
            ("cost = \"3\"", "limits.l.cost: `3` must be a whole number"),
            (
                "cost = { max = 5 }",
                "limits.l.cost.header: is missing: write which header says what a request costs",
            ),
            (
                "cost = { header = \"x-cost\" }",
                "limits.l.cost.max: is missing: write the most that a request may cost",
            ),
            (
                "cost = { header = \"x cost\", max = 5 }",
                "limits.l.cost.header: `x cost` is not a header's name",
            ),
            (
                "cost = { header = \"x-cost\", max = 11 }",
                "limits.l.cost.max: `11` must be from 1 to 10",
            ),
            (
                "cost = { header = \"x-cost\", max = 5, default = 0 }",
                "limits.l.cost.default: `0` must be from 1 to 10",
            ),
            (
                "cost = { header = \"x-cost\", max = 5, least = 1 }",
                "limits.l.cost.least: unknown key; known are header, max, default",
            ),
        ],
    );
}

#[test]
fn a_cost_is_a_number_or_in_a_header() {
    let cost = |text: &str| {
        let limit = "[limits.l]\nkey = \"all\"\nalgorithm = \"token_bucket\"\nrate = \"1r/s\"";
        config(&format!("{limit}\ncapacity = 20\n{text}")).limits[0]
            .cost
            .clone()
    };
    assert_eq!(cost(""), Cost::each(1));
    assert_eq!(cost("cost = 20"), Cost::each(20));
    let name = http::HeaderName::from_static("x-cost");
    assert_eq!(
        cost("cost = { header = \"X-Cost\", max = 20 }"),
        Cost::in_header(name.clone(), 20, 1)
    );
    assert_eq!(
        cost("cost = { header = \"x-cost\", max = 8, default = 4 }"),
        Cost::in_header(name, 8, 4)
    );
}

#[test]
fn each_fault_of_an_override_is_named() {
    let of = |limit: &str, faults: &[(&str, &str)]| {
        let head =
            format!("[limits.l]\nkey = \"u{{header.x-user}}\"\n{limit}\n[limits.l.overrides]");
        each_is_a_fault(&head, faults);
    };
    of(
        "rate = \"1r/s\"\nburst = 9\ndelay = 5\ncost = 2",
        &[
            ("u = 5", "limits.l.overrides.u: `5` must be a table"),
            (
                "other = { rate = \"2r/s\" }",
                "limits.l.overrides.other: is not how a key of this limit can read",
            ),
            (
                "u1 = { rate = \"2\" }",
                "limits.l.overrides.u1.rate: `2` is not a rate: write a number and a unit, like 10r/s, 5r/m, 0.5r/s, 100r/h or 1r/d",
            ),
            (
                "u1 = { brust = 2 }",
                "limits.l.overrides.u1.brust: unknown key; did you mean `burst`?",
            ),
            (
                "u1 = { status = 503 }",
                "limits.l.overrides.u1.status: unknown key; known are rate, burst, delay, nodelay",
            ),
            (
                "u1 = { algorithm = \"token_bucket\" }",
                "limits.l.overrides.u1.algorithm: is the limit's, for all of its keys",
            ),
            (
                "u1 = { capacity = 2 }",
                "limits.l.overrides.u1.capacity: belongs to `algorithm = \"token_bucket\"`; a leaky bucket has a burst",
            ),
            (
                "u1 = { limit = 2 }",
                "limits.l.overrides.u1.limit: belongs to the window algorithms; a bucket has a rate",
            ),
            (
                "u1 = { burst = 3 }",
                "limits.l.overrides.u1.burst: `3` is below the limit's delay of 5",
            ),
            (
                "u1 = { delay = 10 }",
                "limits.l.overrides.u1.delay: `10` is above the burst of 9",
            ),
            (
                "u1 = { delay = 1, nodelay = true }",
                "limits.l.overrides.u1.delay: does not go with nodelay, which lets the whole burst pass at once",
            ),
            (
                "u1 = { burst = 0, delay = 0 }",
                "limits.l.overrides.u1: lets one request have 1 at most, and one may cost 2",
            ),
        ],
    );
    of(
        "algorithm = \"fixed_window\"\nlimit = 5\nwindow = \"1d\"\noffset = \"5h\"",
        &[
            (
                "u1 = { window = \"1h\" }",
                "limits.l.overrides.u1.window: `1h` is not longer than the limit's offset of 5h",
            ),
            (
                "u1 = { offset = \"1d\" }",
                "limits.l.overrides.u1.offset: `1d` is not shorter than the window of 1d",
            ),
            (
                "u1 = { rate = \"1r/s\" }",
                "limits.l.overrides.u1.rate: belongs to the bucket algorithms; a window has a limit",
            ),
            (
                "u1 = { limit = 0 }",
                "limits.l.overrides.u1.limit: `0` must be from 1 to 10000000",
            ),
        ],
    );
    each_is_a_fault(
        "[limits.l]\nkey = \"{ip}\"\nrate = \"1r/s\"",
        &[
            (
                "overrides_by = \"{header.x-plan}\"",
                "limits.l.overrides_by: has no effect: there are no overrides",
            ),
            (
                "overrides = { gold = { burst = 3 } }\noverrides_by = \"{ip}\"",
                "limits.l.overrides.gold: is not how overrides_by can read",
            ),
        ],
    );
}

#[test]
fn an_override_is_like_its_limit_but_for_what_it_says() {
    let rules = |limit: &str, of: &str| {
        let text = format!(
            "[limits.l]\nkey = \"{{header.x-user}}\"\n{limit}\noverrides = {{ a = {{ {of} }} }}"
        );
        let policy = config(&text).limits.remove(0);
        let (_, rule) = policy.overrides.iter().next().expect("one");
        (rule.to_string(), rule.burst(), rule.delay())
    };
    let leaky = "rate = \"10r/s\"\nburst = 20\ndelay = 5";
    let is = |rate: &str, burst, delay| (rate.to_owned(), burst, delay);
    assert_eq!(rules(leaky, ""), is("10r/s", 20, 5));
    assert_eq!(rules(leaky, "rate = \"50r/s\""), is("50r/s", 20, 5));
    assert_eq!(rules(leaky, "burst = 50"), is("10r/s", 50, 5));
    assert_eq!(rules(leaky, "burst = 2, delay = 1"), is("10r/s", 2, 1));
    assert_eq!(rules(leaky, "nodelay = true"), is("10r/s", 20, 20));
    let nodelay = "rate = \"10r/s\"\nburst = 20\nnodelay = true";
    assert_eq!(rules(nodelay, "burst = 50"), is("10r/s", 50, 50));
    assert_eq!(rules(nodelay, "nodelay = false"), is("10r/s", 20, 0));
    assert_eq!(rules(nodelay, "delay = 3"), is("10r/s", 20, 3));
    let tokens = "algorithm = \"token_bucket\"\nrate = \"10r/s\"\ncapacity = 20";
    assert_eq!(rules(tokens, "capacity = 200"), is("10r/s", 199, 199));
    let window = "algorithm = \"sliding_window_log\"\nlimit = 5\nwindow = \"1m\"";
    assert_eq!(rules(window, "limit = 50"), is("50 per 1m", 49, 49));
    assert_eq!(rules(window, "window = \"1s\""), is("5 per 1s", 4, 4));
}

#[test]
fn an_override_of_a_secret_key_is_named_by_its_number() {
    let limit = "[limits.l]\nkey = \"{header.x-api-key}\"\nrate = \"1r/s\"\n";
    let overrides =
        "[limits.l.overrides]\nsk-9 = { burst = 5 }\nsk-5 = { rate = \"2\", brust = 2 }\nsk-1 = 5";
    let found = faults(&format!("{limit}{overrides}"));
    assert_eq!(found.len(), 3, "{found:?}");
    for (fault, path) in found.iter().zip(["[2].rate: ", "[2].brust: ", "[3]: "]) {
        assert!(
            fault.contains(&format!("limits.l.overrides{path}")),
            "{fault}"
        );
        assert!(!fault.contains("sk-"), "{fault}");
    }
    // Which secret a key is of that can't be read, nobody knows.
    let unread = limit.replace("{header.x-api-key}", "{header.}");
    let found = faults(&format!("{unread}{overrides}"));
    assert!(
        !found.is_empty() && !found.iter().any(|fault| fault.contains("sk-")),
        "{found:?}"
    );
}

#[test]
fn two_overrides_of_one_key_are_a_fault() {
    each_is_a_fault(
        "[limits.l]\nkey = \"{ip}\"\nrate = \"1r/s\"",
        &[(
            "overrides = { \"2001:db8::1\" = { burst = 3 }, \"2001:db8::2\" = { burst = 4 } }",
            "limits.l.overrides.2001:db8::2: reads like another override of this limit",
        )],
    );
}
