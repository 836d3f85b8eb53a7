//! What goes on when the config changes?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::mpsc::Receiver;
use tokio::task::AbortHandle;
use tracing::{error, info, warn};

use super::assemble::assemble;
use crate::bucket::{Crowd, Limiter, SlotTimer};
use crate::config::Config;
use crate::forward::{Clients, TargetKind, TlsError, probe};
use crate::key::KeyHasher;
use crate::metrics::{Metrics, Reason};
use crate::peer::{Certificate, CertificateError, CertificateFiles};
use crate::proxy::{App, Edition, Streams, Upstream, Worker};
use crate::store::{Paused, RedisStore, Room, StoreNews};
use crate::units::Clock;

/// How long an instance waits for its store when it begins, and when it ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// What every config of an instance shares.
#[derive(Debug)]
pub(super) struct Estate {
    pub(super) metrics: Arc<Metrics>,
    pub(super) room: Arc<Room>,
    pub(super) crowd: Arc<Crowd>,
    pub(super) clock: Clock,
    /// Another secret would give all buckets other names: their debts forgotten.
    pub(super) hasher: KeyHasher,
    /// Where its buckets are shared with other instances.
    pub(super) store: Option<Arc<RedisStore>>,
    pub(super) closed: Arc<AtomicBool>,
}

/// Why another config can't be served by.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReloadError {
    /// TLS to an upstream can't be set up.
    #[error(transparent)]
    Upstream(#[from] TlsError),
    /// Clients can't be shown a certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// A running weir, whichever config it has.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) estate: Estate,
    pub(super) app: Arc<ArcSwap<App>>,
    pub(super) workers: Vec<Arc<Worker>>,
    /// What clients are shown, where they come over TLS.
    pub(super) certificate: Option<Arc<Certificate>>,
    /// Held to exchange the probes, never across an await.
    probes: Mutex<Vec<AbortHandle>>,
}

impl Instance {
    /// An instance as its first config has it.
    pub(super) fn new(config: &Config, clock: Clock) -> Result<Self, super::ServerError> {
        let metrics = Metrics::new();
        let (store, news) = match &config.store.redis {
            None => (None, None),
            Some(redis) => {
                let (store, news) = RedisStore::new(redis.clone(), clock, metrics.store());
                (Some(store), Some(news))
            }
        };
        let estate = Estate {
            metrics,
            store,
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
                streams: Streams::default(),
            }))
        };
        let workers = std::iter::repeat_with(worker)
            .take(config.server.threads)
            .collect::<Result<_, _>>()?;
        let certificate = config.server.tls.as_ref().map(CertificateFiles::load);
        estate.metrics.loaded();
        let app = Arc::new(ArcSwap::new(app));
        if let (Some(store), Some(news)) = (&estate.store, news) {
            tokio::spawn(Arc::clone(store).run());
            tokio::spawn(listen(Arc::clone(&app), news));
        }
        Ok(Self {
            estate,
            app,
            workers,
            certificate: certificate.transpose()?.map(Certificate::new),
            probes: Mutex::default(),
        })
    }

    /// Waits for the store, but not for long: without it, limits go on as configured.
    pub(super) async fn connect(&self) {
        if let Some(store) = &self.estate.store
            && !store.ready(PATIENCE).await
        {
            let addresses = store.config().urls.shown();
            warn!(addresses, "store not reached yet: limits begin without it");
        }
        pause(&self.app.load());
    }

    /// Gives up what it holds in the store.
    pub(super) async fn part(&self) {
        if let Some(store) = &self.estate.store {
            let parted = async {
                store.settled().await;
                store.farewell().await;
            };
            // What isn't heard is noticed by the others a moment later.
            let _unheard = tokio::time::timeout(PATIENCE, parted).await;
        }
    }

    /// Serves by another config from now on. Where it can't, nothing changes.
    pub(super) fn reload(&self, config: &Config) -> Result<(), ReloadError> {
        // All that can fail comes before the first change.
        let certified = config.server.tls.as_ref().map(CertificateFiles::load);
        let certified = certified.transpose()?;
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
        pause(&app);
        self.app.store(app);
        if let (Some(certificate), Some(certified)) = (&self.certificate, certified) {
            certificate.exchange(certified);
        }
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
            limiter.purge(None, Reason::Draining);
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

/// Pauses what all instances have paused, and lets go what they no longer have.
fn pause(app: &App) {
    let pauses = app.store.as_ref().map(|store| store.pauses());
    for (Paused { limit, key }, end) in pauses.unwrap_or_default() {
        let of = |limiter: &&Arc<Limiter>| *limiter.policy().name == *limit;
        if let Some(limiter) = app.limiters.iter().find(of)
            && let Err(failed) = limiter.pause(key, end)
        {
            warn!(limit, error = %failed, "a pause of all instances is not kept here");
        }
    }
}

/// Passes on what the store tells to those who wait.
async fn listen(app: Arc<ArcSwap<App>>, mut news: Receiver<StoreNews>) {
    while let Some(news) = news.recv().await {
        let limiters = &app.load().limiters;
        match news {
            StoreNews::Changed => limiters.iter().for_each(Limiter::realign),
            StoreNews::Left { limit, key, count } => {
                let of = |limiter: &&Arc<Limiter>| *limiter.policy().name == *limit;
                if let Some(limiter) = limiters.iter().find(of) {
                    limiter.hurry(key, count);
                }
            }
            StoreNews::Paused => pause(&app.load()),
            StoreNews::Purge(Paused { limit, key }) => {
                let of = |limiter: &&Arc<Limiter>| *limiter.policy().name == *limit;
                if let Some(limiter) = limiters.iter().find(of) {
                    let sent_away = limiter.purge(key, Reason::Purged);
                    info!(limit, sent_away, "line purged from another instance");
                }
            }
        }
    }
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
