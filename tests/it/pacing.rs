//! When does a request leave, of many that come at once?

use std::time::{Duration, Instant};

use crate::harness::{
    Backend, Client, Request, Response, Weir, calmly, clients, ms, one_limit, responses, route,
};

/// How much later than due a request may leave on a machine that has more to do.
const LATE: Duration = ms(30);

/// Sends `GET /0`, `GET /1`, … one on each connection.
async fn send(clients: &mut [Client]) {
    for (index, client) in clients.iter_mut().enumerate() {
        client
            .send(Request::get(&format!("/{index}")).bytes())
            .await;
    }
}

fn served(responses: &[Response]) -> usize {
    responses.iter().filter(|it| it.status == 200).count()
}

fn waited(responses: &[Response]) -> usize {
    let timed = |it: &&Response| it.header("server-timing").is_some();
    responses.iter().filter(timed).count()
}

#[tokio::test]
async fn a_burst_leaves_on_the_grid_and_the_seventh_is_refused() {
    calmly("seven at once", async || {
        let backend = Backend::start();
        let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 5", &backend)).await;
        let mut clients = clients(&weir, 7).await;
        let begun = Instant::now();
        send(&mut clients).await;
        let responses = responses(clients).await;
        let arrivals = backend.arrivals(begun);
        let mut grid = (0_u32..).map(|slot| ms(50) * slot).zip(&arrivals);
        for (due, at) in grid.clone() {
            assert!(*at >= due, "a slot was used early: {arrivals:?}");
        }
        let refused = responses.iter().filter(|it| it.status == 429).count();
        assert_eq!(served(&responses) + refused, 7);
        let on_time = grid.all(|(due, at)| *at < due + LATE);
        if (refused, on_time) == (1, true) {
            return Ok(());
        }
        Err(format!("{refused} refused, {arrivals:?}"))
    })
    .await;
}

/// A limit, how many of ten at once pass, and how many wait.
const TABLE: [(&str, usize, usize); 7] = [
    ("rate = \"4r/s\"", 1, 0),
    ("rate = \"4r/s\"\nburst = 5", 1, 5),
    ("rate = \"4r/s\"\nburst = 5\ndelay = 2", 3, 3),
    ("rate = \"4r/s\"\nburst = 5\nnodelay = true", 6, 0),
    (
        "rate = \"4r/s\"\nalgorithm = \"token_bucket\"\ncapacity = 6",
        6,
        0,
    ),
    ("rate = \"4r/s\"\nburst = 5\nmax_wait = \"600ms\"", 1, 2),
    ("rate = \"4r/s\"\nburst = 7\ndelay = 7", 8, 0),
];

#[tokio::test]
async fn ten_at_once_pass_wait_or_are_refused_as_the_reference_says() {
    let mut cases = Vec::new();
    for case in TABLE {
        let backend = Backend::start();
        let weir = Weir::start(&one_limit(case.0, &backend)).await;
        let clients = clients(&weir, 10).await;
        cases.push((case, backend, weir, clients));
    }
    for ((limit, at_once, wait), backend, _weir, mut clients) in cases {
        let begun = Instant::now();
        send(&mut clients).await;
        let responses = responses(clients).await;
        let counts = (served(&responses) - waited(&responses), waited(&responses));
        assert_eq!(counts, (at_once, wait), "{limit}");
        let refused = responses.iter().filter(|it| it.status == 429).count();
        assert_eq!(refused, 10 - at_once - wait, "{limit}");
        let arrivals = backend.arrivals(begun);
        for (slot, at) in (1_u32..).zip(arrivals.iter().skip(at_once)) {
            assert!(*at >= ms(250) * slot, "{limit}: {arrivals:?}");
        }
    }
}

#[tokio::test]
async fn those_who_wait_leave_in_the_order_in_which_they_came() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"10r/s\"\nburst = 9", &backend)).await;
    let mut all = clients(&weir, 10).await;
    for (index, client) in all.iter_mut().enumerate() {
        client
            .send(Request::get(&format!("/{index}")).bytes())
            .await;
        weir.has_admitted(&backend, index + 1).await;
    }
    let responses = responses(all).await;
    assert_eq!(served(&responses), 10);
    let order: Vec<String> = (0..10).map(|index| format!("/{index}")).collect();
    assert_eq!(backend.targets(), order);
    assert!(responses.is_sorted_by_key(|response| response.at));
}

#[tokio::test]
async fn one_connection_after_another_takes_its_own_place() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"20r/s\"\nburst = 5", &backend)).await;
    let mut client = weir.client().await;
    let begun = Instant::now();
    for _ in 0..4 {
        assert_eq!(client.get("/").await.status, 200);
    }
    let arrivals = backend.arrivals(begun);
    for (slot, at) in (0_u32..).zip(&arrivals) {
        assert!(*at >= ms(50) * slot, "{arrivals:?}");
    }
}

#[tokio::test]
async fn keys_do_not_wait_for_each_other() {
    let backend = Backend::start();
    let limit = "[limits.main]\nkey = \"{header.x-key}\"\nrate = \"1r/m\"\nburst = 1\n";
    let config = format!("{limit}{}", route("limits = [\"main\"]", &backend));
    let weir = Weir::start(&config).await;
    for key in ["a", "b", "c", "A", "a,b"] {
        let request = Request::get("/").with("X-Key", key);
        let response = weir.client().await.ask(&request).await;
        assert_eq!(response.status, 200, "{key}");
        assert_eq!(response.header("server-timing"), None, "{key}");
    }
}

#[tokio::test]
async fn a_limit_without_burst_lets_one_of_a_hundred_go() {
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"1r/s\"\nburst = 0", &backend)).await;
    let mut client = weir.client().await;
    let begun = Instant::now();
    let mut passed = 0;
    let mut asked = 0;
    while asked < 100 && begun.elapsed() < ms(900) {
        passed += usize::from(client.get("/").await.status == 200);
        asked += 1;
    }
    assert!(asked > 20, "enough were asked in time: {asked}");
    assert_eq!((passed, backend.seen().len()), (1, 1));
}

#[tokio::test]
async fn a_built_in_answer_is_limited_like_any_other() {
    let config = "[limits.main]\nkey = \"all\"\nrate = \"4r/s\"\nburst = 2\n\
        [upstreams.main]\nrespond = { status = 203, body = \"by weir\" }\n\
        [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\nlimits = [\"main\"]\n";
    let weir = Weir::start(config).await;
    let mut all = clients(&weir, 4).await;
    let begun = Instant::now();
    send(&mut all).await;
    let mut responses = responses(all).await;
    responses.sort_by_key(|response| (response.status, response.at));
    let statuses: Vec<_> = responses.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [203, 203, 203, 429]);
    for (slot, response) in (0_u32..).zip(responses.iter().take(3)) {
        assert_eq!(response.text(), "by weir");
        assert!(response.at >= begun + ms(250) * slot);
    }
}
