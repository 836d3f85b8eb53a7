//! Do others' requests go on while strangers hold on to what they can?

use std::cell::Cell;
use std::time::Instant;

use crate::harness::{
    Answer, Backend, Client, Request, Weir, clients, ms, route, together, upstream,
};

/// Strangers at once.
const MANY: usize = 200;

/// What each may cost while it lasts, in KiB.
const EACH: u64 = 48;

const TIMED_OUT: &str = "weir_connections_timed_out_total{listener=\"requests\"}";

/// Requests of someone else, again and again until `attack` is over: all are served
/// soon. The most memory that was in use meanwhile, beyond that before, in KiB.
async fn others_go_on(weir: &Weir, attack: impl Future<Output = ()>) -> u64 {
    let before = weir.memory();
    let mut most = before;
    let mut took = Vec::new();
    let is_over = Cell::new(false);
    let attack = async {
        attack.await;
        is_over.set(true);
    };
    let others = async {
        // An attack may be over before many have come.
        while !is_over.get() || took.len() < 5 {
            let begun = Instant::now();
            let response = weir.get("/other").await;
            took.push(begun.elapsed());
            assert_eq!(response.status, 200);
            most = most.max(weir.memory());
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::join!(attack, others);
    took.sort();
    let at = |part: usize| {
        took.get(took.len() * part / 100)
            .copied()
            .unwrap_or_default()
    };
    let (median, slow) = (at(50), at(95));
    // The tests beside this one take their share of the machine.
    assert!(
        median < ms(1_000) && slow < ms(8_000),
        "others took {median:?}, some {slow:?}"
    );
    most - before
}

#[tokio::test]
async fn heads_that_drip_stop_nobody() {
    let backend = Backend::start();
    let server = "header_timeout = \"700ms\"";
    let weir = Weir::with(server, &route("", &backend)).await;
    let strangers = clients(&weir, MANY).await;
    let grown = others_go_on(&weir, async {
        let dripping = strangers.into_iter().map(|mut stranger| async move {
            stranger.send("GET / HTTP/1.1\r\nHost: a\r\n").await;
            for line in 0.. {
                let line = format!("X-{line}: y\r\n");
                let is_cut = stranger.try_send(line).await.is_err();
                if is_cut || !stranger.is_silent_for(ms(50)).await {
                    break;
                }
            }
            stranger.rest().await;
        });
        together(dripping).await;
    })
    .await;
    weir.shows(TIMED_OUT, 200.0).await;
    let other = backend.targets().iter().all(|target| target == "/other");
    assert!(other && grown < EACH * 200, "{grown} KiB more than before");
}

#[tokio::test]
async fn bodies_that_stand_still_keep_no_permit() {
    let backend = Backend::start();
    let config = upstream("max_in_flight = 20", "", &backend);
    let weir = Weir::with("body_timeout = \"100ms\"", &config).await;
    let strangers = clients(&weir, 100).await;
    let grown = others_go_on(&weir, async {
        // One after the other, so that the attack goes on while others come.
        let stalled = (0..).zip(strangers).map(|(turn, mut stranger)| async move {
            tokio::time::sleep(ms(10 * turn)).await;
            stranger
                .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
                .await;
            assert_eq!(stranger.response().await.status, 408);
            stranger.rest().await;
        });
        together(stalled).await;
    })
    .await;
    let left = "weir_requests_total{route=\"main\",outcome=\"left\"}";
    weir.shows(left, 100.0).await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    assert!(grown < EACH * 100, "{grown} KiB more than before");
}

#[tokio::test]
async fn readers_that_stop_keep_no_permit() {
    let large = "x".repeat(8 << 20);
    let backend = Backend::answering(move |seen| match seen.target() {
        "/other" => Answer::ok(),
        _ => Answer::with("200 OK", &[], &large),
    });
    let config = upstream("max_in_flight = 20", "", &backend);
    let weir = Weir::with("write_timeout = \"100ms\"", &config).await;
    let strangers = clients(&weir, 60).await;
    let grown = others_go_on(&weir, async {
        let mut all: Vec<Client> = Vec::new();
        for mut stranger in strangers {
            stranger.narrow();
            stranger.send(Request::get("/large").bytes()).await;
            all.push(stranger);
        }
        // They are all cut, though none of them closes or reads.
        weir.shows(TIMED_OUT, 60.0).await;
    })
    .await;
    weir.shows("weir_in_flight{upstream=\"main\"}", 0.0).await;
    // Buffers of both sockets' worth, not whole answers.
    assert!(grown < 512 * 60, "{grown} KiB more than before");
}
