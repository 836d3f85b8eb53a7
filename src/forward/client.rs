//! How is a request sent, once, and its answer awaited?

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;

use super::body::{RequestBody, Upload};
use super::connect::{ConnectError, Connector};
use super::fault::{Fault, FaultKind};
use super::patience::Patience;
use super::pool::{Lease, Pool};
use super::target::{ServerTarget, Target, TargetKind};
use super::tls::TlsError;

/// The body of a request as the server hands it over.
pub trait RequestBytes: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}

impl<B> RequestBytes for B where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static
{
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A runtime's connections to one upstream.
#[derive(Debug)]
pub struct Client<B> {
    connector: Connector,
    pool: Pool<RequestBody<B>>,
    target: Arc<ServerTarget>,
}

/// A runtime's connections to all upstreams, in the order of the config; none
/// where weir itself answers.
#[derive(Debug)]
pub struct Clients<B>(Vec<Option<Client<B>>>);

/// The head of an answer, with the connection that its body comes over.
#[derive(Debug)]
pub struct Answer<B> {
    /// The head and the body.
    pub response: Response<Incoming>,
    pub(super) lease: Lease<RequestBody<B>>,
}

impl<B: RequestBytes> Clients<B> {
    /// Clients for `targets`; nothing is connected yet.
    pub fn new<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Result<Self, TlsError> {
        let client = |target: &Target| match &target.kind {
            TargetKind::Server(server) => Client::new(server).map(Some),
            TargetKind::Respond(_) => Ok(None),
        };
        targets
            .into_iter()
            .map(client)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The client of the `index`th upstream.
    pub fn get(&self, index: usize) -> Option<&Client<B>> {
        self.0.get(index)?.as_ref()
    }

    /// Closes connections that nobody needed for long.
    pub fn sweep(&self) {
        self.0
            .iter()
            .flatten()
            .for_each(|client| client.pool.sweep());
    }
}

impl<B: RequestBytes> Client<B> {
    fn new(target: &ServerTarget) -> Result<Self, TlsError> {
        Ok(Self {
            connector: Connector::new(target)?,
            pool: Pool::default(),
            target: Arc::new(target.clone()),
        })
    }

    /// Where the requests go.
    pub fn target(&self) -> &ServerTarget {
        &self.target
    }

    /// Sends a request, once. `path` is what the upstream is asked for, byte for
    /// byte; `upload` tells how its body does, where it has one.
    ///
    /// A connection that went stale in the pool is replaced by another as long as
    /// no byte of the request was written to it; nothing else is sent again.
    pub async fn send(
        &self,
        mut parts: Parts,
        path: PathAndQuery,
        body: RequestBody<B>,
        upload: Option<&Upload>,
    ) -> Result<Answer<B>, Fault> {
        parts.uri = Uri::from(path);
        parts.version = http::Version::HTTP_11;
        let mut request = Request::from_parts(parts, body);
        loop {
            let (mut lease, fresh) = match self.pool.take() {
                Some(lease) => (lease, false),
                None => (self.connect().await?, true),
            };
            let sent = lease.sender.try_send_request(request);
            match answered(sent, &mut lease.patience, upload).await? {
                Ok(response) => return Ok(Answer { response, lease }),
                Err(mut unsent) => match unsent.take_message() {
                    Some(again) if !fresh => request = again,
                    message => return Err(broken(unsent.into_error(), message.is_none(), upload)),
                },
            }
        }
    }

    async fn connect(&self) -> Result<Lease<RequestBody<B>>, Fault> {
        let unreachable = |cause: BoxError, kind| Fault {
            kind,
            may_have_seen: false,
            cause: Some(cause),
        };
        let stream = self
            .connector
            .connect()
            .await
            .map_err(|failed| match failed {
                ConnectError::TooSlow(_) => unreachable(failed.into(), FaultKind::ConnectTimeout),
                ConnectError::Failed(_) => unreachable(failed.into(), FaultKind::Unreachable),
            })?;
        let (sender, connection) = http1::handshake(stream)
            .await
            .map_err(|failed| unreachable(failed.into(), FaultKind::Unreachable))?;
        tokio::spawn(async move {
            // What goes wrong is told to the request that it goes wrong for.
            let _ended = connection.await;
        });
        Ok(self.pool.lease(sender, Patience::new(self.target.timeout)))
    }
}

/// Awaits an answer as long as something moves.
async fn answered<T>(
    answer: impl Future<Output = T>,
    patience: &mut Patience,
    upload: Option<&Upload>,
) -> Result<T, Fault> {
    tokio::pin!(answer);
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                patience.moved();
                return Poll::Ready(Ok(answer));
            }
            ready!(patience.poll(cx));
            patience.moved();
            if !upload.is_some_and(Upload::moved) {
                return Poll::Ready(Err(Fault::too_slow()));
            }
        }
    })
    .await
}

fn broken(failed: hyper::Error, may_have_seen: bool, upload: Option<&Upload>) -> Fault {
    let kind = match upload {
        Some(upload) if upload.is_broken() => FaultKind::ClientLeft,
        Some(upload) if upload.is_stalled() => FaultKind::ClientStalled,
        Some(upload) if upload.is_too_large() => FaultKind::ClientTooLarge,
        _ => FaultKind::Broken,
    };
    Fault {
        kind,
        may_have_seen,
        cause: Some(failed.into()),
    }
}
