//! How do buckets spread over several masters?

use super::super::{reserved_port, until};
use super::{PATIENCE, Redis, Value};
use socket2::Socket;

/// All slots that keys fall into, a third for each master.
const THIRDS: [(&str, &str); 3] = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];

/// Three masters without replicas.
#[derive(Debug)]
pub(crate) struct Cluster {
    masters: Vec<Redis>,
    /// The ports on which they speak to each other.
    _buses: Vec<Socket>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let mut masters = Vec::new();
        let mut buses = Vec::new();
        for _ in THIRDS {
            let (kept, bus) = reserved_port();
            let bus = bus.port().to_string();
            let args = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            masters.push((Redis::with(&args).await, bus));
            buses.push(kept);
        }
        let (first, first_bus) = masters.first().expect("three masters");
        let first_port = first.address().port().to_string();
        for (epoch, ((master, _), (from, to))) in masters.iter().zip(THIRDS).enumerate() {
            let epoch = (epoch + 1).to_string();
            master.call(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
            master.call(&["CLUSTER", "ADDSLOTSRANGE", from, to]).await;
            let meet = ["CLUSTER", "MEET", "127.0.0.1", &first_port, first_bus];
            master.call(&meet).await;
        }
        let masters = masters.into_iter().map(|(master, _)| master).collect();
        let cluster = Self {
            masters,
            _buses: buses,
        };
        for master in &cluster.masters {
            until("a whole cluster", async || whole(master).await).await;
        }
        cluster
    }

    pub(crate) fn masters(&self) -> &[Redis] {
        &self.masters
    }

    /// What a config says so that buckets live here.
    pub(crate) fn store(&self) -> String {
        let urls: Vec<_> = self.masters.iter().map(Redis::url).collect();
        format!("[store]\nkind = \"redis\"\nurls = {urls:?}\ncluster = true\n{PATIENCE}")
    }
}

async fn whole(master: &Redis) -> Result<(), String> {
    let state = master.call(&["CLUSTER", "INFO"]).await;
    let slots = master.call(&["CLUSTER", "SLOTS"]).await;
    let known = matches!(&slots, Value::List(list) if list.len() == THIRDS.len());
    (state.text().contains("cluster_state:ok") && known)
        .then_some(())
        .ok_or_else(|| state.text().to_owned())
}
