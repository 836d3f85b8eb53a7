//! What may happen on the way to Redis?

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::Socket;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::reserved_port;

/// What becomes of bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// They pass.
    Open,
    /// Every connection is cut, and none is taken.
    Severed,
    /// Connections stay and are taken; nothing passes until the way changes.
    Hung,
    /// They pass so much later, each way.
    Slow(Duration),
    /// Calls pass, answers are lost. What lost an answer is cut when the way
    /// changes, as no later one would fit its call.
    Deaf,
    /// No call passes; each gets this answer.
    Babbling(&'static str),
}

/// A proxy for bytes, on a thread of its own, whose way can be changed at any time.
#[derive(Debug)]
pub(crate) struct Severing {
    address: SocketAddr,
    way: watch::Sender<Way>,
    /// Tells that a change of the way is in force.
    in_force: std::sync::mpsc::Receiver<()>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _reserved: Socket,
}

/// Bytes, and when they are to go on.
type Parcel = (Instant, Vec<u8>);

impl Severing {
    /// One before this address.
    pub(crate) fn before(target: SocketAddr) -> Self {
        let (reserved, address) = reserved_port();
        let (way, changed) = watch::channel(Way::Open);
        let (tell, in_force) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        // It listens before anyone is told of it.
        let listener = std::net::TcpListener::bind(address).expect("a reserved port");
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                listener.set_nonblocking(true).expect("a listener");
                let listener = TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = accept(listener, target, changed, tell) => (),
                    _stopped = stopped => (),
                }
            });
        });
        Self {
            address,
            way,
            in_force,
            stop: Some(stop),
            thread: Some(thread),
            _reserved: reserved,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a config says so that buckets live behind this.
    pub(crate) fn store(&self) -> String {
        format!(
            "[store]\nkind = \"redis\"\nurl = \"redis://{}\"\n",
            self.address
        )
    }

    /// Changes the way, at once.
    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
        self.in_force.recv().expect("a thread that runs");
    }
}

impl Drop for Severing {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    mut way: watch::Receiver<Way>,
    tell: std::sync::mpsc::Sender<()>,
) {
    let address = listener.local_addr().expect("an address");
    let mut listener = Some(listener);
    loop {
        tokio::select! {
            accepted = next(listener.as_ref()) => {
                let way = way.clone();
                tokio::spawn(async move {
                    // A connection that breaks off is what this is for.
                    let _broken = relay(accepted?, target, way).await;
                    Ok::<(), io::Error>(())
                });
            }
            changed = way.changed() => {
                if changed.is_err() {
                    return;
                }
                if *way.borrow_and_update() == Way::Severed {
                    listener = None;
                } else if listener.is_none() {
                    listener = Some(TcpListener::bind(address).await.expect("a reserved port"));
                }
                if tell.send(()).is_err() {
                    return;
                }
            }
        }
    }
}

async fn next(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Carries bytes both ways until either side ends or the way is severed.
async fn relay(
    client: TcpStream,
    target: SocketAddr,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (calls, back) = client.into_split();
    let (answers, there) = server.into_split();
    let (to_server, calls_due) = mpsc::unbounded_channel();
    let (to_client, answers_due) = mpsc::unbounded_channel();
    let babble = to_client.clone();
    let severed = way.clone();
    tokio::select! {
        ended = take_calls(calls, severed, &to_server, &babble) => ended,
        ended = take_answers(answers, way.clone(), &to_client) => ended,
        ended = deliver(there, calls_due, way.clone()) => ended,
        ended = deliver(back, answers_due, way.clone()) => ended,
        _cut = way.wait_for(|way| *way == Way::Severed) => Ok(()),
    }
}

async fn take_calls(
    mut calls: OwnedReadHalf,
    way: watch::Receiver<Way>,
    to_server: &mpsc::UnboundedSender<Parcel>,
    babble: &mpsc::UnboundedSender<Parcel>,
) -> io::Result<()> {
    loop {
        let bytes = some(&mut calls).await?;
        let now = *way.borrow();
        let sent = match now {
            Way::Babbling(answer) => babble.send((Instant::now(), answer.as_bytes().to_vec())),
            _ => to_server.send((due(now), bytes)),
        };
        sent.map_err(|_ended| io::ErrorKind::BrokenPipe)?;
    }
}

async fn take_answers(
    mut answers: OwnedReadHalf,
    mut way: watch::Receiver<Way>,
    to_client: &mpsc::UnboundedSender<Parcel>,
) -> io::Result<()> {
    loop {
        let bytes = some(&mut answers).await?;
        let now = *way.borrow();
        if now == Way::Deaf {
            let _changed = way.wait_for(|way| *way != Way::Deaf).await.map(drop);
            return Ok(());
        }
        let sent = to_client.send((due(now), bytes));
        sent.map_err(|_ended| io::ErrorKind::BrokenPipe)?;
    }
}

/// Writes what is due, unless the way is hung.
async fn deliver(
    mut to: OwnedWriteHalf,
    mut parcels: mpsc::UnboundedReceiver<Parcel>,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    while let Some((due, bytes)) = parcels.recv().await {
        sleep_until(due).await;
        let _open = way.wait_for(|way| *way != Way::Hung).await.map(drop);
        to.write_all(&bytes).await?;
    }
    Ok(())
}

fn due(way: Way) -> Instant {
    let now = Instant::now();
    match way {
        Way::Slow(delay) => now + delay,
        _ => now,
    }
}

async fn some(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match from.read_buf(&mut bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _some => Ok(bytes),
    }
}
