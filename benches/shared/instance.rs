//! How is an instance set up, started, stopped for a while and ended?

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::ground::free_address;
use crate::wire::{Connection, GET};

const LONGEST_START: Duration = Duration::from_secs(10);

/// What an instance of weir is told; requests are counted under the header `X-Key`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Where Redis is; `None`: buckets live in memory.
    pub(crate) redis: Option<SocketAddr>,
    /// How long a call may take.
    pub(crate) timeout: &'static str,
    pub(crate) rate: &'static str,
    pub(crate) burst: u32,
}

/// A process that takes requests and lets them go to the backend, killed when dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) address: SocketAddr,
    admin: Option<SocketAddr>,
    child: Child,
    _folder: TempDir,
}

impl Instance {
    /// A weir that has forwarded a first request.
    pub(crate) async fn weir(
        binary: &Path,
        setting: &Setting,
        backend: SocketAddr,
    ) -> Result<Self> {
        let (address, admin) = (free_address()?, free_address()?);
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let path = folder.path().join("weir.toml");
        fs::write(&path, config(setting, address, admin, backend)).context("write a config")?;
        let mut command = Command::new(binary);
        command.args(["serve", "-c"]).arg(&path);
        Self::start(command, address, Some(admin), folder).await
    }

    /// Whatever `command` starts, once it has forwarded a first request.
    pub(crate) async fn start(
        mut command: Command,
        address: SocketAddr,
        admin: Option<SocketAddr>,
        folder: TempDir,
    ) -> Result<Self> {
        let log_path = folder.path().join("log");
        let log = File::create(&log_path).context("create an instance's log")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share an instance's log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        let mut instance = Self {
            address,
            admin,
            child,
            _folder: folder,
        };
        if let Err(error) = instance.serve_a_first_request().await {
            let log = fs::read_to_string(&log_path).unwrap_or_default();
            return Err(error.context(format!("an instance said:\n{log}")));
        }
        Ok(instance)
    }

    /// Stops it (`Signal::STOP`), lets it go on (`Signal::CONT`) or ends it (`Signal::KILL`).
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("signal an instance")
    }

    /// A figure of weir's metrics page, 0 where it isn't there yet.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let admin = self.admin.context("an instance without metrics")?;
        let mut stream = TcpStream::connect(admin).await.context("ask for metrics")?;
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
        let asked = stream.write_all(request.as_bytes()).await;
        asked.context("ask for metrics")?;
        let mut page = String::new();
        let read = stream.read_to_string(&mut page).await;
        read.context("read metrics")?;
        ensure!(page.starts_with("HTTP/1.1 200 "), "no metrics: {page}");
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.map_or(Ok(0.0), |figure| figure.trim().parse());
        figure.with_context(|| format!("{name} is no number"))
    }

    /// Waits until a figure is what it should be.
    pub(crate) async fn shows(&self, name: &str, wanted: f64) -> Result<()> {
        let begun = Instant::now();
        while (self.metric(name).await? - wanted).abs() > 1e-9 {
            ensure!(
                begun.elapsed() < LONGEST_START,
                "{name} didn't come to {wanted}"
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn serve_a_first_request(&mut self) -> Result<()> {
        let begun = Instant::now();
        let mut connection = loop {
            if let Ok(connection) = Connection::open(self.address).await {
                break connection;
            }
            if let Some(status) = self.child.try_wait().context("look after an instance")? {
                bail!("it ended at once: {status}");
            }
            ensure!(begun.elapsed() < LONGEST_START, "it didn't listen");
            sleep(Duration::from_millis(10)).await;
        };
        let status = connection.ask(GET).await?;
        ensure!(status == 200, "its first answer was {status}");
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

fn config(setting: &Setting, at: SocketAddr, admin: SocketAddr, backend: SocketAddr) -> String {
    let Setting {
        redis,
        timeout,
        rate,
        burst,
    } = setting;
    let mut store = String::new();
    if let Some(redis) = redis {
        let written = write!(
            store,
            "[store]\nkind = \"redis\"\nurl = \"redis://{redis}\"\ntimeout = \"{timeout}\"\n\
             on_failure = \"local\"\n"
        );
        written.expect("a string takes all that is written to it");
    }
    format!(
        r#"{store}
[server]
listen = "{at}"
admin = "{admin}"
max_connections = 20000

[log]
access = false

[upstreams.backend]
url = "http://{backend}"

[limits.bench]
key = "{{header.x-key}}"
rate = "{rate}"
burst = {burst}

[[routes]]
path = "/"
upstream = "backend"
limits = ["bench"]
"#
    )
}
