//! What does a client hear when it isn't the limits that stop its request?

use crate::harness::structured::proxy_error;
use crate::harness::{
    Answer, Backend, Request, Response, Weir, black_hole, clients, free_port, ms, responses, route,
    together, upstream,
};

/// A problem of weir's own, and nothing of an upstream's.
fn assert_is_a_problem(response: &Response, status: u16, error: &str) {
    assert_eq!(response.status, status);
    let type_ = response.header("content-type");
    assert_eq!(type_, Some("application/problem+json"), "{error}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.problem_status(), u64::from(status));
    assert_eq!(proxy_error(response), error);
}

fn to(url: &str, keys: &str) -> String {
    format!(
        "[upstreams.main]\nurl = \"{url}\"\n{keys}\n\
         [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n"
    )
}

async fn failed(weir: &Weir, kind: &str) -> f64 {
    let series = format!("weir_upstream_errors_total{{upstream=\"main\",kind=\"{kind}\"}}");
    weir.metric(&series).await
}

#[tokio::test]
async fn a_request_without_a_route_gets_404() {
    let backend = Backend::start();
    let config = route("methods = [\"GET\"]", &backend).replace("\"/\"", "\"/v1\"");
    let weir = Weir::start(&config).await;
    let mut client = weir.client().await;
    for target in ["/", "/v10", "/v", "/v1"] {
        let response = client.ask(&Request::post(target, "x")).await;
        assert_is_a_problem(&response, 404, "destination_not_found");
    }
    assert_eq!(client.get("/v1/x").await.status, 200);
    let none = "weir_requests_total{route=\"none\",outcome=\"refused\"}";
    weir.shows(none, 4.0).await;
    assert_eq!(backend.targets(), ["/v1/x"]);
}

#[tokio::test]
async fn an_upstream_that_refuses_connections_has_not_seen_the_request() {
    let (_kept, address) = free_port();
    let weir = Weir::start(&to(&format!("http://{address}"), "")).await;
    let mut client = weir.client().await;
    for request in [Request::get("/"), Request::post("/", "body")] {
        let response = client.ask(&request).await;
        assert_is_a_problem(&response, 502, "destination_unavailable");
        assert_eq!(response.json()["upstream_may_have_seen"], false);
    }
    assert!((failed(&weir, "connect").await - 2.0).abs() < 1e-9);
    let outcome = "weir_requests_total{route=\"main\",outcome=\"failed\"}";
    weir.shows(outcome, 2.0).await;
}

#[tokio::test]
async fn an_upstream_that_takes_no_connection_in_time_has_not_seen_the_request() {
    let (_socket, _queue, address) = black_hole();
    let keys = "connect_timeout = \"300ms\"";
    let weir = Weir::start(&to(&format!("http://{address}"), keys)).await;
    let response = weir.get("/").await;
    assert_is_a_problem(&response, 504, "connection_timeout");
    assert_eq!(response.json()["upstream_may_have_seen"], false);
    assert!((failed(&weir, "timeout").await - 1.0).abs() < 1e-9);
}

#[tokio::test]
async fn an_upstream_that_breaks_may_have_seen_the_request() {
    let answers: [(&str, Answer); 8] = [
        ("reset", Answer::nothing().read().reset()),
        ("closed", Answer::nothing().read().close()),
        (
            "not HTTP",
            Answer::raw("SSH-2.0-OpenSSH_9.2\r\n\r\n").close(),
        ),
        ("half a head", Answer::raw("HTTP/1.1 200 OK\r\nX: ").close()),
        (
            "half and reset",
            Answer::raw("HTTP/1.1 200 OK\r\nX: ").reset(),
        ),
        (
            "odd length",
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        ),
        (
            "two lengths",
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
        ),
        (
            "an upgrade unasked for",
            Answer::raw(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            ),
        ),
    ];
    let cases = answers.map(|(what, answer)| async move {
        let backend = Backend::answering(move |_| answer.clone());
        let weir = Weir::start(&route("", &backend)).await;
        let mut client = weir.client().await;
        for request in [Request::get("/"), Request::post("/", "body")] {
            let response = client.ask(&request).await;
            assert_eq!(response.status, 502, "{what}");
            assert_is_a_problem(&response, 502, "connection_terminated");
            assert_eq!(response.json()["upstream_may_have_seen"], true, "{what}");
        }
        assert_eq!(backend.seen().len(), 2, "{what}: each was sent once");
        assert!((failed(&weir, "broken").await - 2.0).abs() < 1e-9, "{what}");
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    });
    together(cases).await;
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_in_time_may_have_seen_the_request() {
    let backend = Backend::answering(|_| Answer::never());
    let weir = Weir::start(&upstream("timeout = \"300ms\"", "", &backend)).await;
    let mut client = weir.client().await;
    for request in [Request::get("/"), Request::post("/", "body")] {
        let response = client.ask(&request).await;
        assert_is_a_problem(&response, 504, "http_response_timeout");
        assert_eq!(response.json()["upstream_may_have_seen"], true);
        let seen = backend.seen();
        let took = response.at - seen.last().expect("a request").at;
        assert!(took >= ms(250), "{took:?}");
    }
    assert!((failed(&weir, "timeout").await - 2.0).abs() < 1e-9);
    backend.has_open(0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_does_not_look_whole() {
    let chunked = || Answer::chunked("").chunk("half");
    let counted = || Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    let answers = [
        chunked().reset(),
        chunked().close(),
        chunked().send("zz\r\nnonsense"),
        counted().reset(),
        counted().close(),
    ];
    let cases = answers.map(|answer| async move {
        let what = format!("{answer:?}");
        let backend = Backend::answering(move |_| answer.clone());
        let weir = Weir::start(&route("", &backend)).await;
        for _ in 0..10 {
            let whole = weir.client().await;
            let mut client = whole;
            client.send(Request::get("/").bytes()).await;
            let response = client.try_response().await;
            assert!(
                response.is_err() || response.is_ok_and(|it| it.status == 502),
                "{what}"
            );
        }
        assert_eq!(backend.seen().len(), 10, "{what}");
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    });
    together(cases).await;
}

#[tokio::test]
async fn every_request_has_one_outcome_and_leaves_nothing_behind() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/reset" => Answer::nothing().read().reset(),
        "/nonsense" => Answer::raw("nonsense\r\n\r\n").close(),
        "/half" => Answer::chunked("").chunk("half").close(),
        "/late" => Answer::never(),
        _ => Answer::ok(),
    });
    let limit = "[limits.main]\nkey = \"{header.x-key}\"\nrate = \"100r/s\"\nburst = 30\n";
    let keys = "timeout = \"200ms\"\nmax_in_flight = 20";
    let config = upstream(keys, "limits = [\"main\"]", &backend);
    let weir = Weir::start(&format!("{limit}{config}")).await;
    let targets = [
        "/reset",
        "/nonsense",
        "/half",
        "/late",
        "/ok",
        "/a/../b",
        "/ok",
    ];
    let mut all = clients(&weir, 210).await;
    for (index, client) in all.iter_mut().enumerate() {
        let request = Request::post(targets[index % targets.len()], "body");
        let key = (index % 4).to_string();
        let request = if index % 4 == 3 {
            request
        } else {
            request.with("X-Key", &key)
        };
        client.send(request.bytes()).await;
    }
    let gone = all.split_off(200);
    gone.into_iter().for_each(crate::harness::Client::reset);
    let mut answered = 0;
    for mut client in all {
        answered += usize::from(client.try_response().await.is_ok());
    }
    assert!(answered > 100, "{answered}");
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    weir.has_waiting(0).await;
    weir.has_connections(0).await;
    let sum = weir.metrics().await.sum("weir_requests_total");
    // Of those who were reset some never became a request.
    assert!((200.0..=210.0).contains(&sum), "{sum}");
}

#[tokio::test]
async fn a_refusal_of_any_kind_leaves_the_connection_usable() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/broken" => Answer::nothing().read().close(),
        "/late" => Answer::never(),
        _ => Answer::ok(),
    });
    let config = format!(
        "[limits.main]\nkey = \"{{header.x-key}}\"\nrate = \"1r/h\"\n{}\
         [[routes]]\nname = \"free\"\npath = \"/free\"\nupstream = \"main\"\n",
        upstream("timeout = \"200ms\"", "limits = [\"main\"]", &backend)
    );
    let weir = Weir::start(&config).await;
    let mut client = weir.client().await;
    let keyed = |target: &str, key: &str| Request::post(target, "a body").with("X-Key", key);
    for (request, status) in [
        (keyed("/", "a"), 200),
        (keyed("/", "a"), 429),
        (Request::post("/", "a body"), 400),
        (keyed("/broken", "b"), 502),
        (keyed("/late", "c"), 504),
        (keyed("/free", "a"), 200),
    ] {
        assert_eq!(client.ask(&request).await.status, status);
    }
}

