//! How is each proxy set up with a given limit, started and stopped?

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::ground::free_address;
use crate::procfs::Tree;
use crate::wire::{Connection, GET};

const LONGEST_START: Duration = Duration::from_secs(10);

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Weir,
    Nginx,
    /// Where nobody waits: it has no line that drains at a rate.
    HaProxy,
}

/// The limit that the proxies are given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) key: Key,
    /// As both write it: `100r/s`.
    pub(crate) rate: &'static str,
    pub(crate) burst: u32,
    pub(crate) nodelay: bool,
    /// Threads or workers.
    pub(crate) threads: u32,
}

/// What requests are counted under.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Address,
    /// The header `X-Key`.
    Header,
}

/// A running proxy, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) product: Product,
    pub(crate) address: SocketAddr,
    /// All its processes.
    pub(crate) tree: Tree,
    child: Child,
    _folder: TempDir,
}

impl Proxy {
    /// Returns once the proxy has forwarded a first request.
    pub(crate) async fn start(
        product: Product,
        binary: &Path,
        limit: &Limit,
        backend: SocketAddr,
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let address = free_address()?;
        let config = match product {
            Product::Weir => weir_config(limit, address, free_address()?, backend),
            Product::Nginx => nginx_config(limit, address, backend, folder.path())?,
            Product::HaProxy => haproxy_config(limit, address, backend),
        };
        let path = folder.path().join("config");
        fs::write(&path, config).context("write the proxy's config")?;
        let log_path = folder.path().join("log");
        let log = File::create(&log_path).context("create the proxy's log")?;
        let mut command = Command::new(binary);
        match product {
            Product::Weir => {
                command.args([OsStr::new("serve"), OsStr::new("-c"), path.as_os_str()])
            }
            Product::Nginx => command.arg("-p").arg(folder.path()).arg("-c").arg(&path),
            Product::HaProxy => command.arg("-db").arg("-f").arg(&path),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the proxy's log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut proxy = Self {
            product,
            address,
            tree: Tree::default(),
            child,
            _folder: folder,
        };
        if let Err(error) = proxy.serve_a_first_request().await {
            let log = fs::read_to_string(&log_path).unwrap_or_default();
            return Err(error.context(format!("{} said:\n{log}", binary.display())));
        }
        proxy.tree = Tree::of(proxy.child.id())?;
        Ok(proxy)
    }

    async fn serve_a_first_request(&mut self) -> Result<()> {
        let begun = Instant::now();
        let mut connection = loop {
            if let Ok(connection) = Connection::open(self.address).await {
                break connection;
            }
            if let Some(status) = self.child.try_wait().context("look after the proxy")? {
                bail!("the proxy ended at once: {status}");
            }
            ensure!(begun.elapsed() < LONGEST_START, "the proxy didn't listen");
            sleep(Duration::from_millis(10)).await;
        };
        let status = connection.ask(GET).await?;
        ensure!(
            status == 200,
            "the first request was answered with {status}"
        );
        Ok(())
    }
}

impl Drop for Proxy {
    /// NGINX's master ends its workers when asked to; killed, it would leave them behind. The
    /// others are one process each; weir would wait for those in line when asked.
    fn drop(&mut self) {
        let asked = match self.product {
            Product::Weir | Product::HaProxy => self.child.kill(),
            Product::Nginx => kill_process(Pid::from_child(&self.child), Signal::TERM)
                .map_err(std::io::Error::from),
        };
        if asked.is_ok() {
            drop(self.child.wait());
        }
    }
}

/// Where requests to weir wait in a line that hardly moves.
pub(crate) const SLOW: &str = "/slow";

fn weir_config(limit: &Limit, at: SocketAddr, admin: SocketAddr, backend: SocketAddr) -> String {
    let Limit {
        rate,
        burst,
        nodelay,
        threads,
        ..
    } = limit;
    let key = match limit.key {
        Key::Address => "{ip}",
        Key::Header => "{header.x-key}",
    };
    format!(
        r#"[server]
listen = "{at}"
admin = "{admin}"
threads = {threads}
max_connections = 40000
max_waiting = 40000
max_keys = 2000000

[log]
access = false

[upstreams.backend]
url = "http://{backend}"

[limits.bench]
key = "{key}"
rate = "{rate}"
burst = {burst}
nodelay = {nodelay}

[limits.slow]
key = "all"
rate = "1r/m"
burst = 40000

[[routes]]
path = "/"
upstream = "backend"
limits = ["bench"]

[[routes]]
path = "{SLOW}"
upstream = "backend"
limits = ["slow"]
"#
    )
}

fn nginx_config(
    limit: &Limit,
    at: SocketAddr,
    backend: SocketAddr,
    folder: &Path,
) -> Result<String> {
    let Limit {
        rate,
        burst,
        threads,
        ..
    } = limit;
    let key = match limit.key {
        Key::Address => "$binary_remote_addr",
        Key::Header => "$http_x_key",
    };
    // It refuses `burst=0`.
    let burst = match burst {
        0 => String::new(),
        places => format!(" burst={places}"),
    };
    let nodelay = if limit.nodelay { " nodelay" } else { "" };
    // Its temporary folders are never written to here, but made on start.
    let mut folders = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let path = folder.join(kind);
        writeln!(folders, "    {kind}_temp_path {};", path.display())?;
    }
    // Delayed requests are logged as warnings, which would cost it time.
    Ok(format!(
        "daemon off;
master_process on;
worker_processes {threads};
worker_rlimit_nofile 20000;
pid {pid};
error_log stderr crit;
events {{
    worker_connections 20000;
}}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
{folders}
    limit_req_zone {key} zone=bench:256m rate={rate};
    upstream backend {{
        server {backend};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {at} backlog=4096 reuseport;
        location / {{
            limit_req zone=bench{burst}{nodelay};
            proxy_pass http://backend;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }}
    }}
}}
",
        pid = folder.join("pid").display(),
    ))
}

/// A limit that counts requests in the last second: what comes nearest.
fn haproxy_config(limit: &Limit, at: SocketAddr, backend: SocketAddr) -> String {
    let Limit { burst, threads, .. } = limit;
    let key = match limit.key {
        Key::Address => "src",
        Key::Header => "req.hdr(x-key)",
    };
    format!(
        "global
    nbthread {threads}
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1m
    timeout http-keep-alive 1h
    http-reuse always
frontend bench
    bind {at} shards by-thread
    stick-table type string len 40 size 2m expire 1h store http_req_rate(1s)
    http-request track-sc0 {key}
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {burst} }}
    default_backend backend
backend backend
    server one {backend}
"
    )
}

/// The NGINX to compare with: `NGINX_BIN`, or the first on the path and where Debian puts it.
pub(crate) fn find_nginx() -> Result<PathBuf> {
    find("nginx", "NGINX_BIN").context(
        "no nginx found: install one (`apt-get install nginx-light`) or name it in NGINX_BIN",
    )
}

/// The same for HAProxy, without which the others are compared.
pub(crate) fn find_haproxy() -> Option<PathBuf> {
    find("haproxy", "HAPROXY_BIN")
}

fn find(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|folder| folder.join(name))
        .find(|binary| binary.is_file())
}
