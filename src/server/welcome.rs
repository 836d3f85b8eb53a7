//! Who comes in, and what do they speak?

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::StatusCode;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::serve::{House, converse};
use crate::key::is_trusted;
use crate::metrics::ConnectionFault;
use crate::peer::{AnnounceError, Open, Peer, Protocol, Socket, announced};
use crate::respond::Problem;

/// What a client gets when too many are connected.
static TOO_MANY: LazyLock<String> = LazyLock::new(|| {
    let detail = "too many connections".to_owned();
    let answer = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        .reduced_capacity()
        .answer();
    let body = String::from_utf8_lossy(answer.body());
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\ncache-control: no-store\r\nretry-after: 1\r\nconnection: close\r\n\
         proxy-status: weir; error=connection_limit_reached\r\n\r\n{body}",
        body.len()
    )
});

/// How long to wait where the kernel has no descriptor left.
const OUT_OF_FILES: Duration = Duration::from_millis(100);

/// Why a connection ended before its client wanted it to.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// It broke, or it was not HTTP.
    #[error("the connection broke off, or was not HTTP")]
    Http(#[from] hyper::Error),
    /// The network said so.
    #[error("the connection broke off")]
    Network(#[source] io::Error),
    /// No TLS came up.
    #[error("no TLS came up")]
    Tls(#[source] io::Error),
    /// A proxy did not say for whom it opened it.
    #[error(transparent)]
    Announcement(#[from] AnnounceError),
}

/// Accepts connections until the instance drains. Those that are open then are
/// served on to the end of what was asked.
pub(super) async fn accept(listener: TcpListener, house: House) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut draining = house.draining.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            _ended = draining.wait_for(|draining| *draining) => {
                house.janitor.dismiss();
                return Ok(());
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) => welcome(socket, address, &house),
            Err(failed) => {
                warn!(error = %failed, "a connection could not be accepted");
                tokio::time::sleep(OUT_OF_FILES).await;
            }
        }
    }
}

fn welcome(socket: TcpStream, address: SocketAddr, house: &House) {
    let Some(open) = house.connections.open() else {
        if house.tls.is_none() {
            // One that takes no answer is turned away without.
            let _unsent = socket.try_write(TOO_MANY.as_bytes());
        }
        return;
    };
    // Nothing is lost but a little time where the kernel refuses.
    let _slower = socket.set_nodelay(true);
    let house = house.clone();
    tokio::spawn(async move {
        if let Err(broken) = receive(socket, address, open, &house).await {
            debug!(error = %broken, "a connection broke");
        }
    });
}

/// Finds out who a client is and what it speaks, and serves it to its end.
async fn receive(
    socket: TcpStream,
    address: SocketAddr,
    open: Open,
    house: &House,
) -> Result<(), Broken> {
    if house.announces(address) {
        return Box::pin(announce(socket, address, open, house)).await;
    }
    meet(socket, address, open, house).await
}

/// Lets a proxy say for whom it opened the connection.
async fn announce(
    mut socket: TcpStream,
    address: SocketAddr,
    open: Open,
    house: &House,
) -> Result<(), Broken> {
    let in_time = tokio::time::timeout(house.timeouts.header, announced(&mut socket));
    let client = match in_time.await {
        Ok(Ok(client)) => client,
        Ok(Err(odd)) => {
            house.fails(ConnectionFault::Announcement);
            return Err(odd.into());
        }
        Err(_elapsed) => {
            house.connections.metrics().timed_out();
            return Ok(());
        }
    };
    meet(socket, client.unwrap_or(address), open, house).await
}

async fn meet(
    socket: TcpStream,
    client: SocketAddr,
    open: Open,
    house: &House,
) -> Result<(), Broken> {
    let peer = Peer::new(socket, client, house.tls.is_some(), house.timeouts, open);
    house.janitor.watch(&peer);
    if let Some(tls) = &house.tls {
        return Box::pin(secure(peer, TlsAcceptor::from(Arc::clone(tls)), house)).await;
    }
    match peer.first_words().await.map_err(Broken::Network)? {
        Some(protocol) => {
            let socket = Socket::new(Arc::clone(&peer));
            converse(peer, socket, protocol, house).await
        }
        None => Ok(()),
    }
}

/// Both sides agree on the protocol while TLS comes up.
async fn secure(peer: Arc<Peer>, tls: TlsAcceptor, house: &House) -> Result<(), Broken> {
    let stream = match tls.accept(Socket::new(Arc::clone(&peer))).await {
        Ok(stream) => stream,
        Err(failed) => {
            house.fails(ConnectionFault::Tls);
            return Err(Broken::Tls(failed));
        }
    };
    let agreed = stream.get_ref().1.alpn_protocol();
    let protocol = match agreed {
        Some(b"h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    converse(peer, stream, protocol, house).await
}

impl House {
    /// Whether whoever connects from there says first for whom it does.
    fn announces(&self, address: SocketAddr) -> bool {
        self.announced && self.trusts(|trusted| is_trusted(address.ip().to_canonical(), trusted))
    }

    fn fails(&self, kind: ConnectionFault) {
        self.connections.metrics().failed(kind);
    }
}