#[tokio::test]
async fn an_id_is_made_or_kept_and_goes_both_ways() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    let kept = Request::get("/").with("X-Request-Id", "their-1.2:3/4+5=6");
    let mut ids = Vec::new();
    for request in [kept.clone(), Request::get("/"), Request::get("/")] {
        let response = client.ask(&request).await;
        let seen = backend.seen().pop().expect("a request");
        let id = response.header("x-request-id").expect("an id").to_owned();
        assert_eq!(seen.header("x-request-id"), Some(id.as_str()));
        ids.push(id);
    }
    assert_eq!(ids[0], "their-1.2:3/4+5=6");
    assert!(ids[1] != ids[2] && ids[1].len() == 32, "{ids:?}");
    let odd = Request::get("/missing/../x").with("X-Request-Id", "a b");
    let refused = client.ask(&odd).await;
    assert_eq!(refused.header("x-request-id").map(str::len), Some(32));
}

#[tokio::test]
async fn the_wait_is_told_to_those_who_waited_alone() {
    let backend = Backend::start();
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"10r/s\"\nburst = 3\n";
    let config = format!("{limit}{}", route("limits = [\"main\"]", &backend));
    let weir = Weir::start(&config).await;
    let mut all = clients(&weir, 3).await;
    for client in &mut all {
        client.send(Request::get("/").bytes()).await;
        tokio::time::sleep(ms(10)).await;
    }
    let responses = responses(all).await;
    assert_eq!(responses[0].header("server-timing"), None);
    for (slot, response) in (1..).zip(&responses[1..]) {
        let timing = response.header("server-timing").expect("a wait");
        let waited = timing.strip_prefix("queue;dur=").expect("queue's time");
        let waited: f64 = waited.parse().expect("milliseconds");
        let least = f64::from(slot) * 90.0 - 20.0;
        assert!(waited > least && waited < least + 120.0, "{timing}");
    }
}
