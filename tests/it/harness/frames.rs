//! What does an HTTP/2 server do that no library would?

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::serving::Serving;
use super::until;

const PREFACE: usize = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END: u8 = 1;
const WHOLE_HEAD: u8 = 4;
const ACK: u8 = 1;

/// A server that speaks frames of HTTP/2 as it is told. What is asked for it
/// can't read; it knows requests by their number.
#[derive(Debug)]
pub(crate) struct Frames {
    address: SocketAddr,
    notes: Arc<Notes>,
    _serving: Serving,
}

/// A request, by its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Counted from 0, as the next.
    pub(crate) connection: usize,
    /// Among all requests.
    pub(crate) number: usize,
    pub(crate) stream: u32,
}

/// What follows a request, as soon as its body is there.
#[derive(Clone, Debug)]
pub(crate) enum Then {
    Send(Vec<u8>),
    Close,
    Reset,
    /// Reads nothing more, and answers no ping.
    Stall,
}

#[derive(Debug, Default)]
struct Notes {
    accepted: AtomicUsize,
    requests: AtomicUsize,
    resets: Mutex<Vec<u32>>,
}

type Script = dyn Fn(Place) -> Vec<Then> + Send + Sync;

/// `200` and a body.
pub(crate) fn ok(stream: u32) -> Vec<u8> {
    [head(stream, false), said(stream, "ok", true)].concat()
}

/// The head of a `200`.
pub(crate) fn head(stream: u32, is_all: bool) -> Vec<u8> {
    // Entry 8 of HPACK's table.
    let flags = WHOLE_HEAD | if is_all { END } else { 0 };
    frame(HEADERS, flags, stream, &[0x88])
}

/// A part of a body.
pub(crate) fn said(stream: u32, text: &str, is_last: bool) -> Vec<u8> {
    frame(DATA, u8::from(is_last), stream, text.as_bytes())
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// No stream after `last` was looked at.
pub(crate) fn go_away(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

impl Frames {
    pub(crate) fn answering(script: impl Fn(Place) -> Vec<Then> + Send + Sync + 'static) -> Self {
        Self::beginning(frame(SETTINGS, 0, 0, &[]), script)
    }

    /// One whose connections begin with these bytes.
    pub(crate) fn beginning(
        begin: Vec<u8>,
        script: impl Fn(Place) -> Vec<Then> + Send + Sync + 'static,
    ) -> Self {
        let notes = Arc::<Notes>::default();
        let noted = Arc::clone(&notes);
        let script: Arc<Script> = Arc::new(script);
        let (address, serving) =
            Serving::begin(move |listener| accept(listener, begin, script, noted));
        Self {
            address,
            notes,
            _serving: serving,
        }
    }

    /// The tables of a config with a route `main` to it, the upstream `main`.
    pub(crate) fn route(&self, upstream: &str, route: &str) -> String {
        format!(
            "[upstreams.main]\nurl = \"http://{}\"\nprotocol = \"h2\"\n{upstream}\n\
             [[routes]]\nname = \"main\"\npath = \"/\"\nupstream = \"main\"\n{route}\n",
            self.address
        )
    }

    /// Requests that have come so far.
    pub(crate) fn requests(&self) -> usize {
        self.notes.requests.load(Ordering::SeqCst)
    }

    /// Streams that weir has reset so far.
    pub(crate) fn resets(&self) -> Vec<u32> {
        self.notes.resets.lock().clone()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.notes.accepted.load(Ordering::SeqCst)
    }

    pub(crate) async fn has_seen(&self, count: usize) {
        until("requests at the backend", async || {
            let seen = self.requests();
            (seen >= count)
                .then_some(())
                .ok_or_else(|| format!("{seen} of {count} came"))
        })
        .await;
    }
}

async fn accept(listener: TcpListener, begin: Vec<u8>, script: Arc<Script>, notes: Arc<Notes>) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let number = notes.accepted.fetch_add(1, Ordering::SeqCst);
        let (begin, script, notes) = (begin.clone(), Arc::clone(&script), Arc::clone(&notes));
        tokio::spawn(async move {
            // A connection that breaks off is what many tests are about.
            let _broken = converse(stream, &begin, number, &*script, &notes).await;
        });
    }
}

async fn converse(
    mut stream: TcpStream,
    begin: &[u8],
    number: usize,
    script: &Script,
    notes: &Notes,
) -> io::Result<()> {
    stream.write_all(begin).await?;
    let mut preface = [0; PREFACE];
    stream.read_exact(&mut preface).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, rest @ ..] = head;
        let id = u32::from_be_bytes(rest);
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await?;
        match kind {
            SETTINGS if flags & ACK == 0 => {
                stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
            }
            PING if flags & ACK == 0 => {
                stream.write_all(&frame(PING, ACK, 0, &payload)).await?;
            }
            RST_STREAM => notes.resets.lock().push(id),
            _ => (),
        }
        if !matches!(kind, HEADERS | DATA) || flags & END == 0 {
            continue;
        }
        let place = Place {
            connection: number,
            number: notes.requests.fetch_add(1, Ordering::SeqCst),
            stream: id,
        };
        for then in script(place) {
            match then {
                Then::Send(bytes) => stream.write_all(&bytes).await?,
                Then::Close => return Ok(()),
                Then::Reset => {
                    return SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                }
                Then::Stall => std::future::pending().await,
            }
        }
    }
}
