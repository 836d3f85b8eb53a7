//! How does the real program run under a test?

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::process::Signal;
use tempfile::TempDir;

use super::running::Running;
use super::{Backend, Client, Clock, Metrics, Request, Response, until};

/// What a config says where the test doesn't: two threads, on free ports.
const SERVER: &str = "[server]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n";

/// A weir in a process of its own, killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Weir {
    child: Running,
    out: Arc<Mutex<Vec<String>>>,
    err: Arc<Mutex<Vec<String>>>,
    listen: SocketAddr,
    admin: SocketAddr,
    dir: TempDir,
}

impl Weir {
    /// Starts one with two threads. `config` is what follows `[server]`.
    pub(crate) async fn start(config: &str) -> Self {
        Self::with("", config).await
    }

    /// The same, with more to say in `[server]`.
    pub(crate) async fn with(server: &str, config: &str) -> Self {
        Self::beside(&[], server, config).await
    }

    /// The same, with files beside the config.
    pub(crate) async fn beside(files: &[(&str, &str)], server: &str, config: &str) -> Self {
        Self::begin(files, server, config, &[]).await
    }

    /// One with variables in its environment.
    pub(crate) async fn knowing(
        environment: &[(&'static str, &str)],
        server: &str,
        config: &str,
    ) -> Self {
        let owned = |(name, value): &(&'static str, &str)| (*name, OsString::from(value));
        let environment: Vec<_> = environment.iter().map(owned).collect();
        Self::begin(&[], server, config, &environment).await
    }

    /// One on a machine with this clock.
    pub(crate) async fn by_clock(clock: &Clock, config: &str) -> Self {
        Self::begin(&[], "", config, &clock.environment()).await
    }

    async fn begin(
        files: &[(&str, &str)],
        server: &str,
        config: &str,
        environment: &[(&'static str, OsString)],
    ) -> Self {
        let dir = TempDir::new().expect("a directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("a file");
        }
        let threads = if server.contains("threads") {
            ""
        } else {
            "threads = 2\n"
        };
        let log = if config.contains("[log]") {
            ""
        } else {
            "[log]\naccess = false\n"
        };
        let store = if config.contains("[store]") {
            String::new()
        } else {
            default_store()
        };
        let text = format!("{SERVER}{threads}{server}\n{log}{store}{config}");
        let path = dir.path().join("weir.toml");
        std::fs::write(&path, &text).expect("a config");
        let mut command = command(&path, &["serve"]);
        command.envs(environment.iter().cloned());
        let mut child = Running(command.spawn().expect("a process"));
        let out = lines(child.0.stdout.take());
        let err = lines(child.0.stderr.take());
        let mut addresses = None;
        until("weir begins", async || {
            addresses = out.lock().iter().find_map(|line| begun(line));
            if addresses.is_some() {
                return Ok(());
            }
            let ended = child.0.try_wait().expect("a process");
            assert!(
                ended.is_none(),
                "weir ended: {:?} with\n{text}",
                err.lock().join("\n")
            );
            Err(out.lock().join("\n"))
        })
        .await;
        let (listen, admin) = addresses.expect("two addresses");
        Self {
            child,
            out,
            err,
            listen,
            admin,
            dir,
        }
    }

    /// Changes a file beside its config.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("a file");
    }

    /// Changes its config file; it doesn't know yet.
    pub(crate) fn rewrite(&self, from: &str, to: &str) {
        let path = self.dir.path().join("weir.toml");
        let text = std::fs::read_to_string(&path).expect("a config");
        assert!(text.contains(from), "{from} is not in\n{text}");
        std::fs::write(&path, text.replace(from, to)).expect("a config");
    }

    /// Where requests come in.
    pub(crate) const fn listen(&self) -> SocketAddr {
        self.listen
    }

    pub(crate) const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// A connection to it.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.listen).await
    }

    /// The answer to one request on a connection of its own.
    pub(crate) async fn get(&self, target: &str) -> Response {
        self.client().await.get(target).await
    }

    /// A page of the admin listener.
    pub(crate) async fn page(&self, path: &str) -> Response {
        // This listener answers to its own names only.
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut client = Client::connect(self.admin).await;
        client.send(request).await;
        client.response().await
    }

    /// What the admin listener answers to a request, as bytes have it.
    pub(crate) async fn admin_says(&self, request: &Request) -> Response {
        Client::connect(self.admin).await.ask(request).await
    }

    /// What the API answers to somebody on the same machine.
    pub(crate) async fn api(&self, method: &str, path: &str) -> Response {
        let host = self.admin.to_string();
        self.admin_says(&Request::to(&host, method, path)).await
    }

    /// Where its config is.
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.path().join("weir.toml")
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.child.0.id());
        std::fs::read_dir(folder)
            .expect("a running process")
            .count()
    }

    pub(crate) async fn metrics(&self) -> Metrics {
        let page = self.page("/metrics").await;
        assert_eq!(page.status, 200);
        Metrics::parse(page.text())
    }

    /// The value of one series.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        self.metrics().await.value(series)
    }

    /// The sum of all series of a name.
    pub(crate) async fn metric_sum(&self, name: &str) -> f64 {
        self.metrics().await.sum(name)
    }

