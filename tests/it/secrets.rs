//! Does anything that weir says give a secret away?

use crate::harness::{Answer, Backend, Client, Redis, Response, Weir, run_knowing, until};

/// What the operator keeps in variables.
const KEPT: [(&str, &str); 5] = [
    ("API_TOKEN", "planted-api-token"),
    ("ADMIN_TOKEN", "planted-admin-token-long-enough"),
    ("KEY_SECRET", "planted-key-secret"),
    ("REDIS_PASSWORD", "planted-redis-password"),
    ("REDIS_USER", "planted-redis-user"),
];

/// What every planted secret begins with.
const PLANTED: &str = "planted-";

fn config(redis: &str, backend: &Backend) -> String {
    format!(
        "[store]\nkind = \"redis\"\nkey_secret = \"${{KEY_SECRET}}\"\n\
         url = \"redis://${{REDIS_USER}}:${{REDIS_PASSWORD}}@{redis}/0\"\n\
         [limits.main]\nkey = \"{{header.x-api-key}}:{{query.token}}:{{cookie.sid}}:{{header.authorization}}\"\n\
         rate = \"100r/s\"\nburst = 3\n\
         [limits.narrow]\nkey = \"{{header.x-api-key}}\"\nrate = \"1r/h\"\n\
         [upstreams.main]\nurl = \"{}\"\ntimeout = \"300ms\"\nmax_in_flight = 4\n\
         set_headers = {{ authorization = \"Bearer ${{API_TOKEN}}\", x-also = \"${{API_TOKEN}}\" }}\n\
         [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\nlimits = [\"main\"]\n\
         [[routes]]\nname = \"narrow\"\npath = \"/narrow\"\nupstream = \"main\"\nlimits = [\"narrow\"]\n",
        backend.url()
    )
}

const SERVER: &str = "admin_token = \"${ADMIN_TOKEN}\"\n";

