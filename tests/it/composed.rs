//! What do several limits do together?

use std::time::{Duration, Instant};

use crate::harness::structured::left;
use crate::harness::{Backend, Request, Weir, calmly, clients, ms, responses, together};

/// How much closer two stamps of a busy machine may lie than what they stamp.
const BLUR: u64 = 20;

fn config(limits: &str, routes: &[(&str, &str)], backend: &Backend) -> String {
    let upstream = format!("[upstreams.main]\nurl = \"{}\"\n", backend.url());
    let routes: Vec<_> = routes
        .iter()
        .map(|(path, limits)| {
            format!("[[routes]]\npath = \"{path}\"\nupstream = \"main\"\nlimits = [{limits}]\n")
        })
        .collect();
    format!("{limits}\n{upstream}{}", routes.concat())
}

const PER_KEY_AND_ALL: &str = "[limits.per_key]\nkey = \"{header.x-key}\"\nrate = \"10r/s\"\nburst = 10\n\
    [limits.all]\nkey = \"all\"\nrate = \"100r/s\"\nburst = 300\n";

#[tokio::test]
async fn twenty_keys_reach_the_backend_as_one_even_stream() {
    calmly("at most eleven in 100 ms", async || {
        let backend = Backend::start();
        let routes = [("/", "\"per_key\", \"all\"")];
        let weir = Weir::start(&config(PER_KEY_AND_ALL, &routes, &backend)).await;
        let mut all = clients(&weir, 200).await;
        let begun = Instant::now();
        for (index, client) in all.iter_mut().enumerate() {
            let key = (index % 20).to_string();
            client
                .send(Request::get("/").with("X-Key", &key).bytes())
                .await;
        }
        let responses = responses(all).await;
        assert!(responses.iter().all(|response| response.status == 200));
        let arrivals = backend.arrivals(begun);
        assert_eq!(arrivals.len(), 200);
        for (slot, at) in (0_u32..).zip(&arrivals) {
            assert!(*at >= ms(10) * slot, "slot {slot} at {at:?}");
        }
        let span = |window: &[Duration]| window[11].saturating_sub(window[0]);
        let closest = arrivals.windows(12).map(span).min().expect("many");
        (closest >= ms(110 - BLUR))
            .then_some(())
            .ok_or_else(|| format!("12 in {closest:?}"))
    })
    .await;
}

#[tokio::test]
async fn before_a_full_second_line_they_stay_in_the_first_and_none_is_refused() {
    let limits = "[limits.first]\nkey = \"{header.x-key}\"\nrate = \"100r/s\"\nburst = 20\n\
        [limits.second]\nkey = \"all\"\nrate = \"20r/s\"\nburst = 2\n";
    let backend = Backend::start();
    let weir = Weir::start(&config(limits, &[("/", "\"first\", \"second\"")], &backend)).await;
    let mut all = clients(&weir, 10).await;
    let begun = Instant::now();
    for (index, client) in all.iter_mut().enumerate() {
        let request = Request::get(&format!("/{index}")).with("X-Key", "one");
        client.send(request.bytes()).await;
        weir.has_admitted(&backend, index + 1).await;
    }
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    let order: Vec<_> = (0..10).map(|index| format!("/{index}")).collect();
    assert_eq!(backend.targets(), order);
    for (slot, at) in (0_u32..).zip(backend.arrivals(begun)) {
        assert!(at >= ms(50) * slot, "slot {slot} at {at:?}");
    }
}

