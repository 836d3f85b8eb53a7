//! What does an upstream by HTTP/2 get, and what do clients get of it?

use crate::harness::{
    Answer, Authority, Backend, Http2Backend, Play, Request, Weir, clients, ms, responses,
    server_tls, together, until, upstream,
};

const H2: &str = "protocol = \"h2\"";

/// Requests that go out at once.
async fn ask(weir: &Weir, count: usize) -> Vec<crate::harness::Client> {
    let mut all = clients(weir, count).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    all
}

#[tokio::test]
async fn a_request_is_mapped_to_http_2() {
    for (host, authority) in [("upstream", ""), ("client", "weir.test")] {
        let backend = Http2Backend::start();
        let keys = format!("{H2}\nhost = \"{host}\"");
        let weir = Weir::start(&backend.route(&keys, "")).await;
        let request = Request::post("/a%2Fb/{}'?q=%41&x", "a body")
            .with("Connection", "keep-alive, X-Private, HTTP2-Settings")
            .with("X-Private", "1")
            .with("HTTP2-Settings", "AAMAAABkAAQAAP__")
            .with("Upgrade", "h2c")
            .with("Keep-Alive", "timeout=5")
            .with("TE", "trailers")
            .with("Cookie", "a=1; b=2")
            .with("X-Kept", "one")
            .with("X-Kept", "two");
        let response = weir.client().await.ask(&request).await;
        assert_eq!((response.status, response.text()), (200, "ok"));
        assert_eq!(response.header("via"), Some("2.0 weir"));
        let asked = backend.only();
        let own = backend.address().to_string();
        let authority = if authority.is_empty() {
            &own
        } else {
            authority
        };
        assert_eq!(asked.method, "POST");
        assert_eq!(
            asked.uri.to_string(),
            format!("http://{authority}/a%2Fb/{{}}'?q=%41&x")
        );
        assert_eq!(asked.body, b"a body");
        for name in [
            "host",
            "connection",
            "keep-alive",
            "upgrade",
            "x-private",
            "transfer-encoding",
            "http2-settings",
        ] {
            assert_eq!(asked.headers.get(name), None, "{name}");
        }
        for (name, value) in [
            ("te", "trailers"),
            ("cookie", "a=1; b=2"),
            ("via", "1.1 weir"),
            ("x-forwarded-host", "weir.test"),
            ("content-length", "6"),
        ] {
            assert_eq!(asked.headers[name], value);
        }
        let kept: Vec<_> = asked.headers.get_all("x-kept").iter().collect();
        assert_eq!(kept, ["one", "two"]);
    }
}

#[tokio::test]
async fn bodies_and_trailers_pass_both_ways() {
    let backend = Http2Backend::answering(|asked| match asked.uri.path() {
        "/trailers" => vec![
            Play::Read,
            Play::Hint(103),
            Play::Head(200, vec![("trailer", "x-sum".into())]),
            Play::Say("ab".into()),
            Play::Say("cde".into()),
            Play::Trailers(vec![("x-sum", "5".into())]),
        ],
        "/big" => vec![
            Play::Head(200, vec![]),
            Play::Echo,
            Play::End(String::new()),
        ],
        "/204" => vec![Play::HeadOnly(204, vec![("x-a", "b".into())])],
        "/304" => vec![Play::HeadOnly(304, vec![("etag", "\"x\"".into())])],
        "/head" => vec![Play::HeadOnly(200, vec![("content-length", "4321".into())])],
        "/empty" => vec![Play::HeadOnly(200, vec![])],
        _ => Play::ok(),
    });
    let weir = Weir::start(&backend.route(&format!("{H2}\nmax_in_flight = 1"), "")).await;
    let mut client = weir.client().await;
    for _ in 0..2 {
        client
            .send(
                "POST /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: X-Check\r\n\
                 Transfer-Encoding: chunked\r\n\r\n\
                 3\r\nabc\r\n1\r\nd\r\n0\r\nX-Check: 4\r\n\r\n",
            )
            .await;
        let response = client.response().await;
        assert_eq!((response.text(), response.chunked), ("abcde", true));
        assert_eq!(response.trailers.len(), 1, "{:?}", response.trailers);
        let asked = backend.asked().pop().expect("a request");
        assert!(asked.whole);
        assert_eq!(asked.body, b"abcd");
        assert_eq!(asked.trailers["x-check"], "4");
        assert_eq!(asked.headers.get("content-length"), None);
        let big = vec![b'x'; 3 << 20];
        let response = client.ask(&Request::post("/big", big.clone())).await;
        assert!(response.status == 200 && response.body == big);
        let head = client.head("/head").await;
        assert_eq!(head.header("content-length"), Some("4321"));
        let none = client.get("/204").await;
        assert_eq!((none.status, none.header("x-a")), (204, Some("b")));
        let same = client.get("/304").await;
        assert_eq!((same.status, same.header("etag")), (304, Some("\"x\"")));
        let empty = client.get("/empty").await;
        assert_eq!((empty.status, empty.body.len()), (200, 0));
        assert_eq!(client.ask(&Request::post("/", "")).await.status, 200);
        assert!(backend.asked().pop().expect("a request").whole);
    }
    assert_eq!(backend.accepted(), 1);
}

