//! What does `weir check` say of a `[store]` that cannot be?

use crate::harness::run;

const REST: &str = "[limits.main]\nkey = \"{ip}\"\nrate = \"10r/s\"\nburst = 5\n\
    [upstreams.main]\nurl = \"http://127.0.0.1:9\"\n\
    [[routes]]\npath = \"/\"\nupstream = \"main\"\nlimits = [\"main\"]\n";

const REDIS: &str = "kind = \"redis\"\n";
const URL: &str = "url = \"redis://127.0.0.1:6379\"\n";
const URLS: &str = "urls = [\"redis://127.0.0.1:1\", \"redis://127.0.0.1:2\"]\n";

#[test]
fn each_sound_store_is_sound_and_needs_no_redis() {
    for store in [
        format!("{REDIS}{URL}"),
        format!("{REDIS}url = \"redis://127.0.0.1:6379/5\"\n"),
        format!("{REDIS}url = \"redis://user:pass@redis.example.com\"\n"),
        format!("{REDIS}url = \"rediss://redis.example.com:6380/0\"\n"),
        format!("{REDIS}{URL}timeout = \"20ms\"\non_failure = \"closed\"\nprefix = \"w2\"\n"),
        format!("{REDIS}{URLS}cluster = true\n"),
        format!("{REDIS}{URLS}sentinel = \"mymaster\"\non_failure = \"open\"\n"),
        format!("{REDIS}{URL}on_failure = \"local\"\nkey_secret = \"s\"\n"),
    ] {
        let ran = run(&["check"], Some(&format!("[store]\n{store}{REST}")));
        assert_eq!(ran.code, Some(0), "{store}{}", ran.err);
    }
}

#[test]
fn each_fault_of_a_store_is_named_with_its_line() {
    for (store, fault) in [
        (REDIS.to_owned(), ":1: store.url: "),
        (format!("{REDIS}url = \"\"\n"), ":3: store.url: "),
        (
            format!("{REDIS}url = \"http://127.0.0.1\"\n"),
            ":3: store.url: ",
        ),
        (format!("{REDIS}url = \"redis://\"\n"), ":3: store.url: "),
        (
            format!("{REDIS}url = \"redis://127.0.0.1:99999\"\n"),
            ":3: store.url: ",
        ),
        (
            format!("{REDIS}url = \"redis://127.0.0.1/x\"\n"),
            ":3: store.url: ",
        ),
        (format!("{REDIS}url = 6379\n"), ":3: store.url: "),
        (
            format!("{REDIS}urls = []\ncluster = true\n"),
            ":3: store.urls: ",
        ),
        (
            format!("{REDIS}urls = [\"x\"]\ncluster = true\n"),
            ":3: store.urls[0]: ",
        ),
        (
            format!("{REDIS}{URLS}sentinel = \"\"\n"),
            ":4: store.sentinel: ",
        ),
        (
            format!("{REDIS}{URL}timeout = \"0s\"\n"),
            ":4: store.timeout: ",
        ),
        (format!("{REDIS}{URL}timeout = 50\n"), ":4: store.timeout: "),
        (
            format!("{REDIS}{URL}on_failure = \"ignore\"\n"),
            ":4: store.on_failure: ",
        ),
        (format!("{REDIS}{URL}prefix = \"\"\n"), ":4: store.prefix: "),
        (
            format!("{REDIS}{URL}prefix = \"a{{b\"\n"),
            ":4: store.prefix: ",
        ),
        (
            format!("{REDIS}{URL}timeuot = \"50ms\"\n"),
            ":4: store.timeuot: ",
        ),
        ("kind = \"disk\"\n".to_owned(), ":2: store.kind: "),
    ] {
        let ran = run(&["check"], Some(&format!("[store]\n{store}{REST}")));
        assert_eq!(ran.code, Some(1), "{store}");
        let place = format!("{}{fault}", ran.config);
        assert!(
            ran.err.contains(&place),
            "{store}: no {fault}in {}",
            ran.err
        );
    }
}

#[test]
fn a_store_that_says_two_things_at_once_is_refused() {
    for store in [
        format!("{REDIS}{URL}{URLS}cluster = true\n"),
        format!("{REDIS}{URLS}cluster = true\nsentinel = \"mymaster\"\n"),
        format!("{REDIS}{URLS}"),
        URL.to_owned(),
        format!("kind = \"memory\"\n{URL}"),
        "kind = \"memory\"\ntimeout = \"50ms\"\n".to_owned(),
        "on_failure = \"open\"\n".to_owned(),
    ] {
        let ran = run(&["check"], Some(&format!("[store]\n{store}{REST}")));
        assert_eq!(ran.code, Some(1), "{store}");
        assert!(ran.err.contains(": store."), "{store}: {}", ran.err);
    }
}

#[test]
fn on_failure_of_a_limit_needs_a_redis_and_one_of_three_words() {
    for (store, word, code) in [
        (format!("[store]\n{REDIS}{URL}"), "closed", 0),
        (format!("[store]\n{REDIS}{URL}"), "shut", 1),
        (String::new(), "closed", 1),
    ] {
        let rest = REST.replace(
            "burst = 5\n",
            &format!("burst = 5\non_failure = \"{word}\"\n"),
        );
        let ran = run(&["check"], Some(&format!("{store}{rest}")));
        assert_eq!(ran.code, Some(code), "{store}{word}: {}", ran.err);
        if code == 1 {
            assert!(
                ran.err.contains(": limits.main.on_failure: "),
                "{}",
                ran.err
            );
        }
    }
}

#[test]
fn no_fault_shows_a_password() {
    for url in [
        "http://user:s3cr3t@127.0.0.1",
        "redis://user:s3cr3t@127.0.0.1:99999",
        "redis://user:s3cr3t@127.0.0.1/x",
        "redis://user:s3cr3t@",
        "user:s3cr3t@127.0.0.1",
        "redis://user:s3cr3t@127.0.0.1",
        "rediss://:s3cr3t@[::1]:6379/0",
    ] {
        for more in ["", "timeout = \"0s\"\n", "cluster = true\n"] {
            let config = format!("[store]\n{REDIS}url = \"{url}\"\n{more}{REST}");
            let ran = run(&["check"], Some(&config));
            let said = ran.out + &ran.err;
            assert!(!said.contains("s3cr3t"), "{url}: {said}");
        }
    }
}
