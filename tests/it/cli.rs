//! What does the command say, and with which code does it end?

use crate::harness::{Backend, Weir, one_limit, route, run};

const SOUND: &str = "[limits.main]\nkey = \"{ip}\"\nrate = \"10r/s\"\nburst = 5\n\
    [upstreams.main]\nurl = \"http://127.0.0.1:9\"\n\
    [[routes]]\npath = \"/\"\nupstream = \"main\"\nlimits = [\"main\"]\n";

const FAULTY: &str = "[server]\nthreads = 0\n[limits.main]\nkey = \"{ip}\"\nrate = \"0r/s\"\nbrust = 5\n\
    [upstreams.main]\nurl = \"ftp://127.0.0.1\"\n\
    [[routes]]\npath = \"/\"\nupstream = \"mian\"\n";

/// Where the faults of `FAULTY` are.
const LINES: [&str; 5] = [
    ":2: server.threads: ",
    ":5: limits.main.rate: ",
    ":6: limits.main.brust: ",
    ":8: upstreams.main.url: ",
    ":11: routes[0].upstream: ",
];

#[test]
fn check_says_that_a_sound_config_is_sound() {
    let ran = run(&["check"], Some(SOUND));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("main") && ran.out.contains("10r/s"),
        "{}",
        ran.out
    );
    assert_eq!(ran.err, "");
}

#[test]
fn check_and_serve_say_every_fault_with_its_line_and_end_with_1() {
    for command in ["check", "serve"] {
        let ran = run(&[command], Some(FAULTY));
        assert_eq!(ran.code, Some(1), "{command}");
        for line in LINES {
            let place = format!("{}{line}", ran.config);
            assert!(
                ran.err.contains(&place),
                "{command}: {place} not in {}",
                ran.err
            );
        }
        assert!(!ran.out.contains("listens"), "{command}: {}", ran.out);
    }
}

#[test]
fn text_that_is_no_config_is_a_fault_with_a_line() {
    for (text, line) in [
        ("[server]\nlisten = \n", ":2"),
        ("a\n", ":1"),
        (
            "[limits.a]\nkey = \"a\"\n\nrate = \"1r/s\"\nrate = \"2r/s\"\n",
            ":5",
        ),
    ] {
        for command in ["check", "serve"] {
            let ran = run(&[command], Some(text));
            assert_eq!(ran.code, Some(1), "{command} {text}");
            let place = format!("{}{line}", ran.config);
            assert!(ran.err.contains(&place), "{command} {text}: {}", ran.err);
        }
    }
}

#[test]
fn a_config_that_is_not_there_is_named() {
    for command in ["check", "serve"] {
        let ran = run(&[command], None);
        assert_eq!(ran.code, Some(1), "{command}");
        assert!(ran.err.contains(&ran.config), "{command}: {}", ran.err);
    }
}

#[test]
fn absurd_rates_and_bursts_are_refused_when_the_config_loads() {
    for limit in [
        "rate = \"1000000000r/s\"",
        "rate = \"0r/s\"",
        "rate = \"-1r/s\"",
        "rate = \"\"",
        "rate = \"r/s\"",
        "rate = \"1\"",
        "rate = \"1r/y\"",
        "rate = \"1e3r/s\"",
        "rate = 10",
        "rate = \"1r/s\"\nburst = 4294967295",
        "rate = \"1r/s\"\nburst = -1",
        "rate = \"1r/s\"\nburst = 1.5",
        "rate = \"1r/d\"\nburst = 10000000",
        "rate = \"1r/s\"\nburst = 2\ndelay = 3",
        "rate = \"1r/s\"\nmax_wait = \"0s\"",
        "rate = \"1r/s\"\nalgorithm = \"token_bucket\"\ncapacity = 0",
        "",
    ] {
        let config = SOUND.replace("rate = \"10r/s\"\nburst = 5", limit);
        let ran = run(&["check"], Some(&config));
        assert_eq!(ran.code, Some(1), "{limit}: {}", ran.out);
        assert!(ran.err.contains("limits.main"), "{limit}: {}", ran.err);
    }
    for limit in ["rate = \"1r/d\"", "rate = \"100000r/s\"\nburst = 10000000"] {
        let config = SOUND.replace("rate = \"10r/s\"\nburst = 5", limit);
        let ran = run(&["check"], Some(&config));
        assert_eq!(ran.code, Some(0), "{limit}: {}", ran.err);
    }
}

