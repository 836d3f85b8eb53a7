//! Who may see keys and change something on the admin listener?

use crate::harness::{Backend, Request, Weir, one_limit};

const LIMIT: &str = "rate = \"1000r/s\"\nburst = 9";
const PAUSE: &str = "/api/limits/main/pause";
const KEYS: &str = "/api/limits/main/buckets";

async fn status(weir: &Weir, host: &str, method: &str, path: &str, fields: &[(&str, &str)]) -> u16 {
    let request = Request::to(host, method, path);
    let request = fields
        .iter()
        .fold(request, |request, (name, value)| request.with(name, value));
    let answer = weir.admin_says(&request).await;
    if answer.status >= 400 {
        assert_eq!(answer.problem_status(), u64::from(answer.status));
    }
    answer.status
}

#[tokio::test]
async fn without_a_token_no_page_elsewhere_changes_anything() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit(LIMIT, &backend)).await;
    let own = weir.admin().to_string();
    let port = weir.admin().port();
    for (host, fields, expected) in [
        (&*own, &[][..], 200),
        (&format!("localhost:{port}"), &[], 200),
        ("weir.example", &[], 421),
        ("weir", &[], 421),
        (&own, &[("Origin", "http://evil.example")], 403),
        (&own, &[("Origin", "null")], 403),
        (&own, &[("Origin", &*format!("http://{own}"))], 200),
        (&own, &[("Sec-Fetch-Site", "cross-site")], 403),
    ] {
        let told = status(&weir, host, "POST", PAUSE, fields).await;
        assert_eq!(told, expected, "{host} {fields:?}");
    }
    assert_eq!(status(&weir, &own, "GET", KEYS, &[]).await, 200);
    assert_eq!(status(&weir, "weir", "GET", KEYS, &[]).await, 421);
    assert_eq!(status(&weir, "weir", "GET", "/api/limits", &[]).await, 200);
}

#[tokio::test]
async fn with_a_token_changes_and_keys_need_it() {
    let backend = Backend::start();
    let weir = Weir::with("admin_token = \"t0ken\"", &one_limit(LIMIT, &backend)).await;
    let own = weir.admin().to_string();
    let with = |token| [("Authorization", token)];
    for (method, path) in [("POST", PAUSE), ("GET", KEYS), ("POST", "/api/reload")] {
        assert_eq!(status(&weir, &own, method, path, &[]).await, 401, "{path}");
        let wrong = status(&weir, &own, method, path, &with("Bearer t0kem")).await;
        assert_eq!(wrong, 401, "{path}");
        let right = status(&weir, &own, method, path, &with("Bearer t0ken")).await;
        assert_eq!(right, 200, "{path}");
        let named = status(&weir, "weir:9180", method, path, &with("Bearer t0ken")).await;
        assert_eq!(named, 200, "{path} by another name of its own");
    }
    assert_eq!(status(&weir, &own, "GET", "/api/status", &[]).await, 200);
    let log = weir.log().join("\n");
    assert!(log.contains("token from 127.0.0.1"), "{log}");
    assert!(!log.contains("t0ken"), "{log}");
}

#[tokio::test]
async fn a_listener_that_takes_no_changes_refuses_them() {
    let backend = Backend::start();
    let weir = Weir::with("admin_read_only = true", &one_limit(LIMIT, &backend)).await;
    let own = weir.admin().to_string();
    for (method, path, expected) in [
        ("POST", PAUSE, 403),
        ("POST", "/api/reload", 403),
        ("DELETE", "/api/limits/main/line", 403),
        ("GET", KEYS, 200),
    ] {
        assert_eq!(
            status(&weir, &own, method, path, &[]).await,
            expected,
            "{path}"
        );
    }
    weir.rewrite("admin_read_only = true", "admin_token = \"new\"");
    weir.signal(rustix::process::Signal::HUP);
    weir.reaches("weir_config_reloads_total{result=\"success\"}", 1.0)
        .await;
    let new = [("Authorization", "Bearer new")];
    assert_eq!(status(&weir, &own, "POST", PAUSE, &new).await, 200);
}
