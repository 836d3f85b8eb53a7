//! Does hyper read the same, in what weir writes and in what it reads?

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::received::poll_next;
use super::sending::Sending;
use super::{Wire, head};
use crate::forward::body::{BoxError, RequestBody};
use crate::forward::client::Attempt;
use crate::forward::headers::clean_answer;
use crate::forward::patience::Patience;
use crate::forward::pool::Pool;

const MINUTE: Duration = Duration::from_mins(1);

/// A message as it was understood.
#[derive(Debug, PartialEq)]
struct Read {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

type Frames =
    StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, BoxError>>>>;

fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let work = async { tokio::time::timeout(Duration::from_secs(20), work).await };
    let done = runtime.expect("a runtime").block_on(work);
    done.expect("an end")
}

/// Says `bytes` in parts of these sizes, and no more, once it was `asked`.
fn saying(bytes: Vec<u8>, parts: Vec<usize>, asked: bool) -> DuplexStream {
    let (mut ours, theirs) = duplex(1 << 20);
    tokio::spawn(async move {
        if asked {
            ours.read_u8().await.expect("a request");
        }
        let mut rest = &bytes[..];
        for part in parts.into_iter().chain([usize::MAX]) {
            let (now, later) = rest.split_at(part.min(rest.len()));
            // Whoever hears enough may leave.
            if ours.write_all(now).await.is_err() {
                return;
            }
            rest = later;
            tokio::task::yield_now().await;
        }
        let _left = ours.shutdown().await;
        tokio::time::sleep(MINUTE).await;
    });
    theirs
}

async fn by_weir(stream: DuplexStream, method: &Method) -> Result<Read, BoxError> {
    let mut wire = Wire::new(stream);
    let mut head = loop {
        match head::read(&mut wire.buffer, method == Method::HEAD)? {
            Some(head) if head.response.status().is_informational() => (),
            Some(head) => break head,
            None if poll_fn(|cx| wire.poll_fill(cx)).await? == 0 => return Err("an end".into()),
            None => (),
        }
    };
    let mut read = Read {
        status: head.response.status().as_u16(),
        headers: head.response.headers().clone(),
        body: Vec::new(),
        trailers: None,
    };
    while let Some(frame) = poll_fn(|cx| poll_next(&mut wire, &mut head.length, cx)).await {
        match frame?.into_data() {
            Ok(data) => read.body.extend_from_slice(&data),
            Err(frame) => read.trailers = frame.into_trailers().ok(),
        }
    }
    Ok(read)
}

async fn by_hyper(stream: DuplexStream, method: &Method) -> Result<Read, BoxError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .body(Empty::<Bytes>::new())?;
    let (mut parts, body) = sender.send_request(request).await?.into_parts();
    clean_answer(&mut parts.headers);
    let body = body.collect().await?;
    let trailers = body.trailers().cloned();
    Ok(Read {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.to_bytes().to_vec(),
        trailers,
    })
}

