//! Do several instances drain one line as one?

use std::time::{Duration, Instant};

use crate::harness::{
    Backend, Crowd, Departures, Redis, Request, Severing, Visit, Way, Weir, calmly, instances,
    know_each_other, ms, none_failed, responses, sharing, visits,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How the departures of a line that was never empty must be.
struct Bounds {
    used: f64,
    overtaken: f64,
}

/// Whether the slots of this rate were used, and no more, in order, alike for all.
fn judge(
    left: &Departures,
    visits: &[Visit],
    (from, to): (Instant, Instant),
    rate: u32,
    bounds: &Bounds,
) -> Result<(), String> {
    let slots = (to - from).as_secs_f64() * f64::from(rate);
    let rate = usize::try_from(rate).expect("few");
    let steady = left.between(from, to);
    let used = f64::from(u32::try_from(steady.count()).expect("few")) / slots;
    let in_a_second = left.most_in(ms(1_000));
    let in_a_tenth = left.most_in(ms(100));
    let overtaken = left.overtaken(visits);
    let waits = NAMES.map(|name| steady.mean_wait(name, visits));
    let longest = waits.iter().copied().fold(0.0, f64::max);
    let shortest = waits.iter().copied().fold(f64::MAX, f64::min);
    let holds = used >= bounds.used
        && in_a_second <= rate + 1
        && in_a_tenth <= rate / 10 + 2
        && overtaken <= bounds.overtaken
        && longest <= shortest * 1.1;
    holds.then_some(()).ok_or_else(|| {
        format!(
            "{used:.3} used, {in_a_second} in a second, {in_a_tenth} in 100 ms, \
             {overtaken:.4} overtaken, waits {waits:.3?}"
        )
    })
}

async fn drain(
    rate: u32,
    crowds: &[f64],
    leaves: Option<Duration>,
    bounds: &Bounds,
) -> Result<(), String> {
    const SPAN: Duration = ms(7_000);
    let redis = Redis::start().await;
    let limit = format!("rate = \"{rate}r/s\"\nburst = {rate}");
    let backend = Backend::start();
    let weirs = instances(&redis.store(), &limit, &backend, 3).await;
    let crowds = weirs
        .iter()
        .zip(NAMES)
        .zip(crowds)
        .map(|((weir, name), pace)| {
            let crowd = Crowd::of(weir, name, *pace);
            match leaves {
                Some(after) => crowd.half_leaves(after),
                None => crowd,
            }
        });
    let crowds: Vec<_> = crowds.collect();
    let begun = Instant::now();
    let visits = visits(&crowds, SPAN).await;
    none_failed(&visits);
    let left = Departures::to(&backend);
    assert_eq!(left.twice(), [""; 0], "none is sent twice");
    let steady = (begun + ms(1_500), begun + SPAN);
    judge(&left, &visits, steady, rate, bounds)
}

#[tokio::test]
async fn three_instances_drain_one_line_in_order_and_evenly() {
    let bounds = Bounds {
        used: 0.99,
        overtaken: 0.01,
    };
    calmly("150, 30 and 10 a second", async || {
        drain(100, &[150.0, 30.0, 10.0], None, &bounds).await
    })
    .await;
}

#[tokio::test]
async fn no_slot_goes_by_though_half_of_all_who_come_leave() {
    let bounds = Bounds {
        used: 0.99,
        overtaken: 0.08,
    };
    calmly("150, 40 and 20 a second", async || {
        let paces = [150.0, 40.0, 20.0];
        drain(50, &paces, Some(ms(300)), &bounds).await
    })
    .await;
}

#[tokio::test]
async fn those_who_come_in_turn_to_three_instances_leave_in_that_order() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let limit = "rate = \"10r/s\"\nburst = 50";
    let weirs = instances(&redis.store(), limit, &backend, 3).await;
    let turns = (0..21).map(|number| (number, &weirs[number % 3]));
    let mut all = Vec::new();
    for (number, weir) in turns {
        let mut client = weir.client().await;
        let request = Request::get(&format!("/{number}"));
        client.send(request.bytes()).await;
        all.push(client);
        tokio::time::sleep(ms(30)).await;
    }
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    let wanted: Vec<_> = (0..21).map(|number| format!("/{number}")).collect();
    assert_eq!(backend.targets(), wanted);
    let left = Departures::to(&backend);
    for (name, _) in NAMES.iter().zip(&weirs) {
        assert_eq!(left.by(name), 7, "{name}");
    }
}

#[tokio::test]
async fn an_instance_far_from_redis_uses_its_slots() {
    let redis = Redis::start().await;
    let way = Severing::before(redis.address());
    way.set(Way::Slow(ms(40)));
    let backend = Backend::start();
    let limit = "rate = \"100r/s\"\nburst = 1000";
    let far = way.store() + "timeout = \"500ms\"\n";
    let near = redis.store();
    let mut weirs = Vec::new();
    for (store, name) in [(&near, "a"), (&far, "b")] {
        let config = sharing(store, limit, &backend, name);
        weirs.push(Weir::start(&config).await);
    }
    know_each_other(&weirs).await;
    let crowds = [
        Crowd::of(&weirs[0], "a", 80.0),
        Crowd::of(&weirs[1], "b", 80.0),
    ];
    let begun = Instant::now();
    let visits = visits(&crowds, ms(6_000)).await;
    none_failed(&visits);
    let left = Departures::to(&backend);
    let steady = left.between(begun + ms(2_000), begun + ms(6_000));
    let fates = ["used", "missed", "spare"]
        .map(|fate| format!("weir_slots_total{{limit=\"main\",fate=\"{fate}\"}}"));
    let mut slots = Vec::new();
    for weir in &weirs {
        let metrics = weir.metrics().await;
        slots.push(fates.each_ref().map(|fate| metrics.value(fate)));
    }
    assert!(
        steady.count() >= 340,
        "{} of 400 slots used, {} by the far one; used, missed and spare of each: {slots:?}",
        steady.count(),
        steady.by("b")
    );
    assert!(
        left.most_in(ms(1_000)) <= 102,
        "{}",
        left.most_in(ms(1_000))
    );
    let far = steady.by("b");
    assert!(far * 3 >= steady.count(), "{far} of {}", steady.count());
}
