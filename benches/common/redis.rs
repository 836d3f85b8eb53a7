//! How is the Redis started, ended and asked that the instances share?

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo as _};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::ground::free_address;

const LONGEST_START: Duration = Duration::from_secs(10);

/// A `redis-server` of its own, killed when dropped.
#[derive(Debug)]
pub(crate) struct Redis {
    pub(crate) address: SocketAddr,
    child: Child,
    folder: TempDir,
}

impl Redis {
    /// Returns once it answers.
    pub(crate) async fn start() -> Result<Self> {
        let address = free_address()?;
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let child = spawn(address, &folder)?;
        let redis = Self {
            address,
            child,
            folder,
        };
        redis.answers().await?;
        Ok(redis)
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill Redis")?;
        self.child.wait().context("see Redis end")?;
        Ok(())
    }

    /// On the same port, with nothing in it.
    pub(crate) async fn start_again(&mut self) -> Result<()> {
        self.child = spawn(self.address, &self.folder)?;
        self.answers().await
    }

    /// Stops it (`Signal::STOP`) or lets it go on (`Signal::CONT`).
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("signal Redis")
    }

    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection> {
        let url = format!("redis://{}", self.address);
        let server = url.into_connection_info().context("Redis's address")?;
        let server = server.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(server).context("Redis's address")?;
        let connection = client.get_multiplexed_async_connection().await;
        connection.context("connect to Redis")
    }

    /// User and system time of the process, as it counts it itself.
    pub(crate) async fn cpu(&self) -> Result<Duration> {
        let text = self.section("cpu").await?;
        let mut seconds = 0.0;
        for name in ["used_cpu_user:", "used_cpu_sys:"] {
            let found = text.lines().find_map(|line| line.strip_prefix(name));
            let found = found.with_context(|| format!("Redis says no {name}"))?;
            seconds += found.trim().parse::<f64>().context("Redis's CPU time")?;
        }
        Ok(Duration::from_secs_f64(seconds))
    }

    /// How many scripts clients have had run.
    pub(crate) async fn calls(&self) -> Result<u64> {
        let text = self.section("commandstats").await?;
        let mut sum = 0;
        for name in ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="] {
            let found = text.lines().find_map(|line| line.strip_prefix(name));
            let calls = found.and_then(|line| line.split(',').next()).unwrap_or("0");
            sum += calls.parse::<u64>().context("Redis's count of calls")?;
        }
        Ok(sum)
    }

    async fn section(&self, name: &str) -> Result<String> {
        let mut connection = self.connect().await?;
        let mut command = redis::cmd("INFO");
        let text = command.arg(name).query_async(&mut connection).await;
        text.context("ask Redis for its figures")
    }

    async fn answers(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Ok(mut connection) = self.connect().await
                && redis::cmd("PING").exec_async(&mut connection).await.is_ok()
            {
                return Ok(());
            }
            ensure!(begun.elapsed() < LONGEST_START, "Redis didn't answer");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

fn spawn(address: SocketAddr, folder: &TempDir) -> Result<Child> {
    let log = File::create(folder.path().join("log")).context("create Redis's log")?;
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--port", &address.port().to_string(), "--dir"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(log)
        .spawn()
        .context("start redis-server (`apt-get install redis-server`)")
}
