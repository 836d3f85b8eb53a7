//! What lies in Redis, under which names, and for how long?

use std::time::Instant;

use crate::harness::{
    Backend, Redis, Request, Weir, clients, have_waiting, instances, ms, route, sharing, together,
    upstream,
};

/// The bucket that a key of Redis belongs to, if it belongs to one: `PREFIX:{LIMIT:HASH}`,
/// or the same with `:line`.
fn bucket<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    let tag = key.strip_prefix(prefix)?.strip_prefix(":{")?;
    let (tag, rest) = tag.split_once('}')?;
    let (limit, hash) = tag.split_once(':')?;
    let named = !limit.is_empty()
        && limit
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-".contains(&c));
    let hashed = hash.len() == 32
        && hash
            .bytes()
            .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
    (named && hashed && matches!(rest, "" | ":line")).then_some(tag)
}

/// The buckets in Redis. What else there is belongs to the instances, and is little.
async fn buckets(redis: &Redis, prefix: &str) -> Vec<String> {
    let keys = redis.keys().await;
    let (of_buckets, others): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| bucket(key, prefix).is_some());
    let own = format!("{prefix}:");
    let odd = others.iter().any(|key| {
        let plain = key
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b":_-{}".contains(&c));
        !key.starts_with(&own) || key.len() > 60 || !plain
    });
    assert!(others.len() <= 4 && !odd, "{others:?}");
    let mut buckets: Vec<_> = of_buckets
        .iter()
        .filter_map(|key| bucket(key, prefix))
        .collect();
    buckets.dedup();
    buckets.into_iter().map(str::to_owned).collect()
}

/// Each byte that isn't a letter or a digit as `%XX`.
fn escaped(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        odd => format!("%{odd:02X}"),
    });
    bytes.collect()
}

const ODD: [&str; 24] = [
    "a",
    "{",
    "}",
    "{}",
    "}{",
    "a{b}c",
    "{a}",
    "{main:0}",
    " ",
    "a b",
    "a\0b",
    "\0",
    "a\r\nb",
    "\r\nSET INJECTED 1\r\n",
    "*1\r\n$8\r\nFLUSHALL\r\n",
    "🦀",
    "%2F",
    "/",
    "a%2Fb",
    "a/b",
    "weir:{main:0}:line",
    "\" INJECTED=\"",
    "\u{7f}\u{1b}[31m",
    "ａ",
];

#[tokio::test]
async fn odd_keys_have_a_bucket_each_and_put_nothing_into_redis_logs_or_metrics() {
    for limit in [
        "rate = \"1r/h\"",
        "rate = \"1r/h\"\nburst = 1",
        "algorithm = \"token_bucket\"\nrate = \"1r/h\"\ncapacity = 1",
    ] {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let config = format!(
            "{}[log]\naccess = true\n[limits.main]\nkey = \"{{query.k}}\"\n{limit}\n{}",
            redis.store(),
            route("limits = [\"main\"]", &backend)
        );
        let weir = Weir::with("max_header_bytes = \"512 KiB\"", &config).await;
        weir.shows("weir_store_up", 1.0).await;
        let mut client = weir.client().await;
        let long = "x".repeat(60 << 10);
        let odd = ODD.iter().copied().chain([long.as_str()]);
        for text in odd.clone() {
            let target = format!("/?k={}", escaped(text));
            assert_eq!(client.get(&target).await.status, 200, "{text:?}");
        }
        if !limit.contains("burst") {
            for text in odd.clone() {
                let target = format!("/?k={}", escaped(text));
                assert_eq!(client.get(&target).await.status, 429, "{text:?}");
            }
        }
        assert_eq!(client.get("/?k=").await.status, 400);
        assert_eq!(buckets(&redis, "weir").await.len(), ODD.len() + 1);
        let names: Vec<_> = weir
            .metrics()
            .await
            .names()
            .iter()
            .map(ToString::to_string)
            .collect();
        let said = [weir.log(), names, redis.keys().await].concat();
        for line in said {
            assert!(
                !line.contains("INJECTED") && !line.contains('\u{1b}'),
                "{line}"
            );
            assert!(line.len() < 2_000, "{line}");
        }
    }
}