#[tokio::test]
async fn three_routes_that_name_a_limit_share_its_buckets() {
    let limits = "[limits.shared]\nkey = \"all\"\nrate = \"1r/m\"\nburst = 2\nnodelay = true\n";
    let routes = [
        ("/a", "\"shared\""),
        ("/b", "\"shared\""),
        ("/c", "\"shared\""),
    ];
    let backend = Backend::start();
    let weir = Weir::start(&config(limits, &routes, &backend)).await;
    let mut client = weir.client().await;
    let mut statuses = Vec::new();
    for target in ["/a", "/b", "/c", "/a", "/b"] {
        statuses.push(client.get(target).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}

const WIDE: &str = "[limits.wide]\nkey = \"all\"\nrate = \"1r/m\"\nburst = 9\nnodelay = true\n";

#[tokio::test]
async fn what_one_limit_refuses_the_others_get_back() {
    for narrow in ["burst = 0", "burst = 1"] {
        for order in ["\"wide\", \"narrow\"", "\"narrow\", \"wide\""] {
            let narrow = format!("[limits.narrow]\nkey = \"all\"\nrate = \"1r/h\"\n{narrow}\n");
            let routes = [("/", order), ("/wide", "\"wide\"")];
            let backend = Backend::start();
            let weir = Weir::start(&config(&format!("{WIDE}{narrow}"), &routes, &backend)).await;
            let mut waiting = clients(&weir, 2).await;
            for client in &mut waiting {
                client.send(Request::get("/").bytes()).await;
            }
            backend.has_seen(1).await;
            if narrow.contains("burst = 1") {
                weir.shows("weir_waiting{limit=\"narrow\"}", 1.0).await;
            }
            let admitted = 1 + i64::from(narrow.contains("burst = 1"));
            let mut client = weir.client().await;
            for _ in 0..3 {
                let refused = client.get("/").await;
                assert_eq!(refused.status, 429, "{order}");
                assert_eq!(left(&refused, "wide"), 10 - admitted, "{order}, {narrow}");
            }
            let probe = client.get("/wide").await;
            assert_eq!(left(&probe, "wide"), 9 - admitted, "{order}, {narrow}");
        }
    }
}

#[tokio::test]
async fn whoever_leaves_before_its_turn_has_paid_none_of_its_limits() {
    let line = "[limits.line]\nkey = \"all\"\nrate = \"1r/m\"\nburst = 9\n";
    let cases = ["\"wide\", \"line\"", "\"line\", \"wide\""].map(|order| async move {
        let routes = [("/", order), ("/wide", "\"wide\"")];
        let backend = Backend::start();
        let weir = Weir::start(&config(&format!("{WIDE}{line}"), &routes, &backend)).await;
        assert_eq!(left(&weir.get("/").await, "wide"), 9, "{order}");
        let mut all = clients(&weir, 4).await;
        for client in &mut all {
            client.send(Request::get("/").bytes()).await;
        }
        weir.shows("weir_waiting{limit=\"line\"}", 4.0).await;
        all.into_iter().for_each(crate::harness::Client::reset);
        weir.shows("weir_waiting{limit=\"line\"}", 0.0).await;
        let probe = weir.get("/wide").await;
        assert_eq!(left(&probe, "wide"), 8, "{order}");
        assert_eq!(backend.targets(), ["/", "/wide"], "{order}");
    });
    together(cases).await;
}

#[tokio::test]
async fn the_slot_of_one_who_leaves_in_the_second_line_comes_back_to_the_first() {
    let limits = "[limits.first]\nkey = \"{header.x-key}\"\nrate = \"1r/h\"\nburst = 1\n\
        [limits.second]\nkey = \"all\"\nrate = \"1r/m\"\nburst = 9\n";
    let backend = Backend::start();
    let weir = Weir::start(&config(limits, &[("/", "\"first\", \"second\"")], &backend)).await;
    let ask = |key: &str| Request::get("/").with("X-Key", key);
    assert_eq!(weir.client().await.ask(&ask("a")).await.status, 200);
    for _ in 0..3 {
        let mut client = weir.client().await;
        client.send(ask("b").bytes()).await;
        weir.shows("weir_waiting{limit=\"second\"}", 1.0).await;
        client.reset();
        weir.shows("weir_waiting{limit=\"second\"}", 0.0).await;
    }
    let metrics = weir.metrics().await;
    assert!((metrics.value("weir_waiting{limit=\"first\"}")).abs() < 1e-9);
    assert!(
        (metrics.value("weir_requests_total{route=\"/\",outcome=\"left\"}") - 3.0).abs() < 1e-9
    );
}
