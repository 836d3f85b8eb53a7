//! How much does weir take on?

use std::time::Instant;

use crate::harness::{
    Backend, Client, Request, Weir, clients, ms, one_limit, route, until, upstream,
};

const RESPOND: &str = "[upstreams.main]\nrespond = { body = \"ok\" }\n\
    [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\nlimits = [\"main\"]\n";

fn keyed(limit: &str) -> String {
    format!("[limits.main]\nkey = \"{{header.x-key}}\"\n{limit}\n{RESPOND}")
}

fn with_key(key: u32) -> Request {
    Request::get("/").with("X-Key", &key.to_string())
}

#[tokio::test]
async fn one_connection_too_many_hears_503_and_makes_no_way_for_others() {
    let backend = Backend::start();
    let weir = Weir::with("max_connections = 3", &route("", &backend)).await;
    let mut all = clients(&weir, 3).await;
    for client in &mut all {
        assert_eq!(client.get("/").await.status, 200);
    }
    for refused in 1..=3 {
        let mut client = weir.client().await;
        let response = client.response().await;
        assert_eq!(response.status, 503);
        assert_eq!(response.json()["status"], 503);
        assert!(response.retry_after().is_some_and(|seconds| seconds > 0));
        assert_eq!(client.rest().await, b"", "the connection is closed");
        let counted = "weir_connections_refused_total{listener=\"requests\"}";
        weir.shows(counted, f64::from(refused)).await;
    }
    for client in &mut all {
        assert_eq!(client.get("/").await.status, 200);
    }
    all.pop().expect("a client").reset();
    weir.has_connections(2).await;
    assert_eq!(weir.get("/").await.status, 200);
}

#[tokio::test]
async fn more_than_max_waiting_wait_nowhere() {
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/h\"\nburst = 50", &backend);
    let weir = Weir::with("max_waiting = 3", &config).await;
    assert_eq!(weir.get("/").await.status, 200);
    let mut all = clients(&weir, 3).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
    }
    weir.has_waiting(3).await;
    let refused = weir.get("/").await;
    assert_eq!(refused.status, 503);
    assert!(refused.retry_after().is_some_and(|seconds| seconds > 0));
    weir.shows("weir_requests_total{route=\"main\",outcome=\"shed\"}", 1.0)
        .await;
    all.pop().expect("a client").reset();
    weir.has_waiting(2).await;
    let mut next = weir.client().await;
    next.send(Request::get("/").bytes()).await;
    weir.has_waiting(3).await;
}

#[tokio::test]
async fn a_full_table_forgets_nobody_who_still_owes() {
    let weir = Weir::with("max_keys = 10", &keyed("rate = \"1r/h\"")).await;
    let mut client = weir.client().await;
    for key in 0..10 {
        assert_eq!(client.ask(&with_key(key)).await.status, 200, "{key}");
    }
    for key in 10..200 {
        let response = client.ask(&with_key(key)).await;
        assert_eq!(response.status, 503, "{key}");
        assert!(response.retry_after().is_some_and(|seconds| seconds > 0));
    }
    for key in 0..10 {
        assert_eq!(client.ask(&with_key(key)).await.status, 429, "{key}");
    }
    let metrics = weir.metrics().await;
    let refused = metrics.value("weir_refused_total{limit=\"main\",reason=\"keys\"}");
    assert!((refused - 190.0).abs() < 1e-9, "{refused}");
    let buckets = metrics.value("weir_buckets{limit=\"main\"}");
    assert!((buckets - 10.0).abs() < 1e-9, "{buckets}");
}

