//! What does a client of HTTP/2 do to weir?

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Request;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::certificates::client_tls;
use super::message::Fields;
use super::{Authority, soon};

/// One connection that requests share.
#[derive(Debug)]
pub(crate) struct Multiplexed {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// A request that was sent, and its answer to come.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) answer: ResponseFuture,
    pub(crate) body: SendStream<Bytes>,
}

/// What came back on a stream.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
}

impl Multiplexed {
    /// Without TLS: both sides know that it is HTTP/2.
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        Self::with(to, &client::Builder::new()).await
    }

    /// The same with settings of the test's own.
    pub(crate) async fn with(to: SocketAddr, settings: &client::Builder) -> Self {
        let stream = soon("a connection", TcpStream::connect(to)).await;
        Self::over(stream.expect("a connection"), settings).await
    }

    /// On a connection that is there.
    pub(crate) async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        settings: &client::Builder,
    ) -> Self {
        let (requests, connection) = soon("HTTP/2", settings.handshake(stream))
            .await
            .expect("HTTP/2");
        Self {
            requests,
            connection: tokio::spawn(connection),
        }
    }

    /// Begins a request; its body is to follow where it has one.
    pub(crate) async fn begin(&self, request: Request<()>, has_body: bool) -> Exchange {
        self.try_begin(request, has_body).await.expect("a stream")
    }

    pub(crate) async fn try_begin(
        &self,
        request: Request<()>,
        has_body: bool,
    ) -> Result<Exchange, h2::Error> {
        let ready = soon("room for a stream", self.requests.clone().ready()).await;
        let (answer, body) = ready?.send_request(request, !has_body)?;
        Ok(Exchange { answer, body })
    }

    /// Begins a `GET`.
    pub(crate) async fn asks(&self, path: &str) -> Exchange {
        self.begin(get(path), false).await
    }

    /// The answer to a `GET`.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.asks(path).await.reply().await
    }

    /// The answer to a `POST`.
    pub(crate) async fn post(&self, path: &str, body: &'static str) -> Reply {
        let mut exchange = self.begin(post(path), true).await;
        exchange.send(body, true);
        exchange.reply().await
    }

    /// How the connection ended.
    pub(crate) async fn ended(self) -> Result<(), h2::Error> {
        // Without these the client itself would end it.
        let requests = self.requests;
        let ended = soon("the connection's end", self.connection).await;
        drop(requests);
        ended.expect("no panic")
    }
}

impl Exchange {
    pub(crate) fn send(&mut self, body: &'static str, is_last: bool) {
        self.body
            .send_data(Bytes::from_static(body.as_bytes()), is_last)
            .expect("a stream");
    }

    /// Gives the request up.
    pub(crate) fn reset(mut self) {
        self.body.send_reset(h2::Reason::CANCEL);
    }

    pub(crate) async fn reply(self) -> Reply {
        self.try_reply().await.expect("a whole answer")
    }

    pub(crate) async fn try_reply(self) -> Result<Reply, h2::Error> {
        let response = soon("an answer", self.answer).await?;
        let (parts, mut body) = response.into_parts();
        let bytes = all(&mut body).await?;
        let trailers = soon("trailers", body.trailers()).await?.unwrap_or_default();
        let text = |value: &http::HeaderValue| value.to_str().expect("text").to_owned();
        Ok(Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: bytes,
            trailers: trailers
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
        })
    }
}

async fn all(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = soon("a body", body.data()).await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

impl Reply {
    /// The one value of a header; none where there is none.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().expect("text"));
        assert!(values.next().is_none(), "{name} has one value");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }
}

/// A `GET`, without a `Host`: HTTP/2 has `:authority`.
pub(crate) fn get(path: &str) -> Request<()> {
    of(http::Method::GET, path)
}

/// A `POST`.
pub(crate) fn post(path: &str) -> Request<()> {
    of(http::Method::POST, path)
}

fn of(method: http::Method, path: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .uri(format!("http://weir.test{path}"))
        .body(())
        .expect("a request")
}

/// A client's side of TLS that trusts this root, and what it and the server agreed on.
pub(crate) async fn over_tls(
    root: &Authority,
    to: SocketAddr,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(client_tls(root, protocols)));
    let stream = soon("a connection", TcpStream::connect(to)).await?;
    let name = ServerName::from(to.ip());
    soon("TLS", connector.connect(name, stream)).await
}

/// What was agreed on.
pub(crate) fn agreed(stream: &TlsStream<TcpStream>) -> Option<&str> {
    let protocol = stream.get_ref().1.alpn_protocol()?;
    std::str::from_utf8(protocol).ok()
}
