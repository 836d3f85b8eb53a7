//! What does the status page show, to whom, and who steers from it?

use crate::harness::{Backend, Client, Request, Response, Weir, clients, one_limit, until};

const SLOW: &str = "rate = \"1r/m\"\nburst = 9";
const PAUSE: &str = "/api/limits/main/pause";
const KEYS: &str = "/api/limits/main/buckets";
const WATCHERS: usize = 64;

/// What the admin listener answers to a request with these fields.
async fn says(weir: &Weir, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
    let request = Request::to(&weir.admin().to_string(), method, path);
    let with = |request: Request, (name, value): &(&str, &str)| request.with(name, value);
    weir.admin_says(&fields.iter().fold(request, with)).await
}

/// The cookie of a new session.
async fn signed_in(weir: &Weir, token: &str) -> String {
    let token = format!("Bearer {token}");
    let answer = says(weir, "POST", "/session", &[("Authorization", &token)]).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let cookie = answer.header("set-cookie").expect("a cookie");
    for flag in [
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
        "; Max-Age=43200",
    ] {
        assert!(cookie.contains(flag), "{flag} in {cookie}");
    }
    let (pair, _flags) = cookie.split_once(';').expect("flags");
    pair.to_owned()
}

/// Somebody who watches.
async fn watcher(weir: &Weir) -> Client {
    let mut client = Client::connect(weir.admin()).await;
    client
        .send("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    client
}

/// Waits until it has been told `what`.
async fn hears(client: &mut Client, what: &str) {
    let mut heard = String::new();
    until(what, async || {
        heard.push_str(&String::from_utf8_lossy(&client.some().await));
        let told = heard.contains(what);
        told.then_some(()).ok_or_else(|| heard.clone())
    })
    .await;
}

#[tokio::test]
async fn a_key_from_a_request_stays_text() {
    let backend = Backend::start();
    let limit = one_limit(SLOW, &backend).replace("\"all\"", "\"{header.x-name}\"");
    let weir = Weir::start(&limit).await;
    let mut all = clients(&weir, 2).await;
    for client in &mut all {
        let request = Request::get("/").with("X-Name", "<img src=x onerror='alert(1)'>&\"");
        client.send(request.bytes()).await;
    }
    weir.has_waiting(1).await;
    let page = says(&weir, "GET", "/", &[]).await;
    let escaped = "<td>&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&quot;</td>";
    assert!(page.text().contains(escaped), "{}", page.text());
    assert!(!page.text().contains("<img"), "{}", page.text());
    // By a name that may be pointed here keys are not shown, and why is.
    let elsewhere = weir.admin_says(&Request::to("weir", "GET", "/")).await;
    assert!(
        !elsewhere.text().contains("onerror"),
        "{}",
        elsewhere.text()
    );
    assert!(elsewhere.text().contains("data-right=\"closed\""));
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere_and_is_framed_by_nobody() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(SLOW, &backend)).await;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/weir.js", "text/javascript; charset=utf-8"),
        ("/weir.css", "text/css; charset=utf-8"),
        ("/weir.svg", "image/svg+xml; charset=utf-8"),
    ] {
        let file = says(&weir, "GET", path, &[]).await;
        assert_eq!(file.status, 200, "{path}");
        assert_eq!(file.header("content-type"), Some(kind), "{path}");
        assert_eq!(file.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(file.header("x-frame-options"), Some("DENY"), "{path}");
        let policy = file.header("content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{part} in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let text = file.text();
        for odd in ["https://", "onclick=", "style=\"", "innerHTML"] {
            assert!(!text.contains(odd), "{odd} in {path}");
        }
    }
}

#[tokio::test]
async fn who_has_shown_the_token_steers_until_the_session_ends() {
    let backend = Backend::start();
    let weir = Weir::with("admin_token = \"t0ken\"", &one_limit(SLOW, &backend)).await;
    for wrong in [&[][..], &[("Authorization", "Bearer t0kem")]] {
        let answer = says(&weir, "POST", "/session", wrong).await;
        assert_eq!((answer.status, answer.problem_status()), (401, 401));
        assert_eq!(answer.header("set-cookie"), None);
    }
    let foreign = [
        ("Authorization", "Bearer t0ken"),
        ("Origin", "http://evil.example"),
    ];
    assert_eq!(says(&weir, "POST", "/session", &foreign).await.status, 403);
    let cookie = signed_in(&weir, "t0ken").await;
    let name = cookie.split_once('=').expect("a name").0;
    let guessed = format!("{name}={}", "0".repeat(64));
    for (cookie, status) in [(&*cookie, 200), (&*guessed, 401), (name, 401)] {
        let fields = [("Cookie", cookie)];
        assert_eq!(says(&weir, "POST", PAUSE, &fields).await.status, status);
        assert_eq!(says(&weir, "GET", KEYS, &fields).await.status, status);
    }
    for (name, value) in [
        ("Origin", "http://127.0.0.1:1"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let fields = [("Cookie", &*cookie), (name, value)];
        assert_eq!(
            says(&weir, "POST", PAUSE, &fields).await.status,
            403,
            "{name}"
        );
    }
    let page = says(&weir, "GET", "/", &[("Cookie", &cookie)]).await;
    assert!(page.text().contains("data-right=\"session\""));
    let page = says(&weir, "GET", "/", &[]).await;
    assert!(page.text().contains("data-right=\"token\""));
    let out = says(&weir, "DELETE", "/session", &[("Cookie", &cookie)]).await;
    assert_eq!(out.status, 204);
    assert!(
        out.header("set-cookie")
            .is_some_and(|cookie| cookie.contains("Max-Age=0"))
    );
    let answer = says(&weir, "POST", PAUSE, &[("Cookie", &cookie)]).await;
    assert_eq!(answer.status, 401);
    let said = weir.said();
    assert!(said.contains("a wrong token"), "{said}");
    assert!(!said.contains("t0k"), "{said}");
}

#[tokio::test]
async fn another_token_ends_the_sessions_of_the_one_before() {
    let backend = Backend::start();
    let weir = Weir::with("admin_token = \"t0ken\"", &one_limit(SLOW, &backend)).await;
    let cookie = signed_in(&weir, "t0ken").await;
    let fields = [("Cookie", &*cookie)];
    assert_eq!(
        says(&weir, "POST", "/api/reload", &fields).await.status,
        200
    );
    assert_eq!(says(&weir, "GET", KEYS, &fields).await.status, 200);
    weir.rewrite("t0ken", "next-t0ken");
    assert_eq!(
        says(&weir, "POST", "/api/reload", &fields).await.status,
        200
    );
    assert_eq!(says(&weir, "GET", KEYS, &fields).await.status, 401);
    signed_in(&weir, "next-t0ken").await;
}

#[tokio::test]
async fn only_so_many_watch_and_who_leaves_makes_room() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(SLOW, &backend)).await;
    let mut all = Vec::new();
    for _ in 0..WATCHERS {
        let mut client = watcher(&weir).await;
        hears(&mut client, "data: {").await;
        all.push(client);
    }
    let mut late = watcher(&weir).await;
    let refused = late.response().await;
    assert_eq!((refused.status, refused.problem_status()), (503, 503));
    drop(all.pop());
    until("room for one more", async || {
        let first = watcher(&weir).await.some().await;
        let answer = String::from_utf8_lossy(&first).into_owned();
        let taken = answer.starts_with("HTTP/1.1 200");
        taken.then_some(()).ok_or(answer)
    })
    .await;
}