#[tokio::test]
async fn requests_share_one_connection() {
    let backend = Http2Backend::answering(|_| Play::held());
    let weir = Weir::with("threads = 1", &backend.route(H2, "")).await;
    let all = ask(&weir, 60).await;
    backend.has_seen(60).await;
    backend.let_go(60);
    for response in responses(all).await {
        assert_eq!(response.status, 200);
    }
    assert_eq!((backend.accepted(), backend.most()), (1, 60));
}

#[tokio::test]
async fn a_further_connection_opens_when_the_streams_of_one_are_used_up() {
    let backend = Http2Backend::taking(10, |_| Play::held());
    let weir = Weir::with("threads = 1", &backend.route(H2, "")).await;
    let all = ask(&weir, 25).await;
    backend.has_seen(25).await;
    assert_eq!(backend.accepted(), 3);
    let on = |number| {
        let asked = backend.asked();
        asked.iter().filter(|it| it.connection == number).count()
    };
    assert_eq!((on(0), on(1), on(2)), (10, 10, 5));
    backend.let_go(25);
    for response in responses(all).await {
        assert_eq!(response.status, 200);
    }
    // The oldest is filled again before any other is used.
    let all = ask(&weir, 5).await;
    backend.has_seen(30).await;
    backend.let_go(5);
    responses(all).await;
    assert_eq!((on(0), backend.accepted()), (15, 3));
}

#[tokio::test]
async fn a_client_that_leaves_resets_its_stream_and_no_other() {
    let backend = Http2Backend::answering(|_| Play::held());
    let keys = format!("{H2}\nmax_in_flight = 4");
    let weir = Weir::with("threads = 1", &backend.route(&keys, "")).await;
    for round in 1..=20 {
        let mut all = ask(&weir, 4).await;
        backend.has_seen(round * 4).await;
        let staying = all.pop().expect("a client");
        all.into_iter().for_each(crate::harness::Client::reset);
        backend.has_under_way(1).await;
        weir.shows("weir_in_flight{upstream=\"main\"}", 1.0).await;
        backend.let_go(1);
        assert_eq!(responses(vec![staying]).await[0].status, 200);
        backend.has_under_way(0).await;
    }
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    assert_eq!(backend.accepted(), 1);
    let reset = backend.asked();
    let reset = reset.iter().filter(|asked| asked.reset.is_some()).count();
    assert_eq!(reset, 60);
}

#[tokio::test]
async fn a_slow_reader_does_not_hold_up_the_others() {
    let backend = Http2Backend::answering(|asked| match asked.uri.path() {
        "/big" => vec![Play::Head(200, vec![]), Play::End("x".repeat(16 << 20))],
        _ => Play::ok(),
    });
    let weir = Weir::with("threads = 1", &backend.route(H2, "")).await;
    let mut lazy = clients(&weir, 30).await;
    for client in &mut lazy {
        client.narrow();
        client.send(Request::get("/big").bytes()).await;
    }
    backend.has_seen(30).await;
    let mut client = weir.client().await;
    for _ in 0..20 {
        assert_eq!(client.get("/small").await.status, 200);
    }
    assert_eq!(backend.accepted(), 1);
    assert!(weir.memory() < 100 << 10, "{} KiB", weir.memory());
    drop(lazy);
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn an_answer_flows_before_the_request_is_whole() {
    let backend = Http2Backend::answering(|_| {
        vec![Play::Head(200, vec![]), Play::Echo, Play::End("end".into())]
    });
    let weir = Weir::start(&backend.route(H2, "")).await;
    let mut client = weir.client().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let mut heard = String::new();
    for word in ["one", "two", "six"] {
        client.send(format!("3\r\n{word}\r\n")).await;
        while !heard.contains(word) {
            heard.push_str(&String::from_utf8_lossy(&client.some().await));
        }
    }
    assert!(!heard.contains("end"));
    client.send("0\r\n\r\n").await;
    while !heard.contains("end") {
        heard.push_str(&String::from_utf8_lossy(&client.some().await));
    }
}

#[tokio::test]
async fn two_that_talk_may_each_be_silent_for_as_long_as_the_other_is_not() {
    let backend = Http2Backend::answering(|asked| {
        let mut plays = vec![Play::Head(200, vec![])];
        if asked.uri.path() == "/listens" {
            plays.extend([Play::Read, Play::End("heard".into())]);
        } else {
            let talk = [Play::Wait(ms(100)), Play::Say("x".into())];
            plays.extend(std::iter::repeat_n(talk, 9).flatten());
            plays.push(Play::End("said".into()));
        }
        plays
    });
    let config = backend.route(&format!("{H2}\ntimeout = \"400ms\""), "");
    let weir = Weir::with("body_timeout = \"400ms\"", &config).await;
    let begin = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
    };
    let mut talks = weir.client().await;
    let mut listens = weir.client().await;
    talks.send(begin("/listens")).await;
    listens.send(begin("/talks")).await;
    for _ in 0..9 {
        tokio::time::sleep(ms(100)).await;
        talks.send("1\r\nx\r\n").await;
    }
    talks.send("0\r\n\r\n").await;
    listens.send("0\r\n\r\n").await;
    assert!(talks.response().await.text().contains("heard"));
    assert!(listens.response().await.text().contains("said"));
}

