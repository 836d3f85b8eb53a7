//! Does weir reach an upstream behind TLS, and only the right one?

use crate::harness::structured::proxy_error;
use crate::harness::{
    Answer, Authority, Backend, Certificate, Request, Weir, server_tls, upstream,
};

const CA: &str = "ca = \"ca.pem\"";
const CLIENT: &str = "ca = \"ca.pem\"\nclient_cert = \"client.pem\"\nclient_key = \"client.key\"";

async fn weir(backend: &Backend, keys: &str, ca: &Authority, client: &Certificate) -> Weir {
    let files = [
        ("ca.pem", ca.pem.as_str()),
        ("client.pem", &client.chain),
        ("client.key", &client.key),
    ];
    Weir::beside(&files, "", &upstream(keys, "", backend)).await
}

#[tokio::test]
async fn a_private_root_is_trusted_where_it_is_named() {
    let root = Authority::new();
    let tls = server_tls(&root.vouch_for("127.0.0.1"), None);
    let backend = Backend::over_tls(tls, |_| Answer::ok());
    let client = root.vouch_for("weir");
    let weir = weir(&backend, CA, &root, &client).await;
    let mut all = weir.client().await;
    for _ in 0..3 {
        let response = all.ask(&Request::post("/a%2Fb?c", "body")).await;
        assert_eq!((response.status, response.text()), (200, "ok"));
    }
    assert_eq!(backend.targets(), ["/a%2Fb?c"; 3]);
    assert_eq!(backend.accepted(), 1, "the connection is used again");
    assert_eq!(backend.seen()[0].body, b"body");
}

#[tokio::test]
async fn an_upstream_that_nobody_vouches_for_gets_no_request() {
    let root = Authority::new();
    let client = root.vouch_for("weir");
    for (name, ca) in [
        ("127.0.0.1", &Authority::new()),
        ("localhost", &root),
        ("127.0.0.2", &root),
    ] {
        let tls = server_tls(&root.vouch_for(name), None);
        let backend = Backend::over_tls(tls, |_| Answer::ok());
        let weir = weir(&backend, CA, ca, &client).await;
        let response = weir.get("/").await;
        assert_eq!(response.status, 502, "{name}");
        assert_eq!(response.json()["upstream_may_have_seen"], false, "{name}");
        let error = proxy_error(&response);
        assert!(
            error.starts_with("tls_") || error == "destination_unavailable",
            "{error}"
        );
        weir.shows(
            "weir_upstream_errors_total{upstream=\"main\",kind=\"connect\"}",
            1.0,
        )
        .await;
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
        assert_eq!(backend.seen().len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_named() {
    let root = Authority::new();
    let clients = Authority::new();
    let client = clients.vouch_for("weir");
    for (keys, status) in [(CLIENT, 200), (CA, 502)] {
        let tls = server_tls(&root.vouch_for("127.0.0.1"), Some(&clients));
        let backend = Backend::over_tls(tls, |_| Answer::ok());
        let weir = weir(&backend, keys, &root, &client).await;
        assert_eq!(weir.get("/").await.status, status, "{keys}");
        assert_eq!(backend.seen().len(), usize::from(status == 200));
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    }
}

#[tokio::test]
async fn an_upstream_that_speaks_no_tls_gets_no_request() {
    let root = Authority::new();
    let silent = Backend::start();
    let keys = format!("{CA}\nconnect_timeout = \"300ms\"");
    let config = upstream(&keys, "", &silent).replace("http://", "https://");
    let files = [("ca.pem", root.pem.as_str())];
    let weir = Weir::beside(&files, "", &config).await;
    let response = weir.get("/").await;
    assert_eq!(
        response.status, 504,
        "it waits for a line, as weir for an answer"
    );
    assert_eq!(response.json()["upstream_may_have_seen"], false);
    assert_eq!(silent.seen().len(), 0);
}

#[tokio::test]
async fn a_health_probe_goes_over_tls_as_well() {
    let root = Authority::new();
    let clients = Authority::new();
    let client = clients.vouch_for("weir");
    let tls = server_tls(&root.vouch_for("127.0.0.1"), Some(&clients));
    let backend = Backend::over_tls(tls, |_| Answer::ok());
    let keys = format!("{CLIENT}\nhealth = \"/health\"\nhealth_interval = \"100ms\"");
    let weir = weir(&backend, &keys, &root, &client).await;
    backend.has_seen(3).await;
    assert_eq!(backend.targets()[..3], ["/health"; 3]);
    weir.shows("weir_upstream_up{upstream=\"main\"}", 1.0).await;
    assert_eq!(weir.get("/").await.status, 200);
}