#[tokio::test]
async fn who_watches_sees_the_end_and_does_not_put_it_off() {
    let backend = Backend::start();
    let config = one_limit(SLOW, &backend);
    let mut weir = Weir::with("shutdown_grace = \"3s\"", &config).await;
    let mut all = clients(&weir, 2).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    weir.has_waiting(1).await;
    let mut watcher = watcher(&weir).await;
    hears(&mut watcher, "\"state\":\"ready\"").await;
    weir.signal(rustix::process::Signal::TERM);
    hears(&mut watcher, "\"state\":\"draining\"").await;
    watcher.rest().await;
    assert_eq!(weir.ended().await, Some(0));
}

#[tokio::test]
async fn who_reads_nothing_is_let_go() {
    let backend = Backend::start();
    // Each event is large, so that the kernel's buffers are full soon.
    let limits: Vec<_> = (0..400)
        .map(|n| format!("[limits.many_{n}]\nkey = \"all\"\nrate = \"1r/s\"\n"))
        .collect();
    let limits = limits.concat();
    let config = format!("{}{limits}", one_limit(SLOW, &backend));
    let weir = Weir::with("write_timeout = \"1s\"", &config).await;
    let watcher = watcher(&weir).await;
    watcher.narrow();
    weir.shows("weir_connections{listener=\"admin\"}", 2.0)
        .await;
    weir.shows("weir_connections{listener=\"admin\"}", 1.0)
        .await;
    drop(watcher);
}