/// A request that carries a secret wherever there is room for one.
fn telling(method: &str, path: &str) -> Vec<u8> {
    let body = "planted-body";
    format!(
        "{method} {path}?token=planted-query HTTP/1.1\r\nHost: a\r\n\
         Authorization: Basic planted-authorization\r\nCookie: sid=planted-cookie\r\n\
         Proxy-Authorization: Basic planted-proxy\r\nX-Api-Key: planted-key\r\n\
         X-Request-Id: planted request id\r\nForwarded: for=planted-forwarded\r\n\
         Prefer: wait=5, planted-preference\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Where a planted secret shows, if anywhere.
fn leak(what: &str, said: &str) -> Option<String> {
    let at = said.find(PLANTED)?;
    let from = said.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
    let line = said.get(from..)?.lines().next()?;
    Some(format!("{what}: {line}"))
}

/// All of an answer, but what an upstream wrote.
fn whole(response: &Response) -> String {
    format!(
        "{:?}\n{}",
        response.fields,
        String::from_utf8_lossy(&response.body)
    )
}

async fn page(weir: &Weir, method: &str, path: &str, token: &str) -> String {
    let mut client = Client::connect(weir.admin()).await;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    client.send(request).await;
    String::from_utf8_lossy(&client.rest().await).into_owned()
}

/// Where the answers to requests give something away.
async fn answers(weir: &Weir) -> Vec<String> {
    let mut leaks = Vec::new();
    let mut served = 0;
    for path in [
        "/",
        "/narrow",
        "/narrow",
        "/reset",
        "/nonsense",
        "/never",
        "/odd",
        "/a/../planted-path",
    ] {
        for method in ["POST", "TRACE", "planted-method"] {
            let mut client = weir.client().await;
            client.send(telling(method, path)).await;
            let response = client.response().await;
            if response.status == 200 {
                served += 1;
            } else {
                leaks.extend(leak(&format!("{method} {path}"), &whole(&response)));
            }
        }
    }
    assert!(served > 0);
    for malformed in [
        "planted\0nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: planted-host planted\r\n\r\n",
        "GET http://planted-one/ HTTP/1.1\r\nHost: planted-other\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: planted-5\r\n\r\n",
    ] {
        let mut client = weir.client().await;
        client.send(malformed).await;
        let response = client.response().await;
        assert_eq!(response.status, 400, "{malformed}");
        leaks.extend(leak(malformed, &whole(&response)));
    }
    leaks
}

/// Where the admin listener's pages do.
async fn pages(weir: &Weir) -> Vec<String> {
    let mut leaks = Vec::new();
    for token in ["planted-admin-token-long-enough", "planted-wrong"] {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/metrics"),
            ("GET", "/readyz"),
            ("GET", "/healthz"),
            ("GET", "/api/limits"),
            ("GET", "/api/limits/main"),
            ("GET", "/api/limits/main/buckets"),
            ("GET", "/planted-page?token=planted"),
            ("POST", "/api/limits/main/pause"),
            ("POST", "/api/reload"),
        ] {
            let said = page(weir, method, path, token).await;
            leaks.extend(leak(path, &said));
        }
    }
    leaks
}

/// Lines below `info` that libraries wrote, who write down what passes through them.
fn of_libraries(said: &str) -> usize {
    let libraries = ["hyper", "redis", "rustls", "h2", "reqwest"];
    let marks = libraries.map(|name| {
        let text = ["DEBUG", "TRACE"].map(|level| format!("{level} {name}"));
        (text, format!("\"target\":\"{name}"))
    });
    let lines = said.lines().filter(|line| {
        let is_low = line.contains("\"DEBUG\"") || line.contains("\"TRACE\"");
        marks.iter().any(|(text, json)| {
            text.iter().any(|mark| line.contains(mark)) || (is_low && line.contains(json))
        })
    });
    lines.count()
}

#[tokio::test]
async fn no_secret_is_in_a_log_a_page_or_an_answer() {
    for (format, levels) in [
        ("text", "trace"),
        ("json", "trace"),
        (
            "json",
            "weir=trace,hyper=trace,redis=trace,rustls=trace,h2=trace",
        ),
    ] {
        let backend = Backend::answering(|seen| match seen.target().split('?').next() {
            Some("/reset") => Answer::nothing().read().reset(),
            Some("/nonsense") => Answer::raw("planted-nonsense\r\n\r\n").close(),
            Some("/never") => Answer::never(),
            Some("/odd") => Answer::raw(
                "HTTP/1.1 200 OK\r\nSet-Cookie: planted-cookie\r\nContent-Length: planted-2\r\n\r\n",
            ),
            _ => Answer::with("200 OK", &[("Set-Cookie", "sid=planted-cookie")], "ok"),
        });
        // It lets nobody in: what it says to that is told in the log.
        let redis = Redis::behind("another").await;
        let config = format!(
            "{}[log]\nformat = \"{format}\"\n",
            config(&redis.address().to_string(), &backend)
        );
        let environment: Vec<_> = KEPT.into_iter().chain([("WEIR_LOG", levels)]).collect();
        let weir = Weir::knowing(&environment, SERVER, &config).await;
        let mut leaks = answers(&weir).await;
        // A broken connection, a stalled one and a reload, which all leave lines.
        let mut client = weir.client().await;
        client.send(&telling("POST", "/never")[..200]).await;
        client.reset();
        weir.rewrite("rate = \"1r/h\"", "rate = \"planted\"");
        weir.signal(rustix::process::Signal::HUP);
        until("the reload's line", async || {
            let told = weir.said().contains("config not reloaded");
            told.then_some(()).ok_or_else(|| weir.said())
        })
        .await;
        weir.rewrite("rate = \"planted\"", "rate = \"1r/h\"\n");
        leaks.extend(pages(&weir).await);
        until("lines of requests", async || {
            let said = weir.said();
            let lines = said.matches("request_id").count();
            (lines > 20).then_some(()).ok_or(said)
        })
        .await;
        let said = weir.said();
        assert!(said.contains("upstream failed"), "weir's own levels hold");
        assert_eq!(of_libraries(&said), 0, "{said}");
        // What the file itself says of a rate is no secret.
        let said = said.replace("`planted` is not a rate", "");
        leaks.extend(leak(&format!("the log with {levels} as {format}"), &said));
        assert!(leaks.is_empty(), "{leaks:#?}");
    }
}

#[test]
fn no_secret_is_in_what_a_check_says() {
    let backend = "http://127.0.0.1:9";
    let sound = format!(
        "[server]\n{SERVER}[store]\nkind = \"redis\"\nkey_secret = \"${{KEY_SECRET}}\"\n\
         url = \"redis://${{REDIS_USER}}:${{REDIS_PASSWORD}}@127.0.0.1:6379/0\"\n\
         [upstreams.main]\nurl = \"{backend}\"\nset_headers = {{ authorization = \"Bearer ${{API_TOKEN}}\" }}\n\
         [[routes]]\npath = \"/\"\nupstream = \"main\"\n"
    );
    let mut leaks = Vec::new();
    let ran = run_knowing(&KEPT, &["check"], Some(&sound));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    leaks.extend(leak("a sound config", &format!("{}\n{}", ran.out, ran.err)));
    // Each puts a secret, from a variable or as it is, where it doesn't belong.
    for (from, to) in [
        ("\"${ADMIN_TOKEN}\"", "\"planted with spaces\""),
        ("\"${ADMIN_TOKEN}\"", "\"planted-open"),
        ("\"${ADMIN_TOKEN}\"", "'''planted-open"),
        ("\"${ADMIN_TOKEN}\"", "planted-bare"),
        ("\"${ADMIN_TOKEN}\"", "[\"planted-list\"]"),
        (
            "\"${ADMIN_TOKEN}\"",
            "\"planted-one\"\nadmin_token = \"planted-two\"",
        ),
        ("admin_token =", "admin_tokn ="),
        ("\"${KEY_SECRET}\"", "\"planted\\u{q}\""),
        ("\"${KEY_SECRET}\"", "[\"planted-list\"]"),
        ("kind = \"redis\"", "kind = \"${API_TOKEN}\""),
        ("@127.0.0.1:6379/0", "@127.0.0.1:port/0"),
        ("redis://${REDIS_USER}", "http://${REDIS_USER}"),
        (
            "redis://${REDIS_USER}:",
            "redis://planted-plain:planted-pass#",
        ),
        (
            "http://127.0.0.1:9",
            "http://planted-user:planted-pass@127.0.0.1:9",
        ),
        ("http://127.0.0.1:9", "${API_TOKEN}"),
        ("http://127.0.0.1:9", "http://${API_TOKEN}:x"),
        ("\"Bearer ${API_TOKEN}\"", "\"Bearer ${API_TOKEN}\\u0000\""),
        ("\"Bearer ${API_TOKEN}\"", "\"planted-in-line\\n\""),
        ("authorization =", "host ="),
        ("authorization =", "\"a b\" ="),
        ("path = \"/\"", "path = \"${API_TOKEN}\""),
        ("path = \"/\"", "path = \"/\"\nlimits = [\"${API_TOKEN}\"]"),
        ("upstream = \"main\"", "upstream = \"${API_TOKEN}\""),
        (
            "upstream = \"main\"",
            "upstream = \"main\"\nmethods = [\"${API_TOKEN} x\"]",
        ),
        (
            "upstream = \"main\"",
            "upstream = \"main\"\nhost = \"${API_TOKEN}/\"",
        ),
        (
            "[upstreams.main]",
            "[upstreams.main]\ntimeout = \"${API_TOKEN}\"",
        ),
        (
            "[upstreams.main]",
            "[limits.a]\nkey = \"{${API_TOKEN}}\"\nrate = \"${API_TOKEN}\"\n[upstreams.main]",
        ),
        (
            "[server]",
            "[server]\nlisten = \"${API_TOKEN}\"\ntrusted_proxies = [\"${API_TOKEN}\"]",
        ),
    ] {
        let faulty = sound.replace(from, to);
        assert_ne!(faulty, sound, "{from}");
        let ran = run_knowing(&KEPT, &["check"], Some(&faulty));
        assert_eq!(ran.code, Some(1), "{to}: {}", ran.out);
        assert!(!ran.err.is_empty(), "{to}");
        leaks.extend(leak(to, &format!("{}\n{}", ran.out, ran.err)));
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
}
