//! How is a request sent, once, and its answer awaited?

use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Uri, Version};
use http_body::Body;
use hyper_util::rt::TokioIo;

use super::answer::{Answer, Arriving};
use super::body::{BoxError, RequestBody, Upload};
use super::connect::Stream;
use super::dial::{Dialer, Dialled};
use super::fault::{Fault, FaultKind};
use super::headers::{clean_answer, ends_plainly, to_http2};
use super::http1::{self, Wire};
use super::http2::{self, Link, Share};
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

/// A runtime's connections to one upstream.
#[derive(Debug)]
pub struct Client<B> {
    pub(super) dialer: Dialer,
    pool: Pool,
    target: Arc<ServerTarget>,
    /// Whose bodies it sends.
    sends: PhantomData<fn(B)>,
}

/// A runtime's connections to all upstreams, in the order of the config; none
/// where weir itself answers.
#[derive(Debug)]
pub struct Clients<B>(Vec<Option<Client<B>>>);

/// What a request goes out on.
enum Way {
    /// A connection of its own, made for it or used before.
    Own(Lease, bool),
    /// A share of one.
    Shared(Share),
}

/// An answer that says its length twice, or not plainly.
#[derive(Debug, thiserror::Error)]
#[error("the answer does not say plainly how long it is")]
struct UnclearLength;

/// How an attempt went: answered, or not sent at all and here again.
pub(super) enum Attempt<B> {
    Answered(Answer<B>),
    Again(Box<Parts>, RequestBody<B>, Option<Arc<Link>>),
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
        for client in self.0.iter().flatten() {
            client.pool.sweep();
            client.dialer.links.sweep();
        }
    }
}

impl<B: RequestBytes> Client<B> {
    fn new(target: &ServerTarget) -> Result<Self, TlsError> {
        Ok(Self {
            dialer: Dialer::new(target, target.protocol)?,
            pool: Pool::default(),
            target: Arc::new(target.clone()),
            sends: PhantomData,
        })
    }

    /// Where the requests go.
    pub fn target(&self) -> &ServerTarget {
        &self.target
    }

    /// Sends a request, once. `path` is what the upstream is asked for, byte for
    /// byte; `upload` tells how its body does, where it has one.
    ///
    /// A connection that went stale is replaced by another as long as no byte of
    /// the request was written to it. What an HTTP/2 upstream says not to have
    /// looked at goes on another connection, one time. Nothing else is sent again.
    pub async fn send(
        &self,
        mut parts: Box<Parts>,
        path: PathAndQuery,
        mut body: RequestBody<B>,
        upload: Option<Arc<Upload>>,
    ) -> Result<Answer<B>, Fault> {
        parts.uri = Uri::from(path);
        parts.version = Version::HTTP_11;
        let mut refused = None;
        loop {
            let attempt = match self.way(refused.as_ref()).await? {
                Way::Own(lease, fresh) => {
                    http1::send(lease, fresh, parts, body, upload.as_ref()).await?
                }
                Way::Shared(share) => {
                    let may_refuse = refused.is_none();
                    let sent = self.send_shared(share, may_refuse, parts, body, upload.as_ref());
                    Box::pin(sent).await?
                }
            };
            match attempt {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Again(same, unread, by) => {
                    (parts, body, refused) = (same, unread, by.or(refused));
                }
            }
        }
    }

    /// A connection with room, or a new one.
    async fn way(&self, refused: Option<&Arc<Link>>) -> Result<Way, Fault> {
        if let Some(share) = self.dialer.links.take(refused) {
            return Ok(Way::Shared(share));
        }
        if let Some(lease) = self.pool.take() {
            return Ok(Way::Own(lease, false));
        }
        // Boxed: most requests find a connection.
        Box::pin(self.open(refused)).await
    }

    async fn open(&self, refused: Option<&Arc<Link>>) -> Result<Way, Fault> {
        match self.dialer.dial(refused).await? {
            Dialled::Http1(stream) => Ok(Way::Own(self.lease(*stream), true)),
            Dialled::Http2(share) => Ok(Way::Shared(share)),
        }
    }

    /// A connection over a stream that just came up.
    pub(super) fn lease(&self, stream: Stream) -> Lease {
        let patience = Patience::new(self.target.timeout);
        self.pool.lease(Wire::new(TokioIo::new(stream)), patience)
    }

    async fn send_shared(
        &self,
        share: Share,
        may_refuse: bool,
        parts: Box<Parts>,
        body: RequestBody<B>,
        upload: Option<&Arc<Upload>>,
    ) -> Result<Attempt<B>, Fault> {
        let is_fresh = share.is_fresh;
        let head = to_http2(&parts, &self.target);
        let sent = http2::send(
            share,
            head,
            body,
            upload.map(Arc::as_ref),
            self.target.timeout,
        )
        .await;
        match sent {
            Ok((response, ..)) if !ends_plainly(response.headers()) => {
                Err(broken(UnclearLength.into(), true, upload.map(Arc::as_ref)))
            }
            Ok((mut response, pumped, patience)) => {
                clean_answer(response.headers_mut());
                let over = Box::new((pumped, patience));
                Ok(Attempt::Answered(Answer {
                    response: response.map(|received| Arriving::Http2(received, Some(over))),
                    upload: upload.cloned(),
                }))
            }
            Err(unanswered) => {
                let may_again = match &unanswered.refused {
                    Some(_) => may_refuse,
                    None => !is_fresh,
                };
                match unanswered.again.filter(|_| may_again) {
                    Some(body) => Ok(Attempt::Again(parts, body, unanswered.refused)),
                    None => Err(unanswered.fault),
                }
            }
        }
    }
}

/// Awaits an answer as long as something moves.
pub(super) async fn answered<T>(
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

/// What went wrong with a request that was on its way.
pub(super) fn broken(failed: BoxError, may_have_seen: bool, upload: Option<&Upload>) -> Fault {
    let kind = match upload {
        Some(upload) if upload.is_broken() => FaultKind::ClientLeft,
        Some(upload) if upload.is_stalled() => FaultKind::ClientStalled,
        Some(upload) if upload.is_too_large() => FaultKind::ClientTooLarge,
        _ => FaultKind::Broken,
    };
    Fault {
        kind,
        may_have_seen,
        cause: Some(failed),
    }
}
