//! What does the admin API tell, and what does it send away?

use serde_json::{Value, json};

use crate::harness::{Backend, Client, Request, Weir, clients, ms, one_limit, responses, until};

const TWO_KEYS: &str = "rate = \"1r/m\"\nburst = 9";

/// A limit on `X-Name`, with so many waiting under each name.
async fn crowded(crowd: &[(&str, usize)], backend: &Backend) -> (Weir, Vec<Client>) {
    let config = one_limit(TWO_KEYS, backend).replace("\"all\"", "\"{header.x-name|ip}:{route}\"");
    let weir = Weir::start(&config).await;
    let mut all = Vec::new();
    for (name, count) in crowd {
        for mut client in clients(&weir, *count + 1).await {
            client
                .send(Request::get("/").with("X-Name", name).bytes())
                .await;
            all.push(client);
        }
    }
    let waiting = crowd.iter().map(|(_, count)| *count).sum::<usize>();
    weir.has_waiting(u32::try_from(waiting).expect("few")).await;
    (weir, all)
}

#[tokio::test]
async fn a_limit_tells_how_it_stands() {
    let backend = Backend::start();
    let (weir, _all) = crowded(&[("ann", 3), ("bob", 1)], &backend).await;
    let limits = weir.api("GET", "/api/limits").await;
    assert_eq!(limits.status, 200);
    assert_eq!(limits.header("content-type"), Some("application/json"));
    assert_eq!(limits.header("cache-control"), Some("no-store"));
    let limits = limits.json();
    let limit = &limits["limits"][0];
    for (name, value) in [
        ("name", json!("main")),
        ("algorithm", json!("leaky_bucket")),
        ("key", json!("{header.x-name|ip}:{route}")),
        ("secret", json!(false)),
        ("rate", json!("1r/m")),
        ("burst", json!(9)),
        ("delay", json!(0)),
        ("waiting", json!(4)),
        ("buckets", json!(2)),
        ("line_length", json!(3)),
        ("paused", json!(false)),
        ("paused_until", Value::Null),
        ("admitted", json!(2)),
    ] {
        assert_eq!(limit[name], value, "{name} in {limit}");
    }
    assert!(limit["oldest_wait_seconds"].as_f64().expect("a number") > 0.0);
    assert_eq!(limit["slots"]["used"], json!(2));
    let one = weir.api("GET", "/api/limits/main").await;
    assert_eq!(one.json()["waiting"], json!(4));
    let status = weir.api("GET", "/api/status").await.json();
    assert_eq!(status["state"], json!("ready"));
    assert_eq!(status["waiting"], json!(4));
    assert_eq!(status["limits"][0]["name"], json!("main"));
    assert_eq!(status["upstreams"][0]["answers"]["2xx"], json!(2));
    assert_eq!(status["routes"][0]["requests"]["passed"], json!(2));
}

#[tokio::test]
async fn the_deepest_buckets_come_first_and_a_key_is_found_by_its_text() {
    let backend = Backend::start();
    let (weir, _all) = crowded(&[("ann", 1), ("b/o b", 3), ("cy", 0)], &backend).await;
    let buckets = weir
        .api("GET", "/api/limits/main/buckets?top=2")
        .await
        .json();
    assert_eq!(buckets["total"], json!(3));
    let deepest = buckets["buckets"].as_array().expect("buckets");
    let keys: Vec<_> = deepest.iter().map(|bucket| &bucket["key"]).collect();
    assert_eq!(keys, [&json!("b/o b:main"), &json!("ann:main")]);
    assert_eq!(deepest[0]["waiting"], json!(3));
    assert_eq!(deepest[0]["line_length"], json!(3));
    let next = deepest[0]["next_slot_seconds"].as_f64().expect("a number");
    assert!(next > 50.0 && next <= 60.0, "{next}");
    let id = deepest[0]["id"].as_str().expect("an id");
    for path in [
        format!("/api/limits/main/buckets/{id}"),
        "/api/limits/main/buckets/b%2Fo%20b:main".to_owned(),
    ] {
        let bucket = weir.api("GET", &path).await;
        assert_eq!(bucket.status, 200, "{path}: {}", bucket.text());
        assert_eq!(bucket.json()["id"], json!(id), "{path}");
    }
    // Nobody waits under it: its text is not kept.
    let quiet = weir.api("GET", "/api/limits/main/buckets/cy:main").await;
    assert_eq!(quiet.json()["key"], Value::Null, "{}", quiet.text());
    assert_eq!(quiet.json()["waiting"], json!(0));
    let nobody = weir.api("GET", "/api/limits/main/buckets/dan:main").await;
    assert_eq!((nobody.status, nobody.problem_status()), (404, 404));
}

#[tokio::test]
async fn what_may_be_a_credential_is_shown_nowhere() {
    let backend = Backend::start();
    let config = one_limit(TWO_KEYS, &backend).replace("\"all\"", "\"{header.x-api-key}\"");
    let weir = Weir::start(&config).await;
    let mut all = clients(&weir, 3).await;
    for client in &mut all {
        let request = Request::get("/").with("X-API-Key", "k3y-0f-s0me0ne");
        client.send(request.bytes()).await;
    }
    weir.has_waiting(2).await;
    let pause = "/api/limits/main/buckets/k3y-0f-s0me0ne/pause";
    let paused = weir.api("POST", pause).await;
    assert_eq!(paused.status, 200);
    let bucket = weir.api("GET", "/api/limits/main/buckets").await;
    assert_eq!(bucket.json()["buckets"][0]["waiting"], json!(2));
    assert_eq!(bucket.json()["buckets"][0]["key"], Value::Null);
    assert_eq!(bucket.json()["buckets"][0]["paused"], json!(true));
    for said in [bucket.text(), paused.text(), weir.page("/").await.text()] {
        assert!(!said.contains("k3y-0f"), "{said}");
    }
    let log = weir.log().join("\n");
    assert!(log.contains("paused") && !log.contains("k3y-0f"), "{log}");
}

