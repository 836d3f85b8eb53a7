//! What does a request look like on the wire, and how is its answer read?
//!
//! Only what the benchmark itself sends and expects: requests without a body, answers with a
//! `Content-Length`.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The request that every load sends unless it needs a key of its own.
pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: compare/1\r\n\
    Accept: */*\r\nX-Key: none\r\n\r\n";

/// The same under a key of fifteen bytes, as long as an IPv4 address at its longest.
pub(crate) fn keyed(key: u64) -> String {
    format!("GET / HTTP/1.1\r\nHost: bench.test\r\nX-Key: key-{key:011}\r\n\r\n")
}

/// What the backend says to every request.
pub(crate) const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n";

const HEAD_END: &[u8] = b"\r\n\r\n";
const READ_BUFFER: usize = 4096;

/// The length of the first head in `bytes`, its empty line included, once all of it is there.
pub(crate) fn head_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes
        .windows(HEAD_END.len())
        .position(|window| window == HEAD_END)?;
    Some(end + HEAD_END.len())
}

/// One keep-alive connection of a client that asks one thing at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        Ok(Self {
            stream,
            unread: Vec::with_capacity(READ_BUFFER),
        })
    }

    /// Sends `request` and returns the status of its answer, after all of its body has come.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<u16> {
        self.send(request).await?;
        self.answer().await
    }

    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await.context("send request")
    }

    async fn answer(&mut self) -> Result<u16> {
        loop {
            if let Some(answer) = Answer::parse(&self.unread)? {
                self.unread.drain(..answer.length);
                return Ok(answer.status);
            }
            let read = self.stream.read_buf(&mut self.unread).await;
            ensure!(
                read.context("read answer")? > 0,
                "connection closed before the answer"
            );
        }
    }

    /// Whether the other side has said anything, or hung up, since the last answer.
    pub(crate) fn was_answered(&self) -> bool {
        self.stream.try_read(&mut [0; 1]).is_ok()
    }
}

struct Answer {
    status: u16,
    /// Head and body.
    length: usize,
}

impl Answer {
    /// `None` until the answer is complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(head) = head_length(bytes) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(bytes.get(..head).unwrap_or_default())
            .context("answer's head isn't text")?;
        let status = text.get(9..12).and_then(|status| status.parse().ok());
        let Some(status) = status else {
            bail!("answer without a status: {text:?}");
        };
        let length = text.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let Some(body) = length else {
            bail!("answer without a Content-Length: {text:?}");
        };
        let length = head + body;
        Ok((bytes.len() >= length).then_some(Self { status, length }))
    }
}
