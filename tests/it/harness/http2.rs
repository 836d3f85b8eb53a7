//! What reaches a server behind weir that speaks HTTP/2?

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::serving::Serving;
use super::until;

/// A server of HTTP/2 that notes what comes, and answers as it is told.
#[derive(Debug)]
pub(crate) struct Http2Backend {
    scheme: &'static str,
    address: SocketAddr,
    notes: Arc<Notes>,
    _serving: Serving,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) connection: usize,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
    /// Whether the whole body has come.
    pub(crate) whole: bool,
    /// Whether weir has reset it.
    pub(crate) reset: Option<Reason>,
}

#[derive(Debug, Default)]
struct Notes {
    asked: Mutex<Vec<Asked>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    under_way: AtomicUsize,
    most: AtomicUsize,
    held: Option<Semaphore>,
}

/// What it does with a request, one thing after another.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// Reads the request's body to its end.
    Read,
    /// A head that is no answer yet.
    Hint(u16),
    Head(u16, Vec<(&'static str, String)>),
    /// A head that is all.
    HeadOnly(u16, Vec<(&'static str, String)>),
    Say(String),
    /// The last part.
    End(String),
    Trailers(Vec<(&'static str, String)>),
    /// Says what it hears, part by part, up to the end of what it hears.
    Echo,
    Wait(Duration),
    /// Waits until the test lets one more go, or until weir gives it up.
    Held,
    /// Ends the connection when all under way are done.
    Shutdown,
}

impl Play {
    /// `200` once the request is whole.
    pub(crate) fn ok() -> Vec<Self> {
        vec![Self::Read, Self::Head(200, vec![]), Self::End("ok".into())]
    }

    /// The same when the test lets it.
    pub(crate) fn held() -> Vec<Self> {
        let mut plays = Self::ok();
        plays.insert(1, Self::Held);
        plays
    }
}

type Script = dyn Fn(&Asked) -> Vec<Play> + Send + Sync;

impl Http2Backend {
    /// A backend that says `200`.
    pub(crate) fn start() -> Self {
        Self::answering(|_| Play::ok())
    }

    pub(crate) fn answering(script: impl Fn(&Asked) -> Vec<Play> + Send + Sync + 'static) -> Self {
        Self::begin(None, None, Arc::new(script))
    }

    /// One that takes so many streams on a connection.
    pub(crate) fn taking(
        most: u32,
        script: impl Fn(&Asked) -> Vec<Play> + Send + Sync + 'static,
    ) -> Self {
        Self::begin(None, Some(most), Arc::new(script))
    }

    pub(crate) fn over_tls(
        tls: ServerConfig,
        script: impl Fn(&Asked) -> Vec<Play> + Send + Sync + 'static,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        Self::begin(Some(acceptor), None, Arc::new(script))
    }

    fn begin(tls: Option<TlsAcceptor>, most: Option<u32>, script: Arc<Script>) -> Self {
        let notes = Arc::new(Notes {
            held: Some(Semaphore::new(0)),
            ..Notes::default()
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let noted = Arc::clone(&notes);
        let (address, serving) =
            Serving::begin(move |listener| accept(listener, tls, most, script, noted));
        Self {
            scheme,
            address,
            notes,
            _serving: serving,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The tables of a config with a route `main` to it, the upstream `main`.
    pub(crate) fn route(&self, upstream: &str, route: &str) -> String {
        format!(
            "[upstreams.main]\nurl = \"{}://{}\"\n{upstream}\n\
             [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n{route}\n",
            self.scheme, self.address
        )
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.notes.asked.lock().clone()
    }

    pub(crate) fn only(&self) -> Asked {
        let mut asked = self.asked();
        assert_eq!(asked.len(), 1, "one request came: {asked:?}");
        asked.pop().expect("one request")
    }

    /// Connections that were ever made to it.
    pub(crate) fn accepted(&self) -> usize {
        self.notes.accepted.load(Ordering::SeqCst)
    }

    /// The most requests that were ever under way at once.
    pub(crate) fn most(&self) -> usize {
        self.notes.most.load(Ordering::SeqCst)
    }

    pub(crate) fn let_go(&self, count: usize) {
        self.held().add_permits(count);
    }

    fn held(&self) -> &Semaphore {
        self.notes.held.as_ref().expect("a gate")
    }

    /// Waits until at least so many requests have come.
    pub(crate) async fn has_seen(&self, count: usize) {
        until("requests at the backend", async || {
            let seen = self.notes.asked.lock().len();
            (seen >= count)
                .then_some(())
                .ok_or_else(|| format!("{seen} of {count} came"))
        })
        .await;
    }

    /// Waits until so many connections are open.
    pub(crate) async fn has_open(&self, count: usize) {
        until("connections to the backend", async || {
            let open = self.notes.open.load(Ordering::SeqCst);
            (open == count)
                .then_some(())
                .ok_or_else(|| format!("{open} are open, not {count}"))
        })
        .await;
    }

    /// Waits until so many requests are under way.
    pub(crate) async fn has_under_way(&self, count: usize) {
        until("requests under way at the backend", async || {
            let now = self.notes.under_way.load(Ordering::SeqCst);
            (now == count)
                .then_some(())
                .ok_or_else(|| format!("{now} are under way, not {count}"))
        })
        .await;
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    most: Option<u32>,
    script: Arc<Script>,
    notes: Arc<Notes>,
) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let number = notes.accepted.fetch_add(1, Ordering::SeqCst);
        notes.open.fetch_add(1, Ordering::SeqCst);
        let (tls, script, notes) = (tls.clone(), Arc::clone(&script), Arc::clone(&notes));
        tokio::spawn(async move {
            converse(stream, tls, most, number, script, &notes).await;
            notes.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn converse(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    most: Option<u32>,
    number: usize,
    script: Arc<Script>,
    notes: &Arc<Notes>,
) {
    match tls {
        None => serve(stream, most, number, script, notes).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve(stream, most, number, script, notes).await;
            }
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    most: Option<u32>,
    number: usize,
    script: Arc<Script>,
    notes: &Arc<Notes>,
) {
    let mut builder = Builder::new();
    if let Some(most) = most {
        builder.max_concurrent_streams(most);
    }
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else {
        return;
    };
    let (order, mut orders) = tokio::sync::mpsc::unbounded_channel();
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let (script, notes) = (Arc::clone(&script), Arc::clone(notes));
                let order = order.clone();
                tokio::spawn(async move {
                    let now = notes.under_way.fetch_add(1, Ordering::SeqCst) + 1;
                    notes.most.fetch_max(now, Ordering::SeqCst);
                    // One that weir gives up is what some tests are about.
                    let _given_up = answer(request, respond, number, &*script, &notes, &order).await;
                    notes.under_way.fetch_sub(1, Ordering::SeqCst);
                });
            }
            Some(()) = orders.recv() => connection.graceful_shutdown(),
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    number: usize,
    script: &Script,
    notes: &Notes,
    order: &tokio::sync::mpsc::UnboundedSender<()>,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let asked = Asked {
        connection: number,
        method: head.method,
        uri: head.uri,
        headers: head.headers,
        body: Vec::new(),
        trailers: HeaderMap::new(),
        whole: body.is_end_stream(),
        reset: None,
    };
    let plays = script(&asked);
    let index = {
        let mut all = notes.asked.lock();
        all.push(asked);
        all.len() - 1
    };
    let note = |change: &dyn Fn(&mut Asked)| {
        if let Some(asked) = notes.asked.lock().get_mut(index) {
            change(asked);
        }
    };
    let mut said: Option<SendStream<Bytes>> = None;
    for play in plays {
        match play {
            Play::Read => {
                while let Some(bytes) = body.data().await {
                    let bytes =
                        bytes.inspect_err(|broken| note(&|it| it.reset = broken.reason()))?;
                    body.flow_control().release_capacity(bytes.len())?;
                    note(&|asked| asked.body.extend(&bytes));
                }
                if let Some(trailers) = body.trailers().await? {
                    note(&|asked| asked.trailers = trailers.clone());
                }
                note(&|asked| asked.whole = true);
            }
            Play::Hint(status) => respond.send_informational(response(status, vec![]))?,
            Play::Head(status, fields) => {
                said = Some(respond.send_response(response(status, fields), false)?);
            }
            Play::HeadOnly(status, fields) => {
                respond.send_response(response(status, fields), true)?;
            }
            Play::Say(text) => say(said.as_mut(), text.into(), false).await?,
            Play::End(text) => say(said.as_mut(), text.into(), true).await?,
            Play::Trailers(fields) => {
                let said = said.as_mut().expect("a head before");
                said.send_trailers(response(200, fields).into_parts().0.headers)?;
            }
            Play::Echo => {
                while let Some(bytes) = body.data().await {
                    let bytes = bytes?;
                    body.flow_control().release_capacity(bytes.len())?;
                    say(said.as_mut(), bytes, false).await?;
                }
            }
            Play::Wait(span) => tokio::time::sleep(span).await,
            Play::Held => {
                let gate = notes.held.as_ref().expect("a gate");
                let reset = std::future::poll_fn(|cx| match &mut said {
                    Some(said) => said.poll_reset(cx),
                    None => respond.poll_reset(cx),
                });
                tokio::select! {
                    permit = gate.acquire() => permit.expect("a gate that stays").forget(),
                    reset = reset => {
                        let reset = reset?;
                        note(&|asked| asked.reset = Some(reset));
                        return Ok(());
                    }
                }
            }
            Play::Shutdown => order.send(()).expect("a connection"),
        }
    }
    Ok(())
}

/// Sends as weir makes room.
async fn say(
    stream: Option<&mut SendStream<Bytes>>,
    mut bytes: Bytes,
    is_last: bool,
) -> Result<(), h2::Error> {
    let stream = stream.expect("a head before");
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let room = room.unwrap_or(Err(Reason::STREAM_CLOSED.into()))?;
        let part = bytes.split_to(room.min(bytes.len()));
        stream.send_data(part, false)?;
    }
    if is_last {
        stream.send_data(Bytes::new(), true)?;
    }
    Ok(())
}

fn response(status: u16, fields: Vec<(&'static str, String)>) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status.try_into().expect("a status");
    for (name, value) in fields {
        let value = HeaderValue::try_from(value).expect("a value");
        response
            .headers_mut()
            .append(HeaderName::from_static(name), value);
    }
    response
}
