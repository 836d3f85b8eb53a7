//! How do several weirs share buckets in a test?

use super::{Backend, Client, Request, Response, Weir, clients, ms, responses, until, upstream};

/// What instances are called, in their order.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The header in which the backend hears which instance forwarded a request.
pub(super) const INSTANCE: &str = "x-instance";

/// The config of an instance of this name: a limit `main` before everything, on
/// a key of its own where the client sends `X-Key`, else on one for all.
pub(crate) fn sharing(store: &str, limit: &str, backend: &Backend, name: &str) -> String {
    let headers = format!("set_headers = {{ {INSTANCE} = \"{name}\" }}");
    format!(
        "{store}[limits.main]\nkey = \"{{header.x-key|route}}\"\n{limit}\n{}",
        upstream(&headers, "limits = [\"main\"]", backend)
    )
}

/// So many instances, `a`, `b`, `c`, …, each of which knows of the others.
pub(crate) async fn instances(
    store: &str,
    limit: &str,
    backend: &Backend,
    count: usize,
) -> Vec<Weir> {
    let mut weirs = Vec::with_capacity(count);
    for name in NAMES.iter().take(count) {
        weirs.push(Weir::start(&sharing(store, limit, backend, name)).await);
    }
    know_each_other(&weirs).await;
    weirs
}

/// Waits until each of these sees that they are so many.
pub(crate) async fn know_each_other(weirs: &[Weir]) {
    let count = u32::try_from(weirs.len()).expect("few");
    for weir in weirs {
        weir.shows("weir_store_up", 1.0).await;
        weir.shows("weir_instances", f64::from(count)).await;
    }
}

/// Waits until so many wait in the limit `main` in all.
pub(crate) async fn have_waiting(weirs: &[Weir], count: u32) {
    until("places in the common line", async || {
        let mut waiting = 0.0;
        for weir in weirs {
            waiting += weir.metric("weir_waiting{limit=\"main\"}").await;
        }
        ((waiting - f64::from(count)).abs() < 1e-9)
            .then_some(())
            .ok_or_else(|| format!("{waiting} wait, not {count}"))
    })
    .await;
    // What has a place has it in Redis by the time of the next call at the latest.
    tokio::time::sleep(ms(20)).await;
}

/// So many who have sent a request each to this instance, in their order.
pub(crate) async fn come(weir: &Weir, count: usize, name: &str) -> Vec<Client> {
    let mut all = clients(weir, count).await;
    for (number, client) in all.iter_mut().enumerate() {
        let target = format!("/{name}{number}");
        client.send(Request::get(&target).bytes()).await;
    }
    all
}

/// So many who ask these instances at once, in turn.
pub(crate) async fn at_once(weirs: &[Weir], count: usize, key: &str) -> Vec<Response> {
    let mut all: Vec<Client> = Vec::new();
    for weir in weirs.iter().cycle().take(count) {
        all.push(weir.client().await);
    }
    for client in &mut all {
        client
            .send(Request::get("/").with("X-Key", key).bytes())
            .await;
    }
    responses(all).await
}
