//! Do clients reach weir over TLS, and does it show them the right certificate?

use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::{
    Authority, Backend, Certificate, Multiplexed, Weir, agreed, get, ms, one_limit, over_tls,
    route, run,
};

const SERVER: &str =
    "tls = { cert = \"weir.pem\", key = \"weir.key\" }\nheader_timeout = \"300ms\"";
const FAILED: &str = "weir_connections_failed_total{listener=\"requests\",kind=\"tls\"}";

async fn weir(own: &Certificate, config: &str) -> Weir {
    let files = [("weir.pem", own.chain.as_str()), ("weir.key", &own.key)];
    Weir::beside(&files, SERVER, config).await
}

#[tokio::test]
async fn both_versions_of_http_are_agreed_on() {
    let root = Authority::new();
    let backend = Backend::start();
    let weir = weir(&root.vouch_for("127.0.0.1"), &route("", &backend)).await;
    for (offered, protocol) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let mut stream = over_tls(&root, weir.listen(), offered).await.expect("TLS");
        assert_eq!(agreed(&stream), protocol);
        if protocol == Some("h2") {
            let client = Multiplexed::over(stream, &h2::client::Builder::new()).await;
            let reply = client.begin(get("/two"), false).await.reply().await;
            assert_eq!((reply.status, reply.text()), (200, "ok"));
        } else {
            let request = b"GET /one HTTP/1.1\r\nHost: weir.test\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await.expect("room");
            let mut text = String::new();
            stream
                .read_to_string(&mut text)
                .await
                .expect("an answer, and its end");
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        }
    }
    for seen in backend.seen() {
        assert_eq!(seen.header("x-forwarded-proto"), Some("https"));
    }
    // A protocol that weir doesn't speak is no reason to speak another.
    let other = over_tls(&root, weir.listen(), &["spdy/3"]).await;
    assert!(other.is_err());
    weir.shows(FAILED, 1.0).await;
}

#[tokio::test]
async fn a_reload_shows_the_new_certificate_and_keeps_open_connections() {
    let (old, new) = (Authority::new(), Authority::new());
    let backend = Backend::start();
    let weir = weir(&old.vouch_for("127.0.0.1"), &route("", &backend)).await;
    let stream = over_tls(&old, weir.listen(), &["h2"]).await.expect("TLS");
    let client = Multiplexed::over(stream, &h2::client::Builder::new()).await;
    assert_eq!(client.get("/").await.status, 200);

    let next = new.vouch_for("127.0.0.1");
    // Half of it is a fault: the old one stays.
    weir.write("weir.pem", &next.chain);
    weir.signal(Signal::HUP);
    weir.reaches("weir_config_reloads_total{result=\"failure\"}", 1.0)
        .await;
    over_tls(&old, weir.listen(), &[])
        .await
        .expect("the old certificate");

    weir.write("weir.key", &next.key);
    weir.signal(Signal::HUP);
    weir.reaches("weir_config_reloads_total{result=\"success\"}", 1.0)
        .await;
    over_tls(&new, weir.listen(), &[])
        .await
        .expect("the new certificate");
    assert!(over_tls(&old, weir.listen(), &[]).await.is_err());
    assert_eq!(client.get("/").await.status, 200, "it stays open");
}

#[tokio::test]
async fn whoever_does_not_speak_tls_is_not_served_nor_kept() {
    let root = Authority::new();
    let backend = Backend::start();
    let weir = weir(&root.vouch_for("127.0.0.1"), &route("", &backend)).await;
    let mut plain = weir.client().await;
    plain
        .send("GET / HTTP/1.1\r\nHost: weir.test\r\n\r\n")
        .await;
    let answer = plain.rest().await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let mut slow = weir.client().await;
    slow.send(b"\x16\x03\x01").await;
    let mut silent = weir.client().await;
    slow.rest().await;
    silent.rest().await;
    weir.has_connections(0).await;
    weir.shows(
        "weir_connections_timed_out_total{listener=\"requests\"}",
        2.0,
    )
    .await;
    assert!(weir.metric(FAILED).await >= 1.0);
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn whoever_leaves_over_tls_frees_its_place() {
    let root = Authority::new();
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/h\"\nburst = 9", &backend);
    let weir = weir(&root.vouch_for("127.0.0.1"), &config).await;
    for body in ["", "Content-Length: 100000\r\n"] {
        let mut streams = Vec::new();
        for _ in 0..9 {
            let mut stream = over_tls(&root, weir.listen(), &[]).await.expect("TLS");
            let head = format!("POST / HTTP/1.1\r\nHost: weir.test\r\n{body}\r\n");
            stream.write_all(head.as_bytes()).await.expect("room");
            if !body.is_empty() {
                stream.write_all(&vec![b'x'; 40_000]).await.expect("room");
            }
            streams.push(stream);
        }
        weir.shows(
            "weir_waiting{limit=\"main\"}",
            if body.is_empty() { 8.0 } else { 9.0 },
        )
        .await;
        drop(streams);
        weir.has_waiting(0).await;
    }
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_end() {
    let root = Authority::new();
    let backend = Backend::start();
    let mut weir = weir(&root.vouch_for("127.0.0.1"), &route("", &backend)).await;
    let _silent = over_tls(&root, weir.listen(), &["http/1.1"])
        .await
        .expect("TLS");
    let stream = over_tls(&root, weir.listen(), &["h2"]).await.expect("TLS");
    let _idle = Multiplexed::over(stream, &h2::client::Builder::new()).await;
    weir.has_connections(2).await;
    let begun = std::time::Instant::now();
    weir.signal(Signal::TERM);
    assert_eq!(weir.ended().await, Some(0));
    assert!(begun.elapsed() < ms(5_000), "{:?}", begun.elapsed());
}

#[test]
fn a_certificate_that_does_not_fit_its_key_is_a_fault() {
    let text = |cert: &str, key: &str| {
        format!(
            "[server]\ntls = {{ cert = \"{cert}\", key = \"{key}\" }}\n\
             [upstreams.a]\nrespond = {{}}\n[[routes]]\npath = \"/\"\nupstream = \"a\"\n"
        )
    };
    let dir = tempfile::TempDir::new().expect("a directory");
    let (one, other) = (Authority::new(), Authority::new());
    let (one, other) = (one.vouch_for("a"), other.vouch_for("a"));
    let path = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (cert, key) = (path("one.pem", &one.chain), path("one.key", &one.key));
    let wrong = path("other.key", &other.key);
    assert_eq!(run(&["check"], Some(&text(&cert, &key))).code, Some(0));
    for (cert, key, fault) in [
        (
            &cert,
            &wrong,
            "server.tls: the certificate and its key can't be used",
        ),
        (&key, &key, "server.tls.cert: "),
        (&cert, &cert, "server.tls.key: "),
        (&"nowhere".to_owned(), &key, "cannot be read"),
    ] {
        let ran = run(&["check"], Some(&text(cert, key)));
        assert_ne!(ran.code, Some(0), "{fault}");
        assert!(
            format!("{}{}", ran.out, ran.err).contains(fault),
            "{fault}: {}{}",
            ran.out,
            ran.err
        );
    }
}
