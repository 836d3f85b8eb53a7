//! How many go in the long run?

use std::time::{Duration, Instant};

use crate::harness::{Answer, Backend, Request, Weir, ms, one_limit, responses, route, together};

const RESPOND: &str = "[upstreams.main]\nrespond = { body = \"ok\" }\n\
    [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\nlimits = [\"main\"]\n";

/// Intervals of a rate that have begun in `span`, the first one included.
fn slots(span: Duration, per_second: f64) -> f64 {
    (span.as_secs_f64() * per_second).floor() + 1.0
}

#[tokio::test]
async fn whoever_keeps_the_pace_of_3000_a_second_passes() {
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"3000r/s\"\nburst = 0\n";
    let weir = Weir::start(&format!("{limit}{RESPOND}")).await;
    let mut client = weir.client().await;
    let interval = Duration::from_micros(334);
    let mut answered = Instant::now();
    for asked in 0..600 {
        // Finer than a runtime's timer, and never early.
        while answered.elapsed() < interval {
            std::hint::spin_loop();
        }
        assert_eq!(client.get("/").await.status, 200, "request {asked}");
        answered = Instant::now();
    }
}

#[tokio::test]
async fn whoever_asks_faster_than_3000_a_second_gets_no_more() {
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"300r/s\"\nburst = 0\n";
    let weir = Weir::start(&format!("{limit}{RESPOND}")).await;
    let mut client = weir.client().await;
    let begun = Instant::now();
    let mut passed = 0.0;
    while begun.elapsed() < ms(500) {
        passed += f64::from(u8::from(client.get("/").await.status == 200));
    }
    // One may come a hair early; those that follow may not.
    assert!(passed <= slots(begun.elapsed(), 300.0) + 1.0, "{passed}");
    assert!(passed > 20.0, "some pass: {passed}");
}

#[tokio::test]
async fn a_greedy_crowd_gets_the_rate_and_the_burst_over_five_seconds() {
    const SPAN: Duration = ms(5_000);
    let backend = Backend::start();
    let weir = Weir::start(&one_limit("rate = \"100r/s\"\nburst = 10", &backend)).await;
    let mut crowd = Vec::new();
    for _ in 0..16 {
        crowd.push(weir.client().await);
    }
    let begun = Instant::now();
    let greedy = crowd.into_iter().map(|mut client| async move {
        let mut served = 0_u32;
        while begun.elapsed() < SPAN {
            let response = client.get("/").await;
            served += u32::from(response.status == 200);
            if response.status != 200 {
                tokio::time::sleep(ms(10)).await;
            }
        }
        served
    });
    let served: u32 = together(greedy).await.iter().sum();
    let arrivals = backend.arrivals(begun);
    for (slot, at) in (0_u32..).zip(&arrivals) {
        assert!(*at >= ms(10) * slot, "slot {slot} at {at:?}");
    }
    let in_time = arrivals.iter().filter(|at| **at <= SPAN).count();
    let late = weir
        .metric("weir_slot_lateness_seconds_sum{limit=\"main\"}")
        .await;
    // What the machine itself was late by is no slot that weir lost.
    let most = 501.0 - late * 100.0;
    let in_time = f64::from(u32::try_from(in_time).expect("few"));
    assert!(in_time >= most * 0.99, "{in_time} of {most}");
    assert!(f64::from(served) <= 501.0 + 11.0, "{served}");
}

#[tokio::test]
async fn a_drained_bucket_fills_at_the_rate_and_no_faster() {
    let limit = "[limits.main]\nkey = \"all\"\nrate = \"10r/s\"\nburst = 20\nnodelay = true\n";
    let weir = Weir::start(&format!("{limit}{RESPOND}")).await;
    let mut client = weir.client().await;
    let begun = Instant::now();
    let mut drained = 0.0;
    while client.get("/").await.status == 200 {
        drained += 1.0;
    }
    let empty = Instant::now();
    assert!(drained >= 21.0 && drained <= 20.0 + slots(begun.elapsed(), 10.0));
    tokio::time::sleep(ms(330)).await;
    let silent = empty.elapsed();
    let mut passed = 0.0;
    for _ in 0..30 {
        passed += f64::from(u8::from(client.get("/").await.status == 200));
    }
    assert!(passed >= (silent.as_secs_f64() * 10.0).floor(), "{passed}");
    let all = drained + passed;
    // The hair by which a punctual client may be early counts as one.
    assert!(all <= 21.0 + slots(begun.elapsed(), 10.0), "{all}");
}

#[tokio::test]
async fn idle_credit_is_never_more_than_the_delay() {
    let backend = Backend::start();
    let limit = "rate = \"20r/s\"\nburst = 9\ndelay = 2";
    let weir = Weir::start(&one_limit(limit, &backend)).await;
    for _ in 0..2 {
        tokio::time::sleep(ms(400)).await;
        let mut all = crate::harness::clients(&weir, 8).await;
        let begun = Instant::now();
        for client in &mut all {
            client.send(Request::get("/").bytes()).await;
        }
        let before = backend.seen().len();
        let responses = responses(all).await;
        assert!(responses.iter().all(|response| response.status == 200));
        let arrivals = backend.arrivals(begun);
        let fresh = arrivals.iter().filter(|at| !at.is_zero());
        for (slot, at) in (0_u32..).zip(fresh.skip(3)) {
            assert!(*at >= ms(50) * (slot + 1), "{before}: {arrivals:?}");
        }
    }
}

#[tokio::test]
async fn those_who_wait_are_all_served_though_half_the_crowd_leaves() {
    let backend = Backend::answering(|_| Answer::ok());
    let config = format!(
        "[limits.main]\nkey = \"all\"\nrate = \"100r/s\"\nburst = 50\n{}",
        route("limits = [\"main\"]", &backend)
    );
    let weir = Weir::start(&config).await;
    let begun = Instant::now();
    let address = weir.listen();
    // 150 a second for two seconds; every other one leaves after 100 ms.
    let visits = (0..300_u32).map(|number| async move {
        let due = begun + Duration::from_secs_f64(f64::from(number) / 150.0);
        tokio::time::sleep_until(due.into()).await;
        let mut client = crate::harness::Client::connect(address).await;
        if number % 2 == 0 {
            return Some(client.get(&format!("/patient/{number}")).await.status);
        }
        let request = Request::get(&format!("/hasty/{number}"));
        client.send(request.bytes()).await;
        if client.is_silent_for(ms(100)).await {
            client.reset();
        }
        None
    });
    let statuses: Vec<_> = together(visits).await.into_iter().flatten().collect();
    assert_eq!(statuses, [200; 150]);
    for (slot, at) in (0_u32..).zip(backend.arrivals(begun)) {
        assert!(at >= ms(10) * slot, "slot {slot} at {at:?}");
    }
}
