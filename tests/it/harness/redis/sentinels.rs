//! Who takes over when a master is gone?

use socket2::Socket;
use tempfile::TempDir;

use super::super::running::Running;
use super::super::{reserved_port, until};
use super::server::spawn;
use super::{Caller, PATIENCE, Redis, Value};

/// The name under which sentinels know the master.
const NAME: &str = "mymaster";

/// A master, its replica, and three sentinels that look after them.
#[derive(Debug)]
pub(crate) struct Sentinels {
    master: Redis,
    replica: Redis,
    watchers: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    caller: Caller,
    _running: Running,
    _reserved: Socket,
    _dir: TempDir,
}

impl Sentinels {
    pub(crate) async fn start() -> Self {
        let quick = [
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
        ];
        let master = Redis::with(&quick).await;
        let port = master.address().port().to_string();
        let replica = [&quick[..], &["--replicaof", "127.0.0.1", &port]].concat();
        let replica = Redis::with(&replica).await;
        until("a replica in step", async || {
            let state = replica.call(&["INFO", "replication"]).await;
            let in_step = state.text().contains("master_link_status:up");
            in_step.then_some(()).ok_or_else(|| state.text().to_owned())
        })
        .await;
        let watchers: Vec<_> = (0..3).map(|_| Sentinel::start(&port)).collect();
        let all = Self {
            master,
            replica,
            watchers,
        };
        for sentinel in &all.watchers {
            until("a sentinel that knows all", async || {
                sentinel.knows_all().await
            })
            .await;
        }
        all
    }

    /// The one that was the master first.
    pub(crate) const fn first(&mut self) -> &mut Redis {
        &mut self.master
    }

    /// The one that was its replica.
    pub(crate) const fn second(&self) -> &Redis {
        &self.replica
    }

    /// What a config says so that buckets live with whoever is the master.
    pub(crate) fn store(&self) -> String {
        let urls = self.watchers.iter();
        let urls: Vec<_> = urls
            .map(|it| format!("redis://{}", it.caller.address))
            .collect();
        format!("[store]\nkind = \"redis\"\nurls = {urls:?}\nsentinel = \"{NAME}\"\n{PATIENCE}")
    }

    /// Waits until the replica is the master, for the sentinels as well.
    pub(crate) async fn have_failed_over(&self) {
        let port = self.replica.address().port().to_string();
        until("a failover", async || {
            for sentinel in &self.watchers {
                let master = sentinel
                    .call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])
                    .await?;
                let chosen = master == Value::List(vec![text("127.0.0.1"), text(&port)]);
                chosen.then_some(()).ok_or_else(|| format!("{master:?}"))?;
            }
            let role = self.replica.call(&["ROLE"]).await;
            let leads = role.list().first() == Some(&text("master"));
            leads.then_some(()).ok_or_else(|| format!("{role:?}"))
        })
        .await;
    }
}

impl Sentinel {
    fn start(master_port: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let (reserved, address) = reserved_port();
        let conf = format!(
            "port {}\nbind 127.0.0.1\n\
             sentinel monitor {NAME} 127.0.0.1 {master_port} 2\n\
             sentinel down-after-milliseconds {NAME} 700\n\
             sentinel failover-timeout {NAME} 3000\n",
            address.port()
        );
        let path = dir.path().join("sentinel.conf");
        std::fs::write(&path, conf).expect("a config");
        Self {
            caller: Caller::to(address),
            _running: spawn(dir.path(), &[path.as_os_str(), "--sentinel".as_ref()], &[]),
            _reserved: reserved,
            _dir: dir,
        }
    }

    async fn call(&self, words: &[&str]) -> Result<Value, String> {
        let answer = self.caller.try_call(words).await;
        answer.map_err(|fault| fault.to_string())
    }

    /// Whether it sees the replica and both other sentinels, as a failover needs.
    async fn knows_all(&self) -> Result<(), String> {
        let state = self.call(&["INFO", "sentinel"]).await?;
        let state = match &state {
            Value::Text(text) => text.as_str(),
            _ => return Err(format!("{state:?}")),
        };
        state
            .contains("status=ok")
            .then_some(())
            .filter(|()| state.contains("slaves=1,sentinels=3"))
            .ok_or_else(|| state.to_owned())
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
