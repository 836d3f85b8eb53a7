//! Does weir do what an NGINX config said, once that is imported?

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::{Backend, Ran, Request, Weir, calmly, clients, ms, responses, run};

/// How much later than due a request may leave on a machine that has more to do.
const LATE: Duration = ms(30);

/// Imports `nginx.conf` in a folder.
fn import(folder: &TempDir, nginx: &str, more: &[&str]) -> Ran {
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, nginx).expect("a file");
    let file = file.to_str().expect("text");
    run(&[&["import", "nginx", file], more].concat(), None)
}

fn nginx(backend: &Backend) -> String {
    let server = backend.url().replace("http://", "");
    format!(
        "events {{ }}
http {{
    limit_req_zone $binary_remote_addr zone=main:1m rate=20r/s;
    upstream app {{ server {server}; }}
    server {{
        listen 8080;
        gzip on;
        location /api/ {{ limit_req zone=main burst=5; proxy_pass http://app/v1/; }}
        location = /health {{ return 200 \"well\"; }}
        location /secret/ {{ deny all; }}
    }}
}}
"
    )
}

#[tokio::test]
async fn six_requests_leave_as_the_nginx_config_said_and_the_seventh_is_refused() {
    calmly("seven at once", async || {
        let backend = Backend::start();
        let folder = TempDir::new().expect("a folder");
        let ran = import(&folder, &nginx(&backend), &[]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let (_, tables) = ran.out.split_once("\n[limits.").expect("a limit");
        let weir = Weir::start(&format!("[limits.{tables}")).await;
        let mut all = clients(&weir, 7).await;
        let begun = Instant::now();
        for (index, client) in all.iter_mut().enumerate() {
            let target = format!("/api/{index}");
            client.send(Request::get(&target).bytes()).await;
        }
        let mut statuses: Vec<_> = responses(all).await.iter().map(|it| it.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 503]);
        assert!(
            backend.targets().iter().all(|it| it.starts_with("/v1/")),
            "{:?}",
            backend.targets()
        );
        let health = weir.get("/health").await;
        assert_eq!((health.status, health.text()), (200, "well"));
        assert_eq!(weir.get("/secret/x").await.status, 403);
        let arrivals = backend.arrivals(begun);
        let grid = || (0_u32..).map(|slot| ms(50) * slot).zip(&arrivals);
        assert!(grid().all(|(due, at)| *at >= due), "early: {arrivals:?}");
        if grid().all(|(due, at)| *at < due + LATE) {
            return Ok(());
        }
        Err(format!("{arrivals:?}"))
    })
    .await;
}

#[test]
fn what_did_not_come_along_is_told_beside_the_config() {
    let folder = TempDir::new().expect("a folder");
    let backend = Backend::start();
    let printed = import(&folder, &nginx(&backend), &[]);
    assert!(
        printed.err.contains("nginx.conf:7: gzip on: left out: "),
        "{}",
        printed.err
    );
    let path = folder.path().join("weir.toml");
    let written = import(
        &folder,
        &nginx(&backend),
        &["-o", path.to_str().expect("text")],
    );
    assert_eq!((written.code, &*written.out), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), printed.out);
    let ran = run(&["check"], Some(&printed.out));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

#[test]
fn a_fault_in_the_nginx_config_is_told_with_its_place() {
    let folder = TempDir::new().expect("a folder");
    let ran = import(&folder, "http {\n  limit_req_zone a\n}\n", &[]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    let place = folder.path().join("nginx.conf");
    let fault = format!(
        "weir: {}:3:1: `}}` before `limit_req_zone`",
        place.display()
    );
    assert!(ran.err.starts_with(&fault), "{}", ran.err);
    let missing = run(&["import", "nginx", "/nonexistent/nginx.conf"], None);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.err.contains("/nonexistent/nginx.conf"),
        "{}",
        missing.err
    );
}
