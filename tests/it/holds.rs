//! Who waits for the upstream, and how long?

use std::time::{Duration, Instant};

use crate::harness::{
    Answer, Backend, Client, Request, Weir, clients, ms, one_limit, responses, upstream,
};

/// How late a slot may be used and still count as on time: the next one then
/// comes so much less than an interval later.
const TOLERANCE: Duration = ms(3);

/// A route on which weir itself answers: on one thread its answer shows that what
/// was sent before has been read.
const PROBE: &str = "[upstreams.weir]\nrespond = { body = \"\" }\n\
    [[routes]]\npath = \"/probe\"\nupstream = \"weir\"\n";

async fn send_in_turn(weir: &Weir, clients: &mut [Client]) {
    let mut probe = weir.client().await;
    for (index, client) in clients.iter_mut().enumerate() {
        let request = Request::get(&format!("/{index}"));
        client.send(request.bytes()).await;
        assert_eq!(probe.get("/probe").await.status, 200);
    }
}

fn order(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("/{index}")).collect()
}

const WITHOUT_LIMIT: (&str, &str) = ("", "");
const BEHIND_A_LINE: (&str, &str) = (
    "[limits.main]\nkey = \"all\"\nrate = \"1000r/s\"\nburst = 99\n",
    "limits = [\"main\"]",
);
const BEHIND_TOKENS: (&str, &str) = (
    "[limits.main]\nkey = \"all\"\nrate = \"1000r/s\"\nburst = 99\nnodelay = true\n",
    "limits = [\"main\"]",
);

#[tokio::test]
async fn at_most_max_in_flight_are_under_way_first_come_first_served() {
    for (limit, keys) in [WITHOUT_LIMIT, BEHIND_A_LINE, BEHIND_TOKENS] {
        let backend = Backend::answering(|_| Answer::held());
        let config = upstream("max_in_flight = 2", keys, &backend);
        let weir = Weir::with("threads = 1", &format!("{limit}{config}{PROBE}")).await;
        let mut all = clients(&weir, 6).await;
        send_in_turn(&weir, &mut all).await;
        for seen in 2..=6 {
            backend.has_seen(seen).await;
            weir.shows("weir_in_flight{upstream=\"main\"}", 2.0).await;
            let mut targets = backend.targets();
            // The first two go at once, each over a connection of its own.
            targets[..2].sort();
            assert_eq!(targets, order(seen), "{limit}{keys}");
            backend.let_go(1);
        }
        backend.let_go(1);
        let responses = responses(all).await;
        assert!(responses.iter().all(|response| response.status == 200));
        weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    }
}

#[tokio::test]
async fn a_request_is_under_way_until_its_answer_has_ended() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/0" => Answer::chunked("").chunk("half").hold().chunk(""),
        _ => Answer::ok(),
    });
    let config = upstream("max_in_flight = 1", "", &backend);
    let weir = Weir::with("threads = 1", &format!("{config}{PROBE}")).await;
    let mut all = clients(&weir, 2).await;
    send_in_turn(&weir, &mut all).await;
    let mut second = all.pop().expect("a client");
    let mut first = all.pop().expect("a client");
    let head = first.some().await;
    assert!(head.starts_with(b"HTTP/1.1 200"), "the answer has begun");
    assert!(second.is_silent_for(ms(50)).await);
    assert_eq!(backend.targets(), ["/0"]);
    backend.let_go(1);
    assert_eq!(second.response().await.status, 200);
    assert_eq!(backend.targets(), ["/0", "/1"]);
}

#[tokio::test]
async fn a_slot_that_a_full_upstream_could_not_take_makes_no_burst() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/0" => Answer::held(),
        _ => Answer::ok(),
    });
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"20r/s\"\nburst = 9\n";
    let config = upstream("max_in_flight = 1", "limits = [\"main\"]", &backend);
    let weir = Weir::with("threads = 1", &format!("{limit}{config}{PROBE}")).await;
    let mut all = clients(&weir, 6).await;
    send_in_turn(&weir, &mut all).await;
    // Several slots go by while the first is under way.
    tokio::time::sleep(ms(200)).await;
    assert_eq!(backend.targets(), ["/0"]);
    let begun = Instant::now();
    backend.let_go(1);
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert_eq!(backend.targets(), order(6));
    let arrivals = backend.arrivals(begun);
    for (slot, at) in (0_u32..).zip(arrivals.iter().skip(1)) {
        assert!(*at + TOLERANCE >= ms(50) * slot, "{arrivals:?}");
    }
}

