//! Where does an HTTP/1.1 message end, and what is in it?

use std::io;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The lines of a head, without the first.
pub(crate) type Fields = Vec<(String, String)>;

/// What a client got.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// When its last byte was there.
    pub(crate) at: Instant,
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
    /// Statuses of the answers before the last: `100`, `103`.
    pub(crate) interim: Vec<u16>,
    /// Whether it came in chunks.
    pub(crate) chunked: bool,
}

impl Response {
    /// The one value of a header; none where there is none.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let values = self.headers(name);
        assert!(values.len() < 2, "{name} has one value: {values:?}");
        values.first().copied()
    }

    /// All values of a header.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        named(&self.fields, name)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    /// The status that a problem's body repeats.
    pub(crate) fn problem_status(&self) -> u64 {
        let json = self.json();
        let status = json.get("status").and_then(serde_json::Value::as_u64);
        status.expect("a status in the body")
    }

    /// Seconds in `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let seconds = self.header("retry-after")?;
        Some(seconds.parse().expect("whole seconds"))
    }
}

pub(crate) fn named<'a>(fields: &'a Fields, name: &str) -> Vec<&'a str> {
    let of_name = fields
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name));
    of_name.map(|(_, value)| value.as_str()).collect()
}

/// Bytes as they come, read up to marks.
#[derive(Debug)]
pub(super) struct Incoming<S> {
    pub(super) stream: S,
    pub(super) buffer: Vec<u8>,
}

/// How a message says where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Bytes(usize),
    Chunks,
    /// Where the connection ends.
    Close,
}

impl<S: AsyncRead + Unpin> Incoming<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Takes in what comes next; zero at the end.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.buffer).await
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.fill().await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _some => Ok(()),
        }
    }

    /// The first `count` bytes.
    pub(super) async fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            self.more().await?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Everything up to `mark` and with it.
    pub(super) async fn up_to(&mut self, mark: &[u8]) -> io::Result<Vec<u8>> {
        let mut looked = 0;
        loop {
            let fresh = self.buffer.get(looked..).unwrap_or_default();
            let found = fresh.windows(mark.len()).position(|bytes| bytes == mark);
            if let Some(found) = found {
                return self.exactly(looked + found + mark.len()).await;
            }
            looked = self.buffer.len().saturating_sub(mark.len());
            self.more().await?;
        }
    }

    pub(super) async fn line(&mut self) -> io::Result<String> {
        let line = self.up_to(b"\r\n").await?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// The length of the next chunk, at whose bytes the stream then stands.
    pub(super) async fn chunk_size(&mut self) -> io::Result<usize> {
        let line = self.line().await?;
        let digits = line.split(';').next().unwrap_or_default();
        usize::from_str_radix(digits, 16).map_err(|_odd| io::ErrorKind::InvalidData.into())
    }

    /// The lines up to an empty one.
    pub(super) async fn fields(&mut self) -> io::Result<Fields> {
        let mut fields = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) = line.split_once(':').unwrap_or((line.as_str(), ""));
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// The next answer that isn't `1xx`.
    pub(super) async fn response(&mut self, to_head: bool) -> io::Result<Response> {
        let mut interim = Vec::new();
        loop {
            let line = self.line().await?;
            let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
            let status = status.ok_or(io::ErrorKind::InvalidData)?;
            let fields = self.fields().await?;
            if (100..200).contains(&status) && status != 101 {
                interim.push(status);
                continue;
            }
            let bodyless = to_head || matches!(status, 101 | 204 | 304);
            let length = if bodyless {
                Length::Bytes(0)
            } else {
                length(&fields).unwrap_or(Length::Close)
            };
            let (body, trailers) = self.body(length).await?;
            return Ok(Response {
                at: Instant::now(),
                status,
                fields,
                body,
                trailers,
                interim,
                chunked: length == Length::Chunks,
            });
        }
    }

    async fn body(&mut self, length: Length) -> io::Result<(Vec<u8>, Fields)> {
        match length {
            Length::Bytes(count) => Ok((self.exactly(count).await?, Vec::new())),
            Length::Close => {
                while self.fill().await? > 0 {}
                Ok((std::mem::take(&mut self.buffer), Vec::new()))
            }
            Length::Chunks => {
                let mut body = Vec::new();
                loop {
                    let size = self.chunk_size().await?;
                    if size == 0 {
                        return Ok((body, self.fields().await?));
                    }
                    body.extend(self.exactly(size).await?);
                    self.line().await?;
                }
            }
        }
    }
}

/// Where a message's body ends, if its head says so.
pub(super) fn length(fields: &Fields) -> Option<Length> {
    if named(fields, "transfer-encoding").contains(&"chunked") {
        return Some(Length::Chunks);
    }
    let count = named(fields, "content-length").first()?.parse().ok()?;
    Some(Length::Bytes(count))
}
