//! What becomes of a request when an upstream by HTTP/2 fails?

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use h2::Reason;

use crate::harness::frames::{Frames, Place, Then, go_away, head, ok, reset, said};
use crate::harness::{
    Client, Http2Backend, Play, Request, Weir, black_hole, clients, free_port, ms, responses,
    together, until,
};

const IN_FLIGHT: &str = "weir_in_flight{upstream=\"main\"}";
const REFUSED: u32 = 7;
const CANCEL: u32 = 8;

fn send(bytes: Vec<u8>) -> Vec<Then> {
    vec![Then::Send(bytes)]
}

fn requests() -> [Request; 2] {
    [Request::get("/"), Request::post("/", "payment")]
}

#[tokio::test]
async fn what_was_refused_unseen_goes_on_another_connection_once() {
    let ways: [fn(Place) -> Vec<Then>; 3] = [
        |at| send(reset(at.stream, REFUSED)),
        |at| send(go_away(at.stream - 1, 0)),
        |at| vec![Then::Send(go_away(at.stream - 1, 0)), Then::Close],
    ];
    for (index, way) in ways.into_iter().enumerate() {
        for request in requests() {
            let backend = Frames::answering(move |at| match at.connection {
                0 => way(at),
                _ => send(ok(at.stream)),
            });
            let weir = Weir::with("threads = 1", &backend.route("", "")).await;
            let response = weir.client().await.ask(&request).await;
            assert_eq!(response.status, 200, "way {index}");
            assert_eq!((backend.requests(), backend.accepted()), (2, 2));
        }
    }
}

#[tokio::test]
async fn what_is_refused_twice_is_surely_unseen_and_not_sent_again() {
    for request in requests() {
        let backend = Frames::answering(|at| send(reset(at.stream, REFUSED)));
        let weir = Weir::with("threads = 1", &backend.route("", "")).await;
        let response = weir.client().await.ask(&request).await;
        assert_eq!(response.status, 502);
        assert_eq!(response.json()["upstream_may_have_seen"], false);
        assert_eq!((backend.requests(), backend.accepted()), (2, 2));
        weir.shows(IN_FLIGHT, 0.0).await;
    }
}

#[tokio::test]
async fn what_may_have_been_seen_is_not_sent_again() {
    let ways: [fn(Place) -> Vec<Then>; 6] = [
        |at| send(reset(at.stream, CANCEL)),
        |at| send(reset(at.stream, 0)),
        |at| vec![Then::Send(go_away(at.stream, 0)), Then::Close],
        |at| vec![Then::Send(go_away(at.stream, 2)), Then::Close],
        |_| vec![Then::Close],
        |_| vec![Then::Reset],
    ];
    for (index, way) in ways.into_iter().enumerate() {
        for request in requests() {
            let backend = Frames::answering(move |at| match at.number {
                0 => send(ok(at.stream)),
                _ => way(at),
            });
            let weir = Weir::with("threads = 1", &backend.route("", "")).await;
            let mut client = weir.client().await;
            assert_eq!(client.get("/warm").await.status, 200);
            let response = client.ask(&request).await;
            assert_eq!(response.status, 502, "way {index}");
            let problem = response.json();
            assert_eq!(problem["upstream_may_have_seen"], true, "way {index}");
            assert_eq!(backend.requests(), 2, "way {index}");
            weir.shows(IN_FLIGHT, 0.0).await;
        }
    }
}

#[tokio::test]
async fn what_is_under_way_outlives_a_go_away() {
    let backend = Http2Backend::answering(|asked| match asked.uri.path() {
        "/last" => {
            let mut plays = Play::held();
            plays.insert(0, Play::Shutdown);
            plays
        }
        _ => Play::ok(),
    });
    let config = backend.route("protocol = \"h2\"", "");
    let weir = Weir::with("threads = 1", &config).await;
    let mut last = weir.client().await;
    last.send(Request::post("/last", "body").bytes()).await;
    backend.has_seen(1).await;
    let mut client = weir.client().await;
    for _ in 0..5 {
        assert_eq!(client.ask(&Request::post("/", "body")).await.status, 200);
    }
    backend.let_go(1);
    assert_eq!(last.response().await.status, 200);
    assert!(backend.accepted() <= 2);
    let seen = backend.asked();
    assert_eq!(seen.len(), 6, "each was sent once");
    backend.has_open(1).await;
}