#[test]
fn explain_tells_who_passes_who_waits_and_who_is_refused() {
    let ran = run(&["explain", "--limit", "main", "--burst", "7"], Some(SOUND));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for row in [
        "1  at once  ",
        "6  500ms    ",
        "7  refused  429, Retry-After: 1",
    ] {
        assert!(ran.out.contains(row), "{row} is not in\n{}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "no escapes in a pipe");
    let ran = run(&["explain", "--json"], Some(SOUND));
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let requests = told["requests"].as_array().expect("requests");
    assert_eq!(requests.len(), 8);
    let fates: Vec<_> = requests.iter().map(|it| it["fate"].as_str()).collect();
    assert_eq!(fates.first(), Some(&Some("passes")));
    assert_eq!(requests.get(5).expect("a sixth")["wait_seconds"], 0.5);
    let seventh = requests.get(6).expect("a seventh");
    assert_eq!(seventh["retry_after_seconds"], 1);
    assert_eq!(
        (&seventh["status"], &seventh["reason"]),
        (&429.into(), &"full".into())
    );
}

#[test]
fn explain_draws_the_override_that_is_asked_for() {
    let text = format!(
        "[limits.plan]\nkey = \"all\"\nrate = \"1r/s\"\noverrides_by = \"{{header.x-plan}}\"\n\
         overrides = {{ gold = {{ rate = \"10r/s\", burst = 5 }} }}\n{SOUND}"
    );
    let line = ["explain", "--limit", "plan", "--override", "gold"];
    let ran = run(&line, Some(&text));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("6  500ms    "), "{}", ran.out);
    let ran = run(
        &["explain", "--limit", "plan", "--override", "tin"],
        Some(&text),
    );
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(
        ran.err.contains("limit `plan` has no override `tin`"),
        "{}",
        ran.err
    );
}

#[test]
fn explain_names_the_limits_where_it_does_not_know_which() {
    let more = format!("[limits.other]\nkey = \"all\"\nrate = \"1r/s\"\n{SOUND}");
    for (line, config, said) in [
        (
            &["explain", "--limit", "mian"][..],
            SOUND,
            "has no limit `mian`; known are main",
        ),
        (&["explain"], &more, "--limit main, other?"),
        (&["explain"], FAULTY, "limits.main.rate: "),
    ] {
        let ran = run(line, Some(config));
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{line:?}");
        assert!(ran.err.contains(said), "{line:?}: {}", ran.err);
    }
    let ran = run(&["explain", "--burst", "0"], Some(SOUND));
    assert_eq!(ran.code, Some(2), "{}", ran.err);
}

#[test]
fn an_odd_command_line_ends_with_2_and_help_with_0() {
    for (line, code) in [
        (&["--help"][..], 0),
        (&["--version"], 0),
        (&["swim"], 2),
        (&["serve", "--fast"], 2),
    ] {
        let ran = run(line, Some(SOUND));
        assert_eq!(ran.code, Some(code), "{line:?}: {}", ran.err);
    }
    let version = run(&["--version"], Some(SOUND)).out;
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}

#[tokio::test]
async fn a_second_weir_on_an_address_refuses_to_start() {
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/s\"", &backend);
    let weir = Weir::start(&config).await;
    let (listen, admin) = (weir.listen(), weir.admin());
    let any = "127.0.0.1:0";
    for (listen, admin, taken) in [
        (&*listen.to_string(), any, listen),
        (any, &*admin.to_string(), admin),
    ] {
        let server = format!("[server]\nlisten = \"{listen}\"\nadmin = \"{admin}\"\n");
        let ran = run(&["serve"], Some(&format!("{server}{config}")));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains(&taken.to_string()), "{}", ran.err);
        assert!(!ran.out.contains("listens"), "{}", ran.out);
    }
    assert_eq!(weir.get("/").await.status, 200, "the first goes on");
}

#[tokio::test]
async fn no_secret_and_no_key_is_logged() {
    let backend = Backend::start();
    let keys = "[log]\nformat = \"json\"\n\
        [limits.main]\nkey = \"{header.authorization}\"\nrate = \"100r/s\"\n";
    let config = format!("{keys}{}", route("limits = [\"main\"]", &backend));
    let weir = Weir::start(&config).await;
    let request = crate::harness::Request::get("/path?token=s3cret")
        .with("Authorization", "Bearer s3cret")
        .with("Cookie", "s3cret");
    assert_eq!(weir.client().await.ask(&request).await.status, 200);
    crate::harness::until("a line for the request", async || {
        let log = weir.log();
        let line = log.iter().find(|line| line.contains("\"outcome\""));
        line.map(drop).ok_or_else(|| log.join("\n"))
    })
    .await;
    for line in weir.log() {
        assert!(!line.contains("s3cret"), "{line}");
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&line);
        assert!(parsed.is_ok(), "{line}");
    }
}
