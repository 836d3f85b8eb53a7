//! Does the command line steer a running instance?

use crate::harness::{Backend, Request, Weir, one_limit, run};

#[tokio::test]
async fn a_limit_is_paused_resumed_and_purged_by_command() {
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/m\"\nburst = 9", &backend);
    let config = config.replace("\"all\"", "\"{query.k}\"");
    let weir = Weir::with("admin_token = \"t0ken\"", &config).await;
    let file = weir.config().display().to_string();
    let says = |words: &[&str]| {
        let ran = run(&[words, &["-c", &file]].concat(), None);
        assert!(ran.code == Some(0), "{words:?}: {}", ran.err);
        ran.out
    };
    // The file has no address: the instance took a free one.
    let listen = format!("admin = \"{}\"", weir.admin());
    weir.rewrite("admin = \"127.0.0.1:0\"", &listen);
    let paused = says(&["pause", "main", "a b", "--for", "10m"]);
    assert!(paused.contains("is paused for 10m"), "{paused}");
    let mut held = weir.client().await;
    held.send(Request::get("/?k=a+b").bytes()).await;
    weir.has_waiting(1).await;
    let status = says(&["status"]);
    let row = status.lines().find(|line| line.starts_with("main"));
    assert!(row.is_some_and(|row| row.contains("1r/m")), "{status}");
    let two = says(&["top", "-n", "2"]);
    let pictures = two.matches("\nlimit ").count();
    assert_eq!(pictures, 2, "{two}");
    assert!(
        two.contains("admitted/s") && two.contains("refused/s"),
        "{two}"
    );
    let purged = says(&["purge", "main", "a b"]);
    assert!(purged.contains("1 who waited"), "{purged}");
    assert_eq!(held.response().await.status, 503);
    assert!(says(&["resume", "main", "a b"]).contains("is not paused"));
    assert!(says(&["pause", "main"]).contains("is paused for 1h"));
    assert!(says(&["resume", "main"]).contains("is not paused"));
    weir.rewrite("burst = 9", "burst = 8");
    let reloaded = says(&["reload"]);
    assert!(
        reloaded.contains("changed: limits.main.burst"),
        "{reloaded}"
    );
}

#[tokio::test]
async fn what_an_instance_refuses_is_told() {
    let backend = Backend::start();
    let config = one_limit("rate = \"1r/m\"\nburst = 9", &backend);
    let weir = Weir::with("admin_token = \"t0ken\"", &config).await;
    let admin = format!("http://{}", weir.admin());
    for (words, why) in [
        (&["pause", "main"][..], "admin token is needed"),
        (&["reload"], "admin token is needed"),
    ] {
        let ran = run(&[words, &["--admin", &admin]].concat(), None);
        assert_eq!(ran.code, Some(1), "{words:?}");
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
    }
    let nobody = run(&["status", "--admin", "http://127.0.0.1:1"], None);
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.err.contains("no instance answers"), "{}", nobody.err);
}