#[tokio::test]
async fn a_connection_that_went_stale_is_made_anew() {
    let backend = Frames::answering(|at| {
        let mut then = send(ok(at.stream));
        then.push(if at.connection % 2 == 0 {
            Then::Close
        } else {
            Then::Reset
        });
        then
    });
    let weir = Weir::with("threads = 1", &backend.route("", "")).await;
    let mut client = weir.client().await;
    let mut answered = 0;
    for number in 0..300 {
        let response = client.ask(&Request::post("/", "payment")).await;
        assert!(matches!(response.status, 200 | 502), "{number}");
        answered += usize::from(response.status == 200);
    }
    assert!(answered >= 150, "{answered}");
    assert_eq!(backend.requests(), backend.accepted(), "one on each");
    assert!((answered..=300).contains(&backend.requests()));
}

#[tokio::test]
async fn an_answer_that_breaks_off_does_not_look_whole() {
    let ways: [fn(Place) -> Vec<Then>; 5] = [
        |at| {
            send(
                [
                    head(at.stream, false),
                    said(at.stream, "half", false),
                    reset(at.stream, CANCEL),
                ]
                .concat(),
            )
        },
        |at| {
            send(
                [
                    head(at.stream, false),
                    said(at.stream, "half", false),
                    reset(at.stream, 0),
                ]
                .concat(),
            )
        },
        |at| {
            vec![
                Then::Send([head(at.stream, false), said(at.stream, "half", false)].concat()),
                Then::Close,
            ]
        },
        |at| {
            vec![
                Then::Send([head(at.stream, false), said(at.stream, "half", false)].concat()),
                Then::Reset,
            ]
        },
        |at| {
            vec![Then::Send(
                [
                    head(at.stream, false),
                    said(at.stream, "half", false),
                    b"nonsense that is no frame".to_vec(),
                ]
                .concat(),
            )]
        },
    ];
    for (index, way) in ways.into_iter().enumerate() {
        let backend = Frames::answering(way);
        let weir = Weir::start(&backend.route("", "")).await;
        for request in requests() {
            let mut client = weir.client().await;
            client.send(request.bytes()).await;
            let response = client.try_response().await;
            let odd = response.as_ref().is_ok_and(|it| it.status != 502);
            assert!(!odd, "way {index}: {response:?}");
        }
        assert_eq!(backend.requests(), 2, "way {index}");
        weir.shows(IN_FLIGHT, 0.0).await;
    }
}

#[tokio::test]
async fn an_upstream_out_of_reach_has_not_seen_the_request() {
    let (_kept, refuses) = free_port();
    let (_socket, _queue, hole) = black_hole();
    for (address, status) in [(refuses, 502), (hole, 504)] {
        let weir = Weir::start(&format!(
            "[upstreams.main]\nurl = \"http://{address}\"\nprotocol = \"h2\"\n\
             connect_timeout = \"300ms\"\n\
             [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n"
        ))
        .await;
        let begun = Instant::now();
        let mut all = clients(&weir, 20).await;
        for client in &mut all {
            client.send(Request::post("/", "body").bytes()).await;
        }
        for response in responses(all).await {
            assert_eq!(response.status, status);
            assert_eq!(response.json()["upstream_may_have_seen"], false);
        }
        // Those that wait for another's connection do so no longer than for their own.
        assert!(begun.elapsed() < ms(2_000), "{:?}", begun.elapsed());
        weir.shows(IN_FLIGHT, 0.0).await;
    }
}

#[tokio::test]
async fn a_silent_upstream_gets_no_further_requests_on_that_connection() {
    let backend = Frames::answering(|at| match at.connection {
        0 => vec![Then::Stall],
        _ => send(ok(at.stream)),
    });
    let config = backend.route("timeout = \"400ms\"", "");
    let weir = Weir::with("threads = 1", &config).await;
    let mut client = weir.client().await;
    let late = client.ask(&Request::post("/", "body")).await;
    assert_eq!(late.status, 504);
    assert_eq!(late.json()["upstream_may_have_seen"], true);
    assert_eq!(client.ask(&Request::post("/", "body")).await.status, 200);
    assert_eq!(backend.accepted(), 2);
    weir.shows(IN_FLIGHT, 0.0).await;
}