#[tokio::test]
async fn who_is_purged_hears_why_and_leaves_no_trace() {
    let backend = Backend::start();
    let (weir, mut all) = crowded(&[("ann", 2), ("bob", 2)], &backend).await;
    let purged = weir
        .api("DELETE", "/api/limits/main/buckets/ann:main/line")
        .await;
    assert_eq!(purged.json()["purged"], json!(2), "{}", purged.text());
    weir.has_waiting(2).await;
    let purged = weir.api("DELETE", "/api/limits/main/line").await;
    assert_eq!(purged.json()["purged"], json!(2));
    weir.has_waiting(0).await;
    let mut told = Vec::new();
    for client in &mut all {
        told.push(client.response().await);
    }
    let sent_away: Vec<_> = told.iter().filter(|one| one.status == 503).collect();
    assert_eq!(sent_away.len(), 4);
    for response in sent_away {
        assert!(response.text().contains("purged"), "{}", response.text());
        assert!(response.retry_after().is_some());
    }
    let refused = "weir_refused_total{limit=\"main\",reason=\"purged\"}";
    weir.shows(refused, 4.0).await;
    let log = weir.log().join("\n");
    assert!(
        log.contains("line purged") && log.contains("127.0.0.1"),
        "{log}"
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_a_problem() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(TWO_KEYS, &backend)).await;
    for (method, path, status) in [
        ("GET", "/api/limits/other", 404),
        ("GET", "/api/limits/other/buckets", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/limits/main/buckets?top=0", 400),
        ("GET", "/api/limits/main/buckets?top=x", 400),
        ("GET", "/api/limits/main/buckets?most=5", 400),
        ("GET", "/api/limits/main/buckets/%ff", 400),
        ("POST", "/api/limits/main/pause?for=1", 400),
        ("POST", "/api/limits/main/pause?for=0s", 400),
        ("POST", "/api/limits/main/pause?for=31d", 400),
        ("POST", "/api/limits/main/pause?fro=1m", 400),
        ("POST", "/api/limits/main/resume?for=1m", 400),
        ("GET", "/api/limits/main/pause", 405),
        ("DELETE", "/api/limits/main", 405),
        ("PUT", "/api/reload", 405),
    ] {
        let answer = weir.api(method, path).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert_eq!(
            answer.problem_status(),
            u64::from(status),
            "{method} {path}"
        );
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{method} {path}");
    }
    let host = weir.admin().to_string();
    let body = Request::to(&host, "POST", "/api/limits/main/pause").with("Content-Length", "2");
    let answer = weir.admin_says(&body).await;
    assert_eq!((answer.status, answer.problem_status()), (415, 415));
}

#[tokio::test]
async fn the_description_names_every_route() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(TWO_KEYS, &backend)).await;
    let api = weir.api("GET", "/api/openapi.json").await.json();
    let paths = api["paths"].as_object().expect("paths");
    for (path, method) in [
        ("/api/status", "get"),
        ("/api/events", "get"),
        ("/api/limits", "get"),
        ("/api/limits/{limit}", "get"),
        ("/api/limits/{limit}/buckets", "get"),
        ("/api/limits/{limit}/buckets/{id}", "get"),
        ("/api/limits/{limit}/pause", "post"),
        ("/api/limits/{limit}/resume", "post"),
        ("/api/limits/{limit}/buckets/{id}/pause", "post"),
        ("/api/limits/{limit}/buckets/{id}/resume", "post"),
        ("/api/limits/{limit}/line", "delete"),
        ("/api/limits/{limit}/buckets/{id}/line", "delete"),
        ("/api/reload", "post"),
    ] {
        assert!(paths[path][method].is_object(), "{method} {path}");
    }
    assert_eq!(paths.len(), 13);
}

#[tokio::test]
async fn the_status_is_told_by_the_second() {
    let backend = Backend::start();
    let config = one_limit("rate = \"100r/s\"\nburst = 9", &backend);
    let weir = Weir::with("header_timeout = \"1s\"\nidle_timeout = \"1s\"", &config).await;
    let mut client = Client::connect(weir.admin()).await;
    let request = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send(request).await;
    let mut seen = String::new();
    until("four events", async || {
        seen.push_str(&String::from_utf8_lossy(&client.some().await));
        let events = seen.matches("data: {").count();
        (events >= 4).then_some(()).ok_or_else(|| seen.clone())
    })
    .await;
    assert!(seen.contains("text/event-stream"), "{seen}");
    assert!(seen.contains("\"limits\":[{\"name\":\"main\""), "{seen}");
    drop(client);
    tokio::time::sleep(ms(1)).await;
    let served = responses(clients_who_ask(&weir, 3).await).await;
    assert!(served.iter().all(|response| response.status == 200));
}

async fn clients_who_ask(weir: &Weir, count: usize) -> Vec<Client> {
    let mut all = clients(weir, count).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    all
}
