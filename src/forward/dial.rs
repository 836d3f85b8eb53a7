//! How does a connection come up, when several requests want one at once?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;
use tokio::time::timeout;

use super::body::BoxError;
use super::connect::{Connector, Stream};
use super::fault::{Fault, FaultKind};
use super::http2::{Link, Links, NoLink, Share};
use super::target::{Protocol, ServerTarget};
use super::tls::TlsError;

/// Opens a runtime's connections to one upstream.
#[derive(Clone, Debug)]
pub(super) struct Dialer {
    connector: Connector,
    pub(super) links: Arc<Links>,
    /// Who opens a connection that others may share: one at a time, so that no
    /// more come up than are needed. Held across the dial.
    turn: Arc<Mutex<()>>,
    /// Whether it speaks HTTP/1.1, as far as is known: nobody shares that.
    is_http1: Arc<AtomicBool>,
}

/// A connection that came up.
#[derive(Debug)]
pub(super) enum Dialled {
    /// For HTTP/1.1, with nothing said on it yet.
    Http1(Box<Stream>),
    /// A share of one of HTTP/2.
    Http2(Share),
}

impl Dialer {
    pub(super) fn new(target: &ServerTarget, protocol: Protocol) -> Result<Self, TlsError> {
        let plain = target.scheme == http::uri::Scheme::HTTP;
        let is_http1 = protocol == Protocol::Http1 || (plain && protocol == Protocol::Auto);
        Ok(Self {
            connector: Connector::new(target, protocol)?,
            links: Arc::default(),
            turn: Arc::default(),
            is_http1: Arc::new(AtomicBool::new(is_http1)),
        })
    }

    /// A new connection, or a share of one that came up meanwhile, but for one
    /// that refused the request.
    pub(super) async fn dial(&self, but: Option<&Arc<Link>>) -> Result<Dialled, Fault> {
        let most = self.connector.most();
        let dialled = timeout(most, self.dial_or_share(but)).await;
        dialled
            .unwrap_or_else(|elapsed| Err(Fault::unsent(FaultKind::ConnectTimeout, elapsed.into())))
    }

    /// A new connection for HTTP/1.1, whatever else the upstream speaks.
    pub(super) async fn dial_http1(&self) -> Result<Stream, Fault> {
        let dialled = timeout(self.connector.most(), self.connector.connect_http1()).await;
        match dialled {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(failed)) => Err(Fault::unsent(FaultKind::Unreachable, failed)),
            Err(elapsed) => Err(Fault::unsent(FaultKind::ConnectTimeout, elapsed.into())),
        }
    }

    async fn dial_or_share(&self, but: Option<&Arc<Link>>) -> Result<Dialled, Fault> {
        if self.is_http1() {
            return self.open().await;
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some(share) = self.links.take(but) {
            return Ok(Dialled::Http2(share));
        }
        if self.is_http1() {
            drop(turn);
            return self.open().await;
        }
        // On its own: others wait for this connection, whoever began with it.
        let dialer = self.clone();
        let opening = tokio::spawn(async move {
            let opened = timeout(dialer.connector.most(), dialer.open()).await;
            drop(turn);
            opened.unwrap_or_else(|elapsed| {
                Err(Fault::unsent(FaultKind::ConnectTimeout, elapsed.into()))
            })
        });
        match opening.await {
            Ok(opened) => opened,
            Err(ended) => Err(Fault::unsent(FaultKind::Unreachable, ended.into())),
        }
    }

    async fn open(&self) -> Result<Dialled, Fault> {
        let unreachable = |cause: BoxError| Fault::unsent(FaultKind::Unreachable, cause);
        let stream = self.connector.connect().await.map_err(unreachable)?;
        let is_http2 = self.connector.is_http2(&stream)?;
        self.is_http1.store(!is_http2, Ordering::Relaxed);
        if !is_http2 {
            return Ok(Dialled::Http1(Box::new(stream)));
        }
        let link = Link::open(stream).await?;
        let share = self.links.add(link).ok_or(NoLink::Full)?;
        Ok(Dialled::Http2(share))
    }

    fn is_http1(&self) -> bool {
        self.is_http1.load(Ordering::Relaxed)
    }
}

impl From<NoLink> for Fault {
    fn from(no_link: NoLink) -> Self {
        let kind = match no_link {
            NoLink::Foreign => FaultKind::Foreign,
            NoLink::Ended | NoLink::Full | NoLink::Broken(_) => FaultKind::Unreachable,
        };
        Self::unsent(kind, no_link.into())
    }
}
