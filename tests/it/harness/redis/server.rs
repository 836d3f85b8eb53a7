//! How does one `redis-server` run under a test?

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use socket2::Socket;
use tempfile::TempDir;

use super::super::running::Running;
use super::super::{Clock, reserved_port, until};
use super::{Caller, PATIENCE, Value};

/// A Redis that keeps nothing on disk.
#[derive(Debug)]
pub(crate) struct Redis {
    running: Running,
    args: Vec<String>,
    environment: Vec<(&'static str, OsString)>,
    caller: Caller,
    dir: TempDir,
    /// Keeps the port for this one, also while it is down.
    _reserved: Socket,
}

impl Redis {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// One with more to say on its command line.
    pub(crate) async fn with(args: &[&str]) -> Self {
        let redis = Self::begin(args);
        redis.is_ready().await;
        redis
    }

    /// One on a machine with this clock.
    pub(crate) async fn by_clock(clock: &Clock) -> Self {
        let redis = Self::set_up(&[], clock.environment().to_vec());
        redis.is_ready().await;
        redis
    }

    /// One that lets in whoever knows this password.
    pub(crate) async fn behind(password: &'static str) -> Self {
        let redis = Self::begin(&["--requirepass", password]).with_user(["default", password]);
        redis.is_ready().await;
        redis
    }

    /// One that may not be ready yet.
    pub(super) fn begin(args: &[&str]) -> Self {
        Self::set_up(args, Vec::new())
    }

    fn set_up(args: &[&str], environment: Vec<(&'static str, OsString)>) -> Self {
        let dir = TempDir::new().expect("a directory");
        let (reserved, address) = reserved_port();
        let port = address.port().to_string();
        let own = ["--port", &port, "--bind", "127.0.0.1", "--save", ""];
        let args: Vec<_> = own.iter().chain(args).map(ToString::to_string).collect();
        Self {
            running: spawn(dir.path(), &args, &environment),
            args,
            environment,
            caller: Caller::to(address),
            dir,
            _reserved: reserved,
        }
    }

    /// The same, to which the test speaks as this user.
    pub(super) fn with_user(mut self, user: [&'static str; 2]) -> Self {
        self.caller = self.caller.with_user(user);
        self
    }

    /// Waits until it answers.
    pub(super) async fn is_ready(&self) {
        until("redis answers", async || {
            let answer = self.try_call(&["PING"]).await;
            match answer {
                Ok(Value::Text(_pong)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.caller.address
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// What a config says so that buckets live here. A call may take its time: a
    /// machine busy with other tests is no outage.
    pub(crate) fn store(&self) -> String {
        self.prompt_store() + PATIENCE
    }

    /// The same, where a call that takes longer than by default is one.
    pub(crate) fn prompt_store(&self) -> String {
        store(&self.url())
    }

    /// The answer to a command.
    pub(crate) async fn call(&self, words: &[&str]) -> Value {
        self.caller.call(words).await
    }

    /// The same where Redis may be away or refuse.
    pub(crate) async fn try_call(&self, words: &[&str]) -> io::Result<Value> {
        self.caller.try_call(words).await
    }

    /// All keys there are.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let mut keys = self.call(&["KEYS", "*"]).await.texts();
        keys.sort();
        keys
    }

    /// A number that `INFO` names.
    pub(crate) async fn info(&self, name: &str) -> f64 {
        let info = self.call(&["INFO", "everything"]).await;
        let mut lines = info.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value
            .and_then(|value| value.parse().ok())
            .expect("a number in INFO")
    }

    /// Calls of scripts so far.
    pub(crate) async fn script_calls(&self) -> f64 {
        let info = self.call(&["INFO", "commandstats"]).await;
        let calls = info.text().lines().filter_map(|line| {
            let rest = line.strip_prefix("cmdstat_eval")?;
            let (_, rest) = rest.split_once("calls=")?;
            rest.split(',').next()?.parse::<f64>().ok()
        });
        calls.sum()
    }

    /// Stops the process where it stands; connections stay.
    pub(crate) fn stop(&self) {
        self.running.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.running.signal(Signal::CONT);
    }

    pub(crate) fn kill(&mut self) {
        self.running.kill();
    }

    /// Starts it again on its port, with nothing in it.
    pub(crate) async fn restart(&mut self) {
        self.running.kill();
        self.running = spawn(self.dir.path(), &self.args, &self.environment);
        self.is_ready().await;
    }
}

/// What a config says so that buckets live there.
pub(super) fn store(url: &str) -> String {
    format!("[store]\nkind = \"redis\"\nurl = \"{url}\"\n")
}

/// Starts a server in a directory of its own: the one that `WEIR_TEST_REDIS`
/// names, such as a Valkey, or `redis-server`.
pub(super) fn spawn(
    dir: &Path,
    args: &[impl AsRef<OsStr>],
    environment: &[(&'static str, OsString)],
) -> Running {
    let program = std::env::var_os("WEIR_TEST_REDIS");
    let child = Command::new(program.unwrap_or_else(|| "redis-server".into()))
        .args(args)
        .envs(environment.iter().cloned())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("redis-server is installed (tests/run does it)"))
}
