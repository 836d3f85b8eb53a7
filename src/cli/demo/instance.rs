//! How does weir get in front of the backend?

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use tokio::sync::oneshot;

use super::act::Limit;
use crate::config;
use crate::server::run;

/// Starts weir, as it always runs, on a thread and on ports that are free. It
/// ends with the program.
pub(super) async fn begin(limit: Limit, backend: SocketAddr) -> anyhow::Result<SocketAddr> {
    let read = move || {
        let text = text(limit, backend);
        config::parse(&text, Path::new("demo.toml"), &|_unset| None)
    };
    let config = read()?;
    let (tell, address) = oneshot::channel();
    let weir = std::thread::Builder::new()
        .name("weir".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(run(
                &config,
                read,
                std::future::pending,
                |listen, _admin| {
                    // Whoever interrupted the demo no longer asks.
                    let _gone = tell.send(listen);
                },
            ))
        })?;
    if let Ok(address) = address.await {
        return Ok(address);
    }
    match weir.join() {
        Ok(ended) => ended.map(|_ended| ()).context("weir did not begin")?,
        Err(_panicked) => anyhow::bail!("weir did not begin"),
    }
    anyhow::bail!("weir ended at once")
}

/// The config: a route whose burst waits, one whose burst passes, and a free one.
fn text(limit: Limit, backend: SocketAddr) -> String {
    let Limit { rate, burst } = limit;
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
threads = 1
[log]
access = false
[limits.shaped]
key = "all"
rate = "{rate}r/s"
burst = {burst}
[limits.nodelay]
key = "all"
rate = "{rate}r/s"
burst = {burst}
nodelay = true
[upstreams.backend]
url = "http://{backend}"
[[routes]]
path = "/"
upstream = "backend"
[[routes]]
path = "/shaped"
upstream = "backend"
limits = ["shaped"]
[[routes]]
path = "/nodelay"
upstream = "backend"
limits = ["nodelay"]
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_of_the_demo_is_sound() {
        let limit = Limit { rate: 5, burst: 20 };
        let text = text(limit, SocketAddr::from(([127, 0, 0, 1], 8_000)));
        let config = config::parse(&text, Path::new("demo.toml"), &|_unset| None);
        let config = config.expect("sound");
        assert_eq!(config::warnings(&config), []);
    }
}