#[tokio::test]
async fn a_key_of_64_kib_in_a_header_has_a_bucket() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let config = sharing(&redis.store(), "rate = \"1r/h\"", &backend, "a");
    let weir = Weir::with("max_header_bytes = \"256 KiB\"", &config).await;
    let long = "{x}".repeat(22 << 10);
    let request = Request::get("/").with("X-Key", &long);
    let mut client = weir.client().await;
    assert_eq!(client.ask(&request).await.status, 200);
    assert_eq!(client.ask(&request).await.status, 429);
    assert_eq!(buckets(&redis, "weir").await.len(), 1);
}

#[tokio::test]
async fn another_prefix_is_another_world() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    for prefix in ["weir", "other-1"] {
        let url = redis.url() + "/3";
        let store = format!("[store]\nkind = \"redis\"\nurl = \"{url}\"\nprefix = \"{prefix}\"\n");
        let weirs = instances(&store, "rate = \"1r/h\"", &backend, 1).await;
        assert_eq!(weirs[0].get("/").await.status, 200, "{prefix}");
        assert_eq!(weirs[0].get("/").await.status, 429, "{prefix}");
    }
    // The number in the URL is that of the database.
    assert_eq!(redis.keys().await, [""; 0]);
    let space = redis.call(&["INFO", "keyspace"]).await;
    assert!(space.text().contains("db3:"), "{space:?}");
}

/// Keys without an end, all looked at in one instant.
const ENDLESS: &str = "local endless = {} \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
      if redis.call('TTL', key) == -1 then endless[#endless + 1] = key end \
    end return endless";

#[tokio::test]
async fn no_key_is_without_an_end_at_any_instant() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let config = |name: &str| {
        let limits = "key = \"{header.x-key}\"\nrate = \"100r/s\"";
        format!(
            "{}[limits.line]\n{limits}\nburst = 5\n[limits.bucket]\n{limits}\nburst = 5\nnodelay = true\n{}",
            redis.store(),
            upstream(
                &format!("set_headers = {{ x-instance = \"{name}\" }}"),
                "limits = [\"bucket\", \"line\"]",
                &backend
            )
        )
    };
    let mut weirs = Vec::new();
    for name in ["a", "b"] {
        weirs.push(Weir::start(&config(name)).await);
    }
    let begun = Instant::now();
    let mut crowd = Vec::new();
    for number in 0..20 {
        crowd.push(weirs[number % 2].client().await);
    }
    let crowd = crowd
        .into_iter()
        .enumerate()
        .map(|(number, mut client)| async move {
            let mut asked = number * 5;
            while begun.elapsed() < ms(3_000) {
                let key = format!("{}", asked % 100);
                let request = Request::get("/").with("X-Key", &key);
                let status = client.ask(&request).await.status;
                assert!(matches!(status, 200 | 429), "{status}");
                asked += 1;
            }
        });
    let mut looks = 0;
    let watch = async {
        while begun.elapsed() < ms(3_000) {
            let endless = redis.call(&["EVAL", ENDLESS, "0"]).await.texts();
            assert_eq!(endless, [""; 0]);
            looks += 1;
            tokio::time::sleep(ms(7)).await;
        }
    };
    tokio::join!(together(crowd), watch);
    assert!(looks > 50, "{looks}");
    assert!(buckets(&redis, "weir").await.len() > 50);
}

