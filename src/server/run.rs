//! How does an instance run, from its config to its end?

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

use super::instance::Instance;
use super::janitor::Janitor;
use super::listen::{ListenError, listener, listeners};
use super::serve::{House, Service};
use super::watch::Watch;
use super::welcome::accept;
use crate::admin::{Admin, Doors, ReloadWish, Reloaded, router as admin_router};
use crate::bucket::Limiter;
use crate::config::{Config, Faults, Secret};
use crate::forward::TlsError;
use crate::peer::{Certificate, CertificateError, Connections, Timeouts};
use crate::proxy::{App, Worker};
use crate::units::Clock;

/// How often idle keys are looked for, each time in another part of the tables.
const SWEEP: Duration = Duration::from_secs(1);
const SWEEP_PARTS: usize = 16;

/// How long those who were sent away have to take their answers.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How often a draining instance looks whether anyone is left.
const LOOK: Duration = Duration::from_millis(10);

/// Connections of the admin listener.
const ADMIN_CONNECTIONS: usize = 256;

/// Why an instance did not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address is taken, or not this machine's.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// TLS to an upstream can't be set up.
    #[error("TLS to an upstream can't be set up")]
    Tls(#[from] TlsError),
    /// Clients can't be shown a certificate.
    #[error("TLS for clients can't be set up")]
    Certificate(#[from] CertificateError),
    /// The kernel refuses what a runtime needs.
    #[error("a runtime can't be started")]
    Runtime(#[from] io::Error),
}

/// How an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All who were there have been served.
    Drained,
    /// Some were sent away when their time was up.
    CutShort,
}

/// What an instance is told while it runs.
#[derive(Debug)]
pub enum Order {
    /// To read the config anew, and serve by it.
    Reload,
    /// To end: it takes nobody new, serves those who wait for `shutdown_grace`,
    /// and sends the rest away. A second one cuts the grace short.
    Stop,
}

/// What becomes of a reload that somebody asked for.
type Outcome = Result<Reloaded, Vec<String>>;

/// Reloads that wait for one before them.
const WISHES: usize = 16;

/// Runs an instance until it is ordered to stop. `read` reads its config anew, which
/// is done on order, when asked for by the API, and when a file of it has changed.
/// `began` learns the addresses of the listener and of the admin listener. Requests
/// are served on threads of their own; the runtime of the caller does the rest.
pub async fn run(
    config: &Config,
    read: impl Fn() -> Result<Config, Faults>,
    mut order: impl AsyncFnMut() -> Order,
    began: impl FnOnce(SocketAddr, SocketAddr),
) -> Result<Ended, ServerError> {
    let instance = Instance::new(config, Clock::start())?;
    let admin = listener(config.server.admin)?;
    let sockets = listeners(config.server.listen, config.server.threads)?;
    let addresses = (
        local(sockets.first(), config.server.listen),
        local(Some(&admin), config.server.admin),
    );
    let (drain, draining) = watch::channel(false);
    let metrics = Arc::clone(&instance.estate.metrics);
    let connections = Connections::new(config.server.max_connections, metrics.connections());
    let (_open, never) = watch::channel(false);
    let (wish, wishes) = mpsc::channel(WISHES);
    let doors = Arc::new(ArcSwap::from_pointee(doors(config)));
    let pages = admin_router(Admin::new(
        Arc::clone(&instance.app),
        draining.clone(),
        Arc::clone(&doors),
        wish,
    ));
    let house = House {
        service: Service::Pages(pages),
        connections: Arc::clone(&connections),
        janitor: Arc::default(),
        timeouts: timeouts(config),
        max_header_bytes: config.server.max_header_bytes,
        tls: None,
        announced: false,
        draining: draining.clone(),
    };
    let certificate = instance.certificate.as_ref();
    let tls = certificate
        .map(Certificate::server_config)
        .transpose()
        .map_err(CertificateError::from)?;
    // Whoever comes in the meantime waits in the sockets.
    instance.connect().await;
    for (index, (socket, worker)) in sockets.into_iter().zip(&instance.workers).enumerate() {
        let house = House {
            service: Service::Proxy(Arc::clone(worker)),
            janitor: Arc::default(),
            tls: tls.clone(),
            announced: config.server.proxy_protocol,
            ..house.clone()
        };
        // The threads end with the process: until then they answer whoever is there.
        let _thread = work(index, socket, Arc::clone(worker), house)?;
    }
    // The admin listener outlives the drain: it says how that goes.
    let admin_house = House {
        connections: Connections::new(ADMIN_CONNECTIONS, metrics.admin_connections()),
        draining: never,
        ..house
    };
    tokio::spawn(keep_house(
        Arc::clone(&admin_house.janitor),
        Arc::clone(&admin_house.connections),
    ));
    tokio::spawn(accept(admin, admin_house));
    tokio::spawn(sweep(Arc::clone(&instance.app)));
    instance.probe();
    began(addresses.0, addresses.1);
    reload_until_stopped(&instance, config, read, &mut order, wishes, &doors).await;
    info!(
        waiting = instance.estate.crowd.waiting(),
        connections = connections.count(),
        "shutting down"
    );
    drain.send_replace(true);
    let ended = tokio::select! {
        () = gone(&connections) => Ended::Drained,
        () = tokio::time::sleep(config.server.shutdown_grace) => Ended::CutShort,
        () = stopped(&mut order) => Ended::CutShort,
    };
    instance.close();
    if ended == Ended::CutShort {
        // Whoever doesn't take its last answer in time is not waited for.
        let _late = tokio::time::timeout(LAST_WORDS, gone(&connections)).await;
    }
    instance.part().await;
    info!("ended");
    Ok(ended)
}

/// Serves by each config that is asked for, until the order to stop.
async fn reload_until_stopped(
    instance: &Instance,
    config: &Config,
    read: impl Fn() -> Result<Config, Faults>,
    order: &mut impl AsyncFnMut() -> Order,
    mut wishes: mpsc::Receiver<ReloadWish>,
    doors: &ArcSwap<Doors>,
) {
    let mut present = config.clone();
    let mut watch = Watch::new(present.files());
    loop {
        let wish = tokio::select! {
            ordered = order() => match ordered {
                Order::Stop => return,
                Order::Reload => None,
            },
            () = watch.changed() => None,
            Some(wish) = wishes.recv() => Some(wish),
        };
        let read = read();
        watch = Watch::new(
            read.as_ref()
                .map_or_else(|faults| faults.files().clone(), Config::files),
        );
        let outcome = reload(instance, config, &mut present, read);
        if outcome.is_ok() {
            doors.store(Arc::new(self::doors(&present)));
        }
        if let Some(ReloadWish { tell }) = wish {
            // Whoever asked may have left.
            let _gone = tell.send(outcome);
        }
    }
}

/// Serves by the config that was read; where there is none, by the present one.
fn reload(
    instance: &Instance,
    began_with: &Config,
    present: &mut Config,
    read: Result<Config, Faults>,
) -> Outcome {
    let metrics = &instance.estate.metrics;
    let failed = match read {
        Err(faults) => faults.lines().collect(),
        Ok(config) => {
            let Err(failed) = instance.reload(&config) else {
                metrics.reloaded(true);
                metrics.loaded();
                let needs_restart = began_with.needs_restart(&config);
                let reloaded = Reloaded {
                    changed: present.changes(&config),
                    needs_restart: needs_restart.into_iter().map(str::to_owned).collect(),
                };
                *present = config;
                let changed = reloaded.changed.join(", ");
                if reloaded.needs_restart.is_empty() {
                    info!(changed, "config reloaded");
                } else {
                    let keys = reloaded.needs_restart.join(", ");
                    warn!(
                        changed,
                        keys, "config reloaded; these hold from the next start"
                    );
                }
                return Ok(reloaded);
            };
            vec![failed.to_string()]
        }
    };
    metrics.reloaded(false);
    error!(
        "config not reloaded, nothing changed: {}",
        failed.join("\n")
    );
    Err(failed)
}

/// Who may see and change what.
fn doors(config: &Config) -> Doors {
    let token = config.server.admin_token.as_ref();
    Doors::new(token.map(Secret::reveal), config.server.admin_read_only)
}

/// Resolves with an order to stop; it is too late for any other.
async fn stopped(order: &mut impl AsyncFnMut() -> Order) {
    while let Order::Reload = order().await {}
}

fn timeouts(config: &Config) -> Timeouts {
    Timeouts {
        header: config.server.header_timeout,
        idle: config.server.idle_timeout,
        write: config.server.write_timeout,
    }
}

fn local(socket: Option<&std::net::TcpListener>, configured: SocketAddr) -> SocketAddr {
    socket
        .and_then(|socket| socket.local_addr().ok())
        .unwrap_or(configured)
}

/// Starts one runtime on a thread of its own.
fn work(
    index: usize,
    socket: std::net::TcpListener,
    worker: Arc<Worker>,
    house: House,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name(format!("weir-{index}"))
        .spawn(move || {
            let (janitor, connections) =
                (Arc::clone(&house.janitor), Arc::clone(&house.connections));
            let served = runtime.block_on(async {
                tokio::spawn(keep_house(janitor, connections));
                tokio::spawn(close_unused(Arc::clone(&worker)));
                tokio::try_join!(worker.timer.run(Limiter::rang), accept(socket, house))
            });
            if let Err(failed) = served {
                error!(error = %failed, "a thread stopped serving");
            }
        })
}

async fn keep_house(janitor: Arc<Janitor>, connections: Arc<Connections>) {
    janitor.run(connections.metrics()).await;
}

/// Closes connections to upstreams that nobody needed for long, and gives up
/// answers that nobody takes.
async fn close_unused(worker: Arc<Worker>) {
    let mut rounds = tokio::time::interval(SWEEP);
    let untaken = worker.edition.load().app.metrics.untaken();
    loop {
        rounds.tick().await;
        worker.edition.load().clients.sweep();
        worker.streams.sweep(&untaken);
    }
}

/// Forgets idle keys, and what histograms no longer need.
async fn sweep(app: Arc<ArcSwap<App>>) {
    let mut rounds = tokio::time::interval(SWEEP);
    for part in (0..SWEEP_PARTS).cycle() {
        rounds.tick().await;
        let app = app.load();
        for limiter in &app.limiters {
            limiter.sweep(part, SWEEP_PARTS);
        }
        app.metrics.tidy();
    }
}

async fn gone(connections: &Connections) {
    while connections.count() > 0 {
        tokio::time::sleep(LOOK).await;
    }
}