/// A head's lines and a body that more or less fit together.
fn answers() -> impl Strategy<Value = String> {
    let status = prop_oneof![
        "HTTP/1\\.[01] (200 OK|204 None|304 Same|404 |299 \\PC{0,9})",
        "\\PC{0,15}"
    ];
    let before = prop_oneof![6 => Just(""), 1 => Just("HTTP/1.1 100 Continue\r\n\r\n"), 1 => Just("HTTP/1.1 103 Hints\r\nX: y\r\n\r\n")];
    let line = prop_oneof![
        "[a-zA-Z-]{1,9}: [ -~]{0,9}",
        "X[ :]{0,2}\\PC{0,5}",
        Just("Connection: close, X".to_owned()),
        Just("Keep-Alive: 1".to_owned())
    ];
    let lines = prop::collection::vec(line, 0..4);
    let chunk = prop_oneof![
        "[0-9a-f]{1,2}(;[a-z=]{0,5})?\r\n[a-z]{0,20}\r\n",
        "1\r\nx\r\n",
        "3\r\nabc\r\n",
        "03;x\r\nabc\r\n",
        "\\PC{0,9}"
    ];
    let chunks = prop::collection::vec(chunk, 0..5);
    let end = prop_oneof![3 => Just("0\r\n\r\n"), 2 => Just("0\r\nX-Sum: 1\r\nB: c\r\n\r\n"), 1 => Just("0\r\n"), 1 => Just(""), 1 => Just("0\r\n\r\nmore")];
    let chunked = (chunks, end).prop_map(|(chunks, end)| {
        format!("Transfer-Encoding: chunked\r\n\r\n{}{end}", chunks.concat())
    });
    let counted = (0..12_usize, "[a-z]{0,12}")
        .prop_map(|(length, body)| format!("Content-Length: {length}\r\n\r\n{body}"));
    let fitting =
        "[a-z]{0,12}".prop_map(|body| format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let open = "[a-z]{0,12}".prop_map(|body| format!("\r\n{body}"));
    let rest = prop_oneof![4 => chunked, 1 => counted, 2 => fitting, 1 => open, 1 => "\\PC{0,20}"];
    (before, status, lines, rest).prop_map(|(before, status, lines, rest)| {
        let lines = lines.join("\r\n") + if lines.is_empty() { "" } else { "\r\n" };
        format!("{before}{status}\r\n{lines}{rest}")
    })
}

proptest! {
    /// What weir takes for an answer, hyper takes for the same, however it comes in.
    #[test]
    fn an_answer_is_read_as_hyper_reads_it(
        answer in answers(),
        parts in prop::collection::vec(1..40_usize, 0..12),
        method in prop_oneof![4 => Just(Method::GET), 1 => Just(Method::HEAD)],
    ) {
        let (ours, theirs) = in_a_runtime(async {
            let ours = by_weir(saying(answer.clone().into_bytes(), parts, false), &method).await;
            (ours, by_hyper(saying(answer.clone().into_bytes(), Vec::new(), true), &method).await)
        });
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours, theirs),
            (Ok(ours), Err(theirs)) => prop_assert!(false, "{ours:?}, but {theirs:?}"),
            // weir is the stricter one about lengths alone.
            (Err(ours), Ok(theirs)) => prop_assert!(
                ours.to_string().contains("how long") && theirs.status > 0,
                "{ours}, but {theirs:?}"
            ),
            (Err(_), Err(_)) => (),
        }
    }

    /// What weir writes, hyper reads as the request that it was.
    #[test]
    fn a_request_is_written_so_that_hyper_reads_it(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..6),
        known in any::<bool>(),
        with_trailers in any::<bool>(),
        room in 1..200_usize,
    ) {
        let whole = bodies.concat();
        let mut frames: Vec<Result<Frame<Bytes>, BoxError>> = bodies
            .into_iter()
            .map(|body| Ok(Frame::data(body.into())))
            .collect();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("1"));
        let with_trailers = with_trailers && !known;
        if with_trailers {
            frames.push(Ok(Frame::trailers(trailers.clone())));
        }
        let has_body = !frames.is_empty();
        let (target, body, seen) = in_a_runtime(async {
            let (ours, theirs) = duplex(room);
            let (tell, mut told) = mpsc::channel(1);
            let service = service_fn(move |request: Request<Incoming>| {
                let tell = tell.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await?;
                    let seen = body.trailers().cloned();
                    tell.send((parts, body.to_bytes(), seen)).await.expect("a listener");
                    Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
                }
            });
            let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
            tokio::spawn(served);
            let request = Request::post("/a%2F?b").header("host", "a").header("trailer", "x-sum");
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            let body = StreamBody::new(futures_util::stream::iter(frames));
            let (body, _) = RequestBody::new(Sized { body, length: known.then_some(whole.len()) }, MINUTE, u64::MAX);
            let mut sending = Sending::new(&parts, body);
            // What keeps bytes back until it is flushed, as TLS does.
            let mut wire = Wire::new(BufStream::new(ours));
            let sent = poll_fn(|cx| {
                let polled = sending.poll(&mut wire, cx);
                assert_eq!(sending.is_done(), polled.is_ready());
                polled
            });
            sent.await.expect("sent");
            let (parts, body, seen) = told.recv().await.expect("a request");
            (parts.uri, body, seen)
        });
        prop_assert_eq!(target, "/a%2F?b");
        prop_assert_eq!(body, whole);
        let expected = (with_trailers && has_body).then_some(trailers);
        prop_assert_eq!(seen, expected);
    }
}

/// Frames whose size may be known.
struct Sized {
    body: Frames,
    length: Option<usize>,
}

impl http_body::Body for Sized {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        std::pin::Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.length == Some(0)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        let length = self
            .length
            .map(|length| http_body::SizeHint::with_exact(length as u64));
        length.unwrap_or_default()
    }
}

/// A connection that the other side has reset.
async fn dead() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (other, _) = listener.accept().await.expect("a connection");
    other.set_zero_linger().expect("an option");
    drop(other);
    // Not asked of tokio, which would keep the answer in mind.
    tokio::time::sleep(Duration::from_millis(20)).await;
    stream
}

#[tokio::test]
async fn a_request_of_which_nothing_could_be_written_comes_back_whole() {
    for (fresh, text) in [
        (false, "payment"),
        (true, "payment"),
        (false, ""),
        (true, ""),
    ] {
        let pool = Pool::default();
        let stream = MaybeHttpsStream::Http(TokioIo::new(dead().await));
        let lease = pool.lease(Wire::new(TokioIo::new(stream)), Patience::new(MINUTE));
        let request = Request::post("/").body(()).expect("a request");
        let (parts, ()) = request.into_parts();
        let body = http_body_util::Full::new(Bytes::from_static(text.as_bytes()));
        let (body, upload) = RequestBody::new(body, MINUTE, u64::MAX);
        let sent = super::send(lease, fresh, Box::new(parts), body, upload.as_ref()).await;
        match sent {
            Ok(Attempt::Again(parts, body, _)) => {
                assert!(!fresh);
                assert_eq!(parts.method, Method::POST);
                let body = body.collect().await.expect("a body").to_bytes();
                assert_eq!(body, text);
            }
            Ok(Attempt::Answered(answer)) => panic!("{answer:?}"),
            Err(fault) => {
                assert!(fresh, "{fault:?}");
                assert!(!fault.may_have_seen, "{fault:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_unused_connection_that_ended_or_spoke_is_not_used_again() {
    for says in [None, Some("HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (mut other, _) = listener.accept().await.expect("a connection");
        let stream = MaybeHttpsStream::Http(TokioIo::new(stream));
        let pool = Pool::default();
        let wire = Wire::new(TokioIo::new(stream));
        pool.lease(wire, Patience::new(MINUTE)).release();
        pool.take().expect("an open connection").release();
        pool.sweep();
        match says {
            Some(unasked) => other.write_all(unasked.as_bytes()).await.expect("room"),
            None => drop(other),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(pool.take().is_none());
    }
}