#[tokio::test]
async fn who_answers_no_ping_is_given_up_long_before_the_timeout() {
    let is_stalled = Arc::new(AtomicBool::new(true));
    let stalled = Arc::clone(&is_stalled);
    let backend = Frames::answering(move |at| {
        if at.connection == 0 && stalled.load(Ordering::SeqCst) {
            vec![Then::Stall]
        } else {
            send(ok(at.stream))
        }
    });
    let weir = Weir::with("threads = 1", &backend.route("timeout = \"1h\"", "")).await;
    let mut lost = weir.client().await;
    lost.send(Request::get("/").bytes()).await;
    backend.has_seen(1).await;
    let begun = Instant::now();
    let mut answered = false;
    let mut swallowed = Vec::new();
    while !answered && begun.elapsed() < ms(18_000) {
        let mut client = weir.client().await;
        client.send(Request::get("/").bytes()).await;
        answered = !client.is_silent_for(ms(500)).await;
        swallowed.push(client);
    }
    assert!(answered, "after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= ms(9_000), "a pause is forgiven");
    assert_eq!(backend.accepted(), 2);
}

#[tokio::test]
async fn a_slow_upstream_that_answers_pings_keeps_its_connection() {
    let backend = Http2Backend::answering(|_| Play::held());
    let config = backend.route("protocol = \"h2\"", "");
    let weir = Weir::with("threads = 1", &config).await;
    let mut client = weir.client().await;
    client.send(Request::get("/").bytes()).await;
    backend.has_seen(1).await;
    tokio::time::sleep(ms(13_000)).await;
    let mut other = weir.client().await;
    other.send(Request::get("/").bytes()).await;
    backend.has_seen(2).await;
    backend.let_go(2);
    assert_eq!(client.response().await.status, 200);
    assert_eq!(other.response().await.status, 200);
    assert_eq!(backend.accepted(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_or_stalls_resets_its_stream() {
    let backend = Http2Backend::start();
    let keys = "protocol = \"h2\"\nmax_in_flight = 1";
    let config = backend.route(keys, "");
    let weir = Weir::with("body_timeout = \"300ms\"\nthreads = 1", &config).await;
    let half = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf";
    let mut stalls = weir.client().await;
    stalls.send(half).await;
    assert_eq!(stalls.response().await.status, 408);
    let mut leaves = weir.client().await;
    leaves.send(half).await;
    backend.has_seen(2).await;
    leaves.reset();
    assert_eq!(weir.get("/next").await.status, 200);
    weir.shows(IN_FLIGHT, 0.0).await;
    let asked = backend.asked();
    for asked in &asked[..2] {
        assert!(!asked.whole);
        assert_eq!(asked.reset, Some(Reason::CANCEL));
    }
    assert_eq!(backend.accepted(), 1);
}

#[tokio::test]
async fn a_thousand_of_each_early_end_leave_nothing_behind() {
    let backend = Frames::answering(|at| match at.number % 10 {
        0 => send(reset(at.stream, CANCEL)),
        1 => send(reset(at.stream, REFUSED)),
        2 => send(go_away(at.stream - 1, 0)),
        3 => vec![Then::Send(go_away(at.stream, 0)), Then::Close],
        4 => vec![Then::Close],
        5 => vec![Then::Reset],
        6 => send(
            [
                head(at.stream, false),
                said(at.stream, "half", false),
                reset(at.stream, CANCEL),
            ]
            .concat(),
        ),
        7 => send(b"nonsense that is no frame at all".to_vec()),
        8 => Vec::new(),
        _ => send(ok(at.stream)),
    });
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"20000r/s\"\nburst = 1000\n";
    let keys = "timeout = \"100ms\"\nmax_in_flight = 50";
    let config = backend.route(keys, "limits = [\"main\"]");
    let weir = Weir::start(&format!("{limit}{config}")).await;
    let to = weir.listen();
    let backend = Rc::new(backend);
    let visitors = (0..60_u64).map(|visitor| (visitor, Rc::clone(&backend)));
    let visitors = visitors.map(|(visitor, backend)| async move {
        let mut client = Client::connect(to).await;
        let mut number = 0;
        while backend.requests() < 10_000 {
            number += 1;
            let request = &requests()[usize::from(number % 2 == 0)];
            client.send(request.bytes()).await;
            // Some leave before, in and after their turn; an answer that breaks off
            // ends its connection.
            let leaves = (visitor + number) % 5 == 0;
            let stays = if leaves {
                tokio::time::sleep(ms(number % 3)).await;
                false
            } else {
                client.try_response().await.is_ok()
            };
            if !stays {
                client.reset();
                client = Client::connect(to).await;
            }
        }
    });
    together(visitors).await;
    // Whoever leaves an upstream that keeps silent takes its stream back.
    until("a stream is reset", async || {
        let mut client = Client::connect(to).await;
        client.send(Request::get("/").bytes()).await;
        tokio::time::sleep(ms(20)).await;
        client.reset();
        let is_reset = !backend.resets().is_empty();
        is_reset.then_some(()).ok_or_else(|| "none".to_owned())
    })
    .await;
    weir.has_connections(0).await;
    weir.shows(IN_FLIGHT, 0.0).await;
    weir.has_waiting(0).await;
}