#[tokio::test]
async fn requests_wait_in_line_as_ever() {
    let backend = Http2Backend::start();
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"20r/s\"\nburst = 9\n";
    let config = backend.route(H2, "limits = [\"main\"]");
    let weir = Weir::start(&format!("{limit}{config}")).await;
    let begun = std::time::Instant::now();
    let all = ask(&weir, 10).await;
    for response in responses(all).await {
        assert_eq!(response.status, 200);
    }
    assert!(begun.elapsed() >= ms(440));
    weir.has_waiting(0).await;
    assert!(backend.accepted() <= 2, "one for each thread");
}

#[tokio::test]
async fn over_tls_both_sides_choose_the_protocol() {
    let root = Authority::new();
    let own = root.vouch_for("127.0.0.1");
    let alpn = |names: &[&[u8]]| {
        let mut tls = server_tls(&own, None);
        tls.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
        tls
    };
    let cases: [(&str, &[&[u8]], u16, &str); 6] = [
        ("auto", &[b"h2", b"http/1.1"], 200, "h2"),
        ("auto", &[b"http/1.1"], 200, "http1"),
        ("auto", &[], 200, "http1"),
        ("http1", &[b"h2", b"http/1.1"], 200, "http1"),
        ("h2", &[b"h2"], 200, "h2"),
        ("h2", &[], 502, "http1"),
    ];
    for (protocol, names, status, spoken) in cases {
        let keys = format!("ca = \"ca.pem\"\nprotocol = \"{protocol}\"");
        let files = [("ca.pem", root.pem.as_str())];
        let request = Request::post("/x", "body");
        if spoken == "h2" {
            let backend = Http2Backend::over_tls(alpn(names), |_| Play::held());
            let config = backend.route(&keys, "");
            let weir = Weir::beside(&files, "threads = 1", &config).await;
            let all = ask(&weir, 20).await;
            backend.has_seen(20).await;
            backend.let_go(20);
            for response in responses(all).await {
                assert_eq!(response.status, status, "{protocol} {names:?}");
            }
            assert_eq!(backend.accepted(), 1, "{protocol}: none too many");
            assert_eq!(backend.asked()[0].uri.scheme_str(), Some("https"));
        } else {
            let backend = Backend::over_tls(alpn(names), |_| Answer::ok());
            let weir = Weir::beside(&files, "", &upstream(&keys, "", &backend)).await;
            let response = weir.client().await.ask(&request).await;
            assert_eq!(response.status, status, "{protocol} {names:?}");
            if status == 502 {
                let problem = response.json();
                assert_eq!(problem["upstream_may_have_seen"], false);
                let detail = problem["detail"].as_str().expect("a detail");
                assert!(detail.contains("HTTP/2"), "{detail}");
                assert_eq!(backend.seen().len(), 0);
            }
        }
    }
}

#[tokio::test]
async fn a_health_probe_speaks_what_its_upstream_speaks() {
    let backend = Http2Backend::start();
    let keys = format!("{H2}\nhealth = \"/up\"\nhealth_interval = \"100ms\"");
    let weir = Weir::start(&backend.route(&keys, "")).await;
    backend.has_seen(3).await;
    weir.shows("weir_upstream_up{upstream=\"main\"}", 1.0).await;
    assert_eq!(backend.asked()[0].uri.path(), "/up");
}

#[tokio::test]
async fn a_server_of_http_1_gets_no_request() {
    // An HTTP/1.1 server reads the preface as a request, and says so.
    let cases = [
        Answer::raw("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").close(),
        Answer::nothing().close(),
        Answer::never(),
    ];
    let cases = cases.map(|answer| async move {
        let what = format!("{answer:?}");
        let backend = Backend::answering(move |_| answer.clone());
        let keys = format!("{H2}\nconnect_timeout = \"300ms\"");
        let weir = Weir::start(&upstream(&keys, "", &backend)).await;
        let response = weir
            .client()
            .await
            .ask(&Request::post("/pay", "body"))
            .await;
        assert!(matches!(response.status, 502 | 504), "{what}");
        assert_eq!(response.json()["upstream_may_have_seen"], false, "{what}");
        until("only the preface came", async || {
            let targets = backend.targets();
            (targets == ["*"])
                .then_some(())
                .ok_or(format!("{targets:?}"))
        })
        .await;
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    });
    together(cases).await;
}