#[tokio::test]
async fn idle_keys_make_room_for_new_ones() {
    let weir = Weir::with("max_keys = 10", &keyed("rate = \"20r/s\"")).await;
    let mut client = weir.client().await;
    for key in 0..10 {
        assert_eq!(client.ask(&with_key(key)).await.status, 200, "{key}");
    }
    tokio::time::sleep(ms(120)).await;
    let begun = Instant::now();
    until("room for a new key", async || {
        let status = client.ask(&with_key(99)).await.status;
        (status == 200).then_some(()).ok_or(status.to_string())
    })
    .await;
    assert!(begun.elapsed() < ms(3_000), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_hundred_thousand_keys_add_no_series_and_their_memory_comes_back() {
    const KEYS: u32 = 100_000;
    let weir = Weir::start(&keyed("rate = \"20r/s\"\nburst = 1")).await;
    let before = (weir.metrics().await.names().len(), weir.memory());
    let crowd = (0..8_u32).map(|part| {
        let address = weir.listen();
        async move {
            let mut client = Client::connect(address).await;
            for key in (0..KEYS / 8).map(|key| key * 8 + part) {
                assert_eq!(client.ask(&with_key(key)).await.status, 200);
            }
        }
    });
    crate::harness::together(crowd).await;
    assert_eq!(weir.metrics().await.names().len(), before.0);
    // Idle keys are looked for in a sixteenth of the table each second.
    let begun = Instant::now();
    let buckets = || weir.metric("weir_buckets{limit=\"main\"}");
    while buckets().await > 0.0 {
        assert!(begun.elapsed() < ms(40_000), "{} are left", buckets().await);
        tokio::time::sleep(ms(200)).await;
    }
    let grown = weir.memory().saturating_sub(before.1);
    assert!(grown < 8 << 10, "{grown} KiB more than before");
}

#[tokio::test]
async fn a_head_may_have_so_many_bytes_and_no_more() {
    let backend = Backend::start();
    let server = "max_header_bytes = \"8 KiB\"";
    let weir = Weir::with(server, &route("", &backend)).await;
    let sized = |bytes: usize| {
        let bare = Request::get("/").with("X-Large", "").bytes().len();
        Request::get("/").with("X-Large", &"x".repeat(bytes - bare))
    };
    let fits = sized(8 << 10);
    assert_eq!(fits.bytes().len(), 8_192);
    assert_eq!(weir.client().await.ask(&fits).await.status, 200);
    for bytes in [8_193, 8_200, 20_000, 200_000] {
        let mut client = weir.client().await;
        // The end may find nobody who still reads.
        let _refused = client.try_send(sized(bytes).bytes()).await;
        let response = client.response().await;
        assert_eq!(response.status, 431, "{bytes}");
        assert_eq!(response.json()["status"], 431, "never an empty reply");
    }
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn a_head_may_have_a_hundred_lines_and_no_more() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    let lines = |count: usize| {
        let request = Request::get("/");
        // `Host` is the first.
        (1..count).fold(request, |it, index| it.with(&format!("X-{index}"), "v"))
    };
    assert_eq!(weir.client().await.ask(&lines(100)).await.status, 200);
    for count in [101, 400] {
        let mut client = weir.client().await;
        let response = client.ask(&lines(count)).await;
        assert_eq!(response.status, 431, "{count}");
        assert_eq!(response.json()["status"], 431, "{count}");
        assert_eq!(client.rest().await, b"");
    }
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn a_target_that_is_too_long_gets_414() {
    let backend = Backend::start();
    let server = "max_header_bytes = \"128 KiB\"";
    let weir = Weir::with(server, &route("", &backend)).await;
    for (length, status) in [(65_534, 200), (65_535, 414), (100_000, 414)] {
        let target = format!("/{}", "x".repeat(length - 1));
        let response = weir.get(&target).await;
        assert_eq!(response.status, status, "{length}");
    }
    assert_eq!(backend.seen().len(), 1);
}

const SIZED: &str = "weir_bodies_refused_total{route=\"main\"}";

#[tokio::test]
async fn a_body_that_says_it_is_too_large_takes_no_place_and_goes_nowhere() {
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/h\"\nburst = 1", &backend);
    let weir = Weir::with("max_body_bytes = 10", &config).await;
    for length in ["11", "99999999999", "18446744073709551612"] {
        for expect in ["", "Expect: 100-continue\r\n"] {
            let mut client = weir.client().await;
            let head =
                format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{expect}\r\n");
            client.send(head).await;
            let response = client.response().await;
            assert_eq!((response.status, response.interim.len()), (413, 0));
            assert_eq!(response.problem_status(), 413);
            assert_eq!(client.rest().await, b"", "the connection is closed");
        }
    }
    weir.shows(SIZED, 6.0).await;
    weir.shows(
        "weir_requests_total{route=\"main\",outcome=\"refused\"}",
        6.0,
    )
    .await;
    // Its slot is still there.
    let fits = Request::post("/", "0123456789");
    assert_eq!(weir.client().await.ask(&fits).await.status, 200);
    assert_eq!(backend.only().body, b"0123456789");
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_broken_off() {
    let backend = Backend::start();
    let config = upstream("max_in_flight = 1", "", &backend);
    let weir = Weir::with("max_body_bytes = 10", &config).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (body, status, seen) in [
        ("5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", 200, true),
        ("a\r\n0123456789\r\n1\r\n!\r\n0\r\n\r\n", 413, true),
        // It is too large before anything of it goes out.
        ("b\r\n0123456789!\r\n0\r\n\r\n", 413, false),
    ] {
        let mut client = weir.client().await;
        client.send(format!("{head}{body}")).await;
        let response = client.response().await;
        assert_eq!(response.status, status, "{body:?}");
        if status == 413 {
            assert_eq!(response.problem_status(), 413);
            assert_eq!(response.json()["upstream_may_have_seen"], seen);
            assert_eq!(client.rest().await, b"");
        }
    }
    weir.shows(SIZED, 2.0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    let whole = backend.seen().iter().filter(|seen| seen.whole).count();
    assert_eq!(whole, 1);
}

#[tokio::test]
async fn a_route_says_how_large_its_bodies_may_be() {
    let backend = Backend::start();
    let other = "[[routes]]\npath = \"/large\"\nupstream = \"main\"\nmax_body_bytes = \"1 MiB\"\n\
        [[routes]]\npath = \"/none\"\nupstream = \"main\"\nmax_body_bytes = 0\n";
    let config = format!("{}{other}", route("", &backend));
    let weir = Weir::with("max_body_bytes = 10", &config).await;
    for (target, length, status) in [
        ("/", 10, 200),
        ("/", 11, 413),
        ("/large", 1 << 20, 200),
        ("/large", (1 << 20) + 1, 413),
        ("/none", 0, 200),
        ("/none", 1, 413),
    ] {
        let mut client = weir.client().await;
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        client.send(head).await;
        if status == 200 {
            client.send(vec![b'x'; length]).await;
        }
        assert_eq!(client.response().await.status, status, "{target} {length}");
    }
}
