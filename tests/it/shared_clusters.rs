//! Do buckets live in a cluster, behind sentinels, and behind TLS?

use std::time::Instant;

use crate::harness::{
    Backend, Client, Cluster, Departures, Redis, Request, Secure, Sentinels, Weir, clients, crowds,
    have_waiting, instances, know_each_other, ms, none_failed, responses, run, sharing, until,
    visits,
};

#[tokio::test]
async fn each_bucket_of_a_cluster_counts_for_all_instances() {
    let cluster = Cluster::start().await;
    let backend = Backend::start();
    for limit in [
        "rate = \"1r/m\"\nburst = 2\nnodelay = true",
        "algorithm = \"token_bucket\"\nrate = \"1r/m\"\ncapacity = 3",
    ] {
        for master in cluster.masters() {
            master.call(&["FLUSHALL"]).await;
        }
        let weirs = instances(&cluster.store(), limit, &backend, 2).await;
        let mut all = [weirs[0].client().await, weirs[1].client().await];
        for key in 0..30 {
            let request = Request::get("/").with("X-Key", &format!("key {key}"));
            let mut statuses = Vec::new();
            for number in 0..4 {
                statuses.push(all[number % 2].ask(&request).await.status);
            }
            assert_eq!(statuses, [200, 200, 200, 429], "key {key}");
        }
        for master in cluster.masters() {
            let own = master.keys().await;
            let own = own.iter().filter(|key| key.contains("{main:")).count();
            assert!(own > 2, "{own} buckets on one of three");
        }
    }
}

#[tokio::test]
async fn lines_in_a_cluster_drain_in_order() {
    let cluster = Cluster::start().await;
    let backend = Backend::start();
    let limit = "rate = \"10r/s\"\nburst = 20";
    let weirs = instances(&cluster.store(), limit, &backend, 2).await;
    let mut all = Vec::new();
    for number in 0..14 {
        for key in ["x", "y", "z"] {
            let mut client = weirs[number % 2].client().await;
            let request = Request::get(&format!("/{key}{number:02}")).with("X-Key", key);
            client.send(request.bytes()).await;
            all.push(client);
        }
        tokio::time::sleep(ms(30)).await;
    }
    let responses = responses(all).await;
    assert!(responses.iter().all(|response| response.status == 200));
    for key in ["x", "y", "z"] {
        let mut targets = backend.targets();
        targets.retain(|target| target.contains(key));
        let wanted: Vec<_> = (0..14).map(|number| format!("/{key}{number:02}")).collect();
        assert_eq!(targets, wanted);
    }
}

#[tokio::test]
async fn those_behind_move_up_in_a_cluster_as_well() {
    let cluster = Cluster::start().await;
    let backend = Backend::start();
    let limit = "rate = \"2r/s\"\nburst = 30";
    let weirs = instances(&cluster.store(), limit, &backend, 2).await;
    let mut before = clients(&weirs[0], 20).await;
    for client in &mut before {
        client.send(Request::get("/before").bytes()).await;
    }
    have_waiting(&weirs, 19).await;
    let mut behind = weirs[1].client().await;
    behind.send(Request::get("/behind").bytes()).await;
    have_waiting(&weirs, 20).await;
    before.into_iter().for_each(Client::reset);
    let left = Instant::now();
    assert_eq!(behind.response().await.status, 200);
    assert!(left.elapsed() < ms(2_500), "{:?}", left.elapsed());
}

