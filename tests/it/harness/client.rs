//! What does a client do to weir, and what does it get?

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::message::{Incoming, Response};
use super::{GLANCE, Request, Weir, soon};

/// One connection to weir.
#[derive(Debug)]
pub(crate) struct Client {
    incoming: Incoming<TcpStream>,
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        Self::connect_from(Ipv4Addr::LOCALHOST, to).await
    }

    /// Connects from one of the addresses of this machine, all of `127.0.0.0/8`.
    pub(crate) async fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let from = SocketAddr::new(IpAddr::V4(from), 0);
        socket.bind(from).expect("a local address");
        let stream = soon("a connection", socket.connect(to))
            .await
            .expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self {
            incoming: Incoming::new(stream),
        }
    }

    /// A connection, where anybody takes it.
    pub(crate) async fn try_connect(to: SocketAddr) -> io::Result<Self> {
        let stream = soon("a connection", TcpStream::connect(to)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            incoming: Incoming::new(stream),
        })
    }

    /// Writes bytes, all of them.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.expect("weir takes the bytes");
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let write = self.incoming.stream.write_all(bytes.as_ref());
        soon("room for the bytes", write).await
    }

    /// Writes as much as there is room for on the way; nobody need read it.
    pub(crate) async fn send_what_fits(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let write = self.incoming.stream.write(rest);
            let Ok(written) = tokio::time::timeout(GLANCE, write).await else {
                return;
            };
            rest = rest.get(written.expect("room")..).unwrap_or_default();
        }
    }

    /// The next answer.
    pub(crate) async fn response(&mut self) -> Response {
        self.try_response().await.expect("a whole answer")
    }

    pub(crate) async fn try_response(&mut self) -> io::Result<Response> {
        soon("an answer", self.incoming.response(false)).await
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn ask(&mut self, request: &Request) -> Response {
        self.send(request.bytes()).await;
        self.response().await
    }

    pub(crate) async fn get(&mut self, target: &str) -> Response {
        self.ask(&Request::get(target)).await
    }

    /// The answer to a `HEAD`, which has no body.
    pub(crate) async fn head(&mut self, target: &str) -> Response {
        self.send(Request::new("HEAD", target).bytes()).await;
        soon("an answer", self.incoming.response(true))
            .await
            .expect("a whole answer")
    }

    /// The next bytes, at least one; none at the end.
    pub(crate) async fn some(&mut self) -> Vec<u8> {
        if self.incoming.buffer.is_empty() {
            let _read = soon("bytes", self.incoming.fill()).await;
        }
        std::mem::take(&mut self.incoming.buffer)
    }

    /// Whether nothing comes for so long, not even the end.
    pub(crate) async fn is_silent_for(&mut self, span: Duration) -> bool {
        let nothing_yet = self.incoming.buffer.is_empty();
        nothing_yet
            && tokio::time::timeout(span, self.incoming.fill())
                .await
                .is_err()
    }

    /// All that still comes until the connection ends, one way or another.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let end = async { while self.incoming.fill().await.is_ok_and(|read| read > 0) {} };
        soon("the connection's end", end).await;
        std::mem::take(&mut self.incoming.buffer)
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn finish(&mut self) {
        self.incoming
            .stream
            .shutdown()
            .await
            .expect("a connection to shut");
    }

    /// Leaves with a reset.
    pub(crate) fn reset(self) {
        SockRef::from(&self.incoming.stream)
            .set_linger(Some(Duration::ZERO))
            .expect("a linger of zero");
    }

    /// Takes in little at a time, as a slow reader does.
    pub(crate) fn narrow(&self) {
        SockRef::from(&self.incoming.stream)
            .set_recv_buffer_size(4_096)
            .expect("a small buffer");
    }
}

/// So many connections.
pub(crate) async fn clients(weir: &Weir, count: usize) -> Vec<Client> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        clients.push(weir.client().await);
    }
    clients
}

/// The next answer to each, in the order of the clients.
pub(crate) async fn responses(clients: Vec<Client>) -> Vec<Response> {
    let mut reading = JoinSet::new();
    for (index, mut client) in clients.into_iter().enumerate() {
        reading.spawn(async move { (index, client.response().await) });
    }
    let mut responses = reading.join_all().await;
    responses.sort_by_key(|(index, _)| *index);
    responses
        .into_iter()
        .map(|(_, response)| response)
        .collect()
}
