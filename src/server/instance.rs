//! What goes on when the config changes?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tracing::error;

use super::assemble::assemble;
use crate::bucket::{Crowd, SlotTimer};
use crate::config::Config;
use crate::forward::{Clients, TargetKind, TlsError, probe};
use crate::key::KeyHasher;
use crate::metrics::{Metrics, Reason};
use crate::proxy::{App, Edition, Upstream, Worker};
use crate::store::Room;
use crate::units::Clock;

/// What every config of an instance shares.
#[derive(Debug)]
pub(super) struct Estate {
    pub(super) metrics: Arc<Metrics>,
    pub(super) room: Arc<Room>,
    pub(super) crowd: Arc<Crowd>,
    pub(super) clock: Clock,
    /// Another secret would give all buckets other names: their debts forgotten.
    pub(super) hasher: KeyHasher,
    pub(super) closed: Arc<AtomicBool>,
}

/// A running weir, whichever config it has.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) estate: Estate,
    pub(super) app: Arc<ArcSwap<App>>,
    pub(super) workers: Vec<Arc<Worker>>,
    /// Held to exchange the probes, never across an await.
    probes: Mutex<Vec<AbortHandle>>,
}

impl Instance {
    /// An instance as its first config has it.
    pub(super) fn new(config: &Config, clock: Clock) -> Result<Self, super::ServerError> {
        let estate = Estate {
            metrics: Metrics::new(),
            room: Room::new(config.server.max_keys),
            crowd: Crowd::new(config.server.max_waiting),
            clock,
            hasher: KeyHasher::new(config.store.key_secret.reveal()),
            closed: Arc::default(),
        };
        let app = Arc::new(assemble(config, &estate, None));
        let worker = || -> Result<_, super::ServerError> {
            Ok(Arc::new(Worker {
                edition: ArcSwap::new(edition(config, &app)?),
                timer: SlotTimer::fine(clock)?,
            }))
        };
        let workers = std::iter::repeat_with(worker)
            .take(config.server.threads)
            .collect::<Result<_, _>>()?;
        estate.metrics.loaded();
        Ok(Self {
            estate,
            app: Arc::new(ArcSwap::new(app)),
            workers,
            probes: Mutex::default(),
        })
    }

    /// Serves by another config from now on. Where it can't, nothing changes.
    pub(super) fn reload(&self, config: &Config) -> Result<(), TlsError> {
        // All that can fail comes before the first change.
        let clients = self
            .workers
            .iter()
            .map(|_| Clients::new(&config.upstreams))
            .collect::<Result<Vec<_>, _>>()?;
        let app = Arc::new(assemble(config, &self.estate, Some(&self.app.load())));
        for (worker, clients) in self.workers.iter().zip(clients) {
            worker.edition.store(Arc::new(Edition {
                app: Arc::clone(&app),
                clients,
            }));
        }
        self.app.store(app);
        self.probe();
        Ok(())
    }

    /// Probes the upstreams that the config wants probed, and no others.
    pub(super) fn probe(&self) {
        let app = self.app.load();
        let mut probes = self.probes.lock();
        probes.drain(..).for_each(|probe| probe.abort());
        for upstream in &app.upstreams {
            match &upstream.target.kind {
                TargetKind::Server(server) if server.health.is_some() => {
                    probes.push(tokio::spawn(watch(Arc::clone(upstream))).abort_handle());
                }
                TargetKind::Server(_) | TargetKind::Respond(_) => upstream.gate.set_well(true),
            }
        }
    }

    /// Sends all away who wait, and all who come: the instance ends.
    pub(super) fn close(&self) {
        self.estate.closed.store(true, Ordering::Relaxed);
        for limiter in &self.app.load().limiters {
            limiter.purge(Reason::Draining);
        }
    }
}

fn edition(config: &Config, app: &Arc<App>) -> Result<Arc<Edition>, TlsError> {
    let clients = Clients::new(&config.upstreams)?;
    Ok(Arc::new(Edition {
        app: Arc::clone(app),
        clients,
    }))
}

async fn watch(upstream: Arc<Upstream>) {
    let Upstream {
        target,
        gate,
        metrics,
    } = &*upstream;
    let TargetKind::Server(server) = &target.kind else {
        return;
    };
    let Some(health) = &server.health else { return };
    if let Err(failed) = probe(&target.name, server, health, gate, metrics).await {
        error!(upstream = %target.name, error = %failed, "upstream is not probed");
    }
}