#[tokio::test]
async fn a_debt_is_remembered_until_it_is_paid() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    // One passed, and so many wait: how many seconds the line takes to drain.
    for (limit, waiting, seconds) in [
        ("rate = \"6r/m\"\nburst = 9", 5, 60),
        ("rate = \"1r/d\"\nburst = 9", 1, 2 * 86_400),
        ("rate = \"6r/m\"\nburst = 9\nnodelay = true", 0, 60),
        (
            "algorithm = \"token_bucket\"\nrate = \"6r/m\"\ncapacity = 9",
            0,
            60,
        ),
        ("rate = \"6r/m\"\nburst = 9\ndelay = 4", 1, 60),
    ] {
        redis.call(&["FLUSHALL"]).await;
        let weirs = instances(&redis.store(), limit, &backend, 1).await;
        let mut all = clients(&weirs[0], 6).await;
        let count = if waiting > 0 && !limit.contains("delay") {
            waiting + 1
        } else {
            6
        };
        all.truncate(count);
        for client in &mut all {
            client.send(Request::get("/").bytes()).await;
        }
        have_waiting(&weirs, u32::try_from(waiting).expect("few")).await;
        tokio::time::sleep(ms(100)).await;
        let keys = redis.keys().await;
        let of_main: Vec<_> = keys.iter().filter(|key| key.contains("{main:")).collect();
        assert!(!of_main.is_empty(), "{limit}");
        for key in of_main {
            let left = redis.call(&["TTL", key]).await.number();
            assert!(left >= seconds - 3, "{key} lasts {left} s: {limit}");
            assert!(left <= seconds * 4 + 60, "{key} lasts {left} s: {limit}");
        }
    }
}

#[tokio::test]
async fn a_bucket_takes_no_more_room_with_more_requests() {
    for limit in [
        "rate = \"1000r/s\"\nburst = 4",
        "rate = \"1000r/s\"\nburst = 9\nnodelay = true",
        "algorithm = \"token_bucket\"\nrate = \"10r/s\"\ncapacity = 9",
    ] {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let weirs = instances(&redis.store(), limit, &backend, 2).await;
        for round in 0..5 {
            let mut crowd = clients(&weirs[0], 4).await;
            crowd.extend(clients(&weirs[1], 4).await);
            let crowd = crowd.into_iter().map(|mut client| async move {
                for _ in 0..80 {
                    let status = client.get("/").await.status;
                    assert!(matches!(status, 200 | 429), "{status}");
                }
            });
            together(crowd).await;
            let mut room = 0;
            for key in redis.keys().await {
                if bucket(&key, "weir").is_some() {
                    let usage = redis.try_call(&["MEMORY", "USAGE", &key]).await;
                    room += usage.map_or(0, |usage| usage.optional_number().unwrap_or(0));
                }
            }
            assert!(room <= 2_000, "{room} bytes after {round} rounds: {limit}");
        }
    }
}

#[tokio::test]
async fn one_limit_of_three_routes_is_one_set_of_buckets() {
    let redis = Redis::start().await;
    let backend = Backend::start();
    let route = |name: &str| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath = \"/{name}\"\nupstream = \"main\"\nlimits = [\"main\"]\n"
        )
    };
    let config = format!(
        "{}[limits.main]\nkey = \"all\"\nrate = \"1r/m\"\nburst = 3\nnodelay = true\n\
         [upstreams.main]\nurl = \"{}\"\n{}{}{}",
        redis.store(),
        backend.url(),
        route("a"),
        route("b"),
        route("c")
    );
    let weirs = [Weir::start(&config).await, Weir::start(&config).await];
    let mut statuses = Vec::new();
    for (number, path) in ["/a", "/b", "/c", "/a", "/b", "/c"].iter().enumerate() {
        statuses.push(weirs[number % 2].get(path).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    assert_eq!(buckets(&redis, "weir").await.len(), 1);
}

#[tokio::test]
async fn a_request_of_an_idle_key_costs_one_call() {
    for (limit, script) in [
        ("rate = \"1r/s\"\nburst = 5", "leaky_bucket"),
        ("rate = \"1r/s\"\nburst = 5\nnodelay = true", "token_bucket"),
    ] {
        let redis = Redis::start().await;
        let backend = Backend::start();
        let weirs = instances(&redis.store(), limit, &backend, 1).await;
        let series = format!("weir_store_call_seconds_count{{script=\"{script}\"}}");
        let before = weirs[0].metric(&series).await;
        let mut client = weirs[0].client().await;
        for key in 0..50 {
            let request = Request::get("/").with("X-Key", &key.to_string());
            assert_eq!(client.ask(&request).await.status, 200);
        }
        let calls = weirs[0].metric(&series).await - before;
        assert!((calls - 50.0).abs() < 1e-9, "{calls} calls of {script}");
    }
}
