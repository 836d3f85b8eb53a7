//! Is a request sent once, over a connection that works?

use std::collections::BTreeMap;

use crate::harness::{Answer, Backend, Request, Weir, ms, route, until};

#[tokio::test]
async fn a_connection_to_the_upstream_is_used_again() {
    let backend = Backend::start();
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    for _ in 0..5 {
        assert_eq!(client.ask(&Request::post("/", "body")).await.status, 200);
    }
    assert_eq!((backend.seen().len(), backend.accepted()), (5, 1));
}

#[tokio::test]
async fn a_connection_that_the_upstream_closed_is_made_anew() {
    let backend = Backend::answering(|_| Answer::ok().close());
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    for count in 1..=5 {
        assert_eq!(client.ask(&Request::post("/", "body")).await.status, 200);
        backend.has_open(0).await;
        // weir hears of the end a moment after the backend has closed.
        tokio::time::sleep(ms(20)).await;
        assert_eq!((backend.seen().len(), backend.accepted()), (count, count));
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_seen_is_never_sent_again() {
    let backend = Backend::answering(|seen| match seen.target() {
        "/broken" => Answer::nothing().read().reset(),
        "/closed" => Answer::nothing().read().close(),
        "/unread" => Answer::nothing().reset(),
        _ => Answer::ok(),
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    for target in ["/broken", "/closed", "/unread"] {
        for request in [Request::get(target), Request::post(target, "body")] {
            assert_eq!(client.get("/warm").await.status, 200);
            let before = backend.seen().len();
            let response = client.ask(&request).await;
            assert_eq!(response.status, 502, "{target}");
            assert_eq!(response.json()["upstream_may_have_seen"], true);
            assert_eq!(backend.seen().len(), before + 1, "{target}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_ends_as_it_is_used_makes_no_second_request() {
    // The end crosses the next request on its way, now and then.
    let backend = Backend::answering(|seen| {
        if seen.connection % 2 == 0 {
            Answer::ok().close()
        } else {
            Answer::ok().reset()
        }
    });
    let weir = Weir::start(&route("", &backend)).await;
    let mut client = weir.client().await;
    let mut answered = 0;
    for number in 0..300 {
        let request = Request::post(&format!("/{number}"), "body");
        let response = client.ask(&request).await;
        assert!(matches!(response.status, 200 | 502), "{}", response.status);
        answered += usize::from(response.status == 200);
    }
    let mut times = BTreeMap::new();
    for target in backend.targets() {
        *times.entry(target).or_insert(0) += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "sent twice: {twice:?}");
    assert!(answered >= 150 && times.len() >= answered, "{answered}");
}

#[tokio::test]
async fn a_request_whose_connection_never_came_up_is_safe_to_send_again() {
    let backend = Backend::start();
    let url = backend.url();
    let config = route("", &backend);
    let weir = Weir::start(&config).await;
    let mut client = weir.client().await;
    assert_eq!(client.get("/").await.status, 200);
    drop(backend);
    until("weir hears that its upstream is gone", async || {
        let response = client.ask(&Request::post("/", "body")).await;
        let safe = response.status == 502 && response.json()["upstream_may_have_seen"] == false;
        safe.then_some(())
            .ok_or_else(|| format!("{url}: {}", response.status))
    })
    .await;
}