#[tokio::test]
async fn a_failover_under_load_costs_nobody_a_place() {
    let mut sentinels = Sentinels::start().await;
    let backend = Backend::start();
    let limit = "rate = \"100r/s\"\nburst = 50";
    let weirs = instances(&sentinels.store(), limit, &backend, 2).await;
    let begun = Instant::now();
    let faults = async {
        tokio::time::sleep(ms(1_500)).await;
        sentinels.first().kill();
        sentinels.have_failed_over().await;
        for weir in &weirs {
            weir.shows("weir_store_up", 1.0).await;
            weir.shows("weir_store_degraded", 0.0).await;
        }
        begun.elapsed()
    };
    let crowds = crowds(&weirs, 80.0);
    let (visits, back) = tokio::join!(visits(&crowds, ms(9_000)), faults);
    none_failed(&visits);
    assert!(back < ms(8_500), "{back:?}");
    let left = Departures::to(&backend);
    assert_eq!(left.twice(), [""; 0]);
    let count = left.between(begun + ms(1_000), begun + ms(9_000)).count();
    assert!((640..=960).contains(&count), "{count} in 8 s");
    assert!(
        left.most_in(ms(1_000)) <= 120,
        "{}",
        left.most_in(ms(1_000))
    );
    let keys = sentinels.second().keys().await;
    assert!(keys.iter().any(|key| key.contains("{main:")), "{keys:?}");
}

#[tokio::test]
async fn a_user_with_a_password_comes_in_by_tls_and_the_password_is_seen_nowhere() {
    let secure = Secure::start().await;
    let backend = Backend::start();
    let limit = "rate = \"10r/s\"\nburst = 20";
    let files = [("ca.pem", secure.ca())];
    for (store, up) in [
        (secure.store(), true),
        (secure.store_with("wr0ng-pa55-w0rd"), false),
    ] {
        let mut weirs = Vec::new();
        for name in ["a", "b"] {
            let config = sharing(&store, limit, &backend, name);
            weirs.push(Weir::beside(&files, "", &config).await);
        }
        if up {
            know_each_other(&weirs).await;
        }
        let mut all = Vec::new();
        for weir in weirs.iter().cycle().take(8) {
            let mut client = weir.client().await;
            client.send(Request::get("/").bytes()).await;
            all.push(client);
        }
        let responses = responses(all).await;
        assert!(responses.iter().all(|response| response.status == 200));
        let keys = secure.redis().keys().await;
        assert!(
            keys.iter().any(|key| key.contains("{main:")) || !up,
            "{keys:?}"
        );
        for weir in &weirs {
            weir.shows("weir_store_up", f64::from(u8::from(up))).await;
            let mut said = weir.log();
            for page in ["/", "/metrics", "/readyz", "/healthz"] {
                said.push(weir.page(page).await.text().to_owned());
            }
            for text in said {
                let secret = text.contains(Secure::password()) || text.contains("wr0ng-pa55");
                assert!(!secret, "{text}");
            }
        }
    }
    let keys = secure.redis().keys().await;
    assert!(keys.iter().all(|key| key.starts_with("weir:")), "{keys:?}");
}

#[tokio::test]
async fn a_redis_that_nobody_vouches_for_hears_no_password() {
    let secure = Secure::start().await;
    let backend = Backend::start();
    let another = Secure::start().await;
    let files = [("ca.pem", another.ca())];
    let config = sharing(&secure.store(), "rate = \"10r/s\"", &backend, "a");
    let weir = Weir::beside(&files, "", &config).await;
    assert_eq!(weir.get("/").await.status, 200);
    weir.shows("weir_store_up", 0.0).await;
    assert!(secure.redis().keys().await.is_empty());
}

#[tokio::test]
async fn a_password_from_the_url_with_odd_letters_is_taken_as_it_is() {
    let redis = Redis::behind("p@ss:/w rd%").await;
    let backend = Backend::start();
    let url = format!("redis://:p%40ss%3A%2Fw%20rd%25@{}/0", redis.address());
    let store = format!("[store]\nkind = \"redis\"\nurl = \"{url}\"\n");
    let weirs = instances(&store, "rate = \"10r/s\"", &backend, 1).await;
    assert_eq!(weirs[0].get("/").await.status, 200);
    until("a bucket in redis", async || {
        let keys = redis.keys().await;
        let found = keys.iter().any(|key| key.contains("{main:"));
        found.then_some(()).ok_or_else(|| format!("{keys:?}"))
    })
    .await;
    let ran = run(
        &["check"],
        Some(&sharing(&store, "rate = \"10r/s\"", &backend, "a")),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for said in [ran.out, ran.err] {
        assert!(!said.contains("p%40ss") && !said.contains("p@ss"), "{said}");
    }
}