#[tokio::test]
async fn whoever_finds_the_upstream_full_keeps_its_place() {
    let backend = Backend::answering(|_| Answer::ok().after(ms(70)));
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"40r/s\"\nburst = 20\n";
    let config = upstream("max_in_flight = 1", "limits = [\"main\"]", &backend);
    let weir = Weir::start(&format!("{limit}{config}")).await;
    let mut all = clients(&weir, 10).await;
    for (index, client) in all.iter_mut().enumerate() {
        client
            .send(Request::get(&format!("/{index}")).bytes())
            .await;
        weir.has_admitted(&backend, index + 1).await;
    }
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert_eq!(backend.targets(), order(10));
}

#[tokio::test]
async fn an_upstream_that_says_when_to_come_back_is_left_alone_until_then() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let backend = Backend::answering(move |seen| match seen.target() {
            "/0" => Answer::with(status, &[("Retry-After", "1")], "later"),
            _ => Answer::ok(),
        });
        let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 9", &backend)).await;
        let mut all = clients(&weir, 4).await;
        for (index, client) in all.iter_mut().enumerate() {
            let request = Request::get(&format!("/{index}"));
            client.send(request.bytes()).await;
            if index == 0 {
                backend.has_seen(1).await;
            }
        }
        let responses = responses(all).await;
        let statuses: Vec<_> = responses.iter().map(|it| it.status.to_string()).collect();
        assert!(status.starts_with(&statuses[0]), "it is passed on");
        assert_eq!(responses[0].text(), "later");
        assert_eq!(statuses[1..], ["200", "200", "200"]);
        let seen = backend.seen();
        for (slot, later) in (0_u32..).zip(&seen[1..]) {
            let gap = later.at - seen[0].at;
            assert!(gap >= ms(1_000), "{status}: {gap:?}");
            let gaps: Vec<_> = seen.iter().map(|later| later.at - seen[0].at).collect();
            assert!(
                gap + TOLERANCE >= ms(1_000) + ms(50) * slot,
                "{status}: {gaps:?}"
            );
        }
    }
}

#[tokio::test]
async fn other_answers_hold_nobody_back() {
    let backend = Backend::answering(|_| Answer::with("200 OK", &[("Retry-After", "60")], "ok"));
    let weir = Weir::start(&one_limit("rate = \"50r/s\"\nburst = 9", &backend)).await;
    let mut client = weir.client().await;
    for _ in 0..3 {
        let response = client.get("/").await;
        assert_eq!((response.status, response.retry_after()), (200, Some(60)));
    }
}

#[tokio::test]
async fn nobody_waits_for_a_closed_upstream_who_would_give_up_before() {
    let closed = [("Retry-After", "60")];
    let backend = Backend::answering(move |seen| match seen.target() {
        "/closed" => Answer::with("503 Service Unavailable", &closed, ""),
        _ => Answer::ok(),
    });
    let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 100", &backend)).await;
    assert_eq!(weir.get("/closed").await.status, 503);
    let hasty = Request::get("/hasty").with("Prefer", "wait=2");
    let response = weir.client().await.ask(&hasty).await;
    assert_eq!(response.status, 429);
    let retry_after = response.retry_after().expect("seconds");
    assert!((50..=60).contains(&retry_after), "{retry_after}");
    let mut patient = weir.client().await;
    patient.send(Request::get("/patient").bytes()).await;
    weir.has_waiting(1).await;
    assert!(patient.is_silent_for(ms(50)).await);
    assert_eq!(backend.targets(), ["/closed"]);
}

#[tokio::test]
async fn a_wait_that_became_longer_than_max_wait_ends_with_503() {
    let closed = [("Retry-After", "60")];
    let backend = Backend::answering(move |_| {
        Answer::with("503 Service Unavailable", &closed, "").after(ms(100))
    });
    let limit = "rate = \"2r/s\"\nburst = 9\nmax_wait = \"1s\"";
    let config = format!("{}{PROBE}", one_limit(limit, &backend));
    let weir = Weir::with("threads = 1", &config).await;
    let mut all = clients(&weir, 2).await;
    let begun = Instant::now();
    send_in_turn(&weir, &mut all).await;
    let responses = responses(all).await;
    let ended = &responses[1];
    assert_eq!(ended.status, 503);
    assert!(ended.at >= begun + ms(1_000), "{:?}", ended.at - begun);
    assert!(ended.retry_after().is_some_and(|seconds| seconds > 0));
    assert_eq!(backend.targets(), ["/0"]);
    let refused = "weir_refused_total{limit=\"main\",reason=\"max_wait\"}";
    weir.shows(refused, 1.0).await;
    weir.has_waiting(0).await;
}