    /// Waits until a series has this value.
    pub(crate) async fn shows(&self, series: &str, wanted: f64) {
        until(series, async || {
            let value = self.metric(series).await;
            ((value - wanted).abs() < 1e-9)
                .then_some(())
                .ok_or_else(|| format!("{value}, not {wanted}"))
        })
        .await;
    }

    /// Waits until a counter has come as far: it may have gone on.
    pub(crate) async fn reaches(&self, series: &str, wanted: f64) {
        until(series, async || {
            let value = self.metric(series).await;
            (value >= wanted)
                .then_some(())
                .ok_or_else(|| format!("{value}, not {wanted}"))
        })
        .await;
    }

    /// Waits until so many wait in the limit `main`.
    pub(crate) async fn has_waiting(&self, count: u32) {
        self.shows("weir_waiting{limit=\"main\"}", f64::from(count))
            .await;
    }

    /// Waits until so many are admitted: they wait in some line, or have reached
    /// the backend.
    pub(crate) async fn has_admitted(&self, backend: &Backend, count: usize) {
        until("places in line", async || {
            // In this order whoever moves on meanwhile is missed, not counted twice.
            let seen = f64::from(u32::try_from(backend.seen().len()).expect("few"));
            let waiting = self.metrics().await.sum("weir_waiting");
            let wanted = f64::from(u32::try_from(count).expect("few"));
            (waiting + seen >= wanted)
                .then_some(())
                .ok_or_else(|| format!("{waiting} wait and {seen} came, not {count}"))
        })
        .await;
    }

    /// Waits until clients have so many connections open.
    pub(crate) async fn has_connections(&self, count: u32) {
        self.shows("weir_connections{listener=\"requests\"}", f64::from(count))
            .await;
    }

    /// All that it wrote so far.
    pub(crate) fn said(&self) -> String {
        [self.out.lock().join("\n"), self.err.lock().join("\n")].join("\n")
    }

    /// What it wrote to standard output so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.out.lock().clone()
    }

    /// The memory that it has in use, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.0.id());
        let status = std::fs::read_to_string(status).expect("a running process");
        let anonymous = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = anonymous.and_then(|rest| rest.split_whitespace().next());
        kib.and_then(|kib| kib.parse().ok()).expect("a size")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    /// Waits until it has ended, and says with which code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let child = &mut self.child;
        let mut code = None;
        until("weir ends", async || {
            let ended = child.0.try_wait().expect("a process");
            code = ended.and_then(|status| status.code());
            ended.map(drop).ok_or_else(|| "it runs".to_owned())
        })
        .await;
        code
    }

    /// Whether it is still there.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.0.try_wait().expect("a process").is_none()
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let err = self.err.lock();
        if std::thread::panicking() && !err.is_empty() {
            let said = format!("weir said: {}\n", err.join("\n"));
            // A panic in weir belongs to what the test says of its own.
            let _unheard = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
        }
    }
}

/// What a config says of its store where the test says nothing. With a URL in
/// `WEIR_TEST_STORE` buckets live there, for each weir under names of its own:
/// the same tests then show that a lone instance on Redis does what one does
/// that keeps its buckets in memory.
fn default_store() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let Ok(url) = std::env::var("WEIR_TEST_STORE") else {
        return String::new();
    };
    let (id, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    format!("[store]\nkind = \"redis\"\nurl = \"{url}\"\nprefix = \"t{id}-{number}\"\n")
}

/// How a command went.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    /// Where its config was, or would have been.
    pub(crate) config: String,
}

/// Runs weir to its end, in a directory with nothing but a config.
pub(crate) fn run(command_line: &[&str], config: Option<&str>) -> Ran {
    run_knowing(&[], command_line, config)
}

/// The same, with variables in its environment.
pub(crate) fn run_knowing(
    environment: &[(&str, &str)],
    command_line: &[&str],
    config: Option<&str>,
) -> Ran {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("weir.toml");
    if let Some(config) = config {
        std::fs::write(&path, config).expect("a config");
    }
    let mut command = command(&path, command_line);
    let output = command.envs(environment.iter().copied()).output();
    let output = output.expect("a process");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ran {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
        config: path.display().to_string(),
    }
}

fn command(config: &Path, command_line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(command_line);
    if matches!(command_line, ["serve" | "check"] | ["explain", ..]) {
        command.arg("-c").arg(config);
    }
    command
        .env_remove("WEIR_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Gathers what a process writes, on a thread that ends with it.
fn lines(pipe: Option<impl Read + Send + 'static>) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let gathered = Arc::clone(&lines);
    let pipe = BufReader::new(pipe.expect("a pipe"));
    std::thread::spawn(move || {
        for line in pipe.lines().map_while(Result::ok) {
            gathered.lock().push(line);
        }
    });
    lines
}

/// The two addresses in the line with which weir begins.
fn begun(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (_, rest) = line.split_once("listens on http")?;
    let (_, rest) = rest.split_once("://")?;
    let (listen, rest) = rest.split_once(", admin on http://")?;
    let admin = rest.split([' ', '"', '\\']).next()?;
    Some((listen.parse().ok()?, admin.parse().ok()?))
}
