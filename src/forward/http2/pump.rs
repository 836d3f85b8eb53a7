//! How does a request's body go out over HTTP/2?

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use http_body::{Body as _, Frame};
use tokio::task::JoinHandle;

use super::link::Share;
use crate::forward::body::{BodyError, RequestBody};
use crate::forward::client::RequestBytes;

/// A request's body under way. Dropped before its end, the stream is reset.
#[derive(Debug)]
pub(in crate::forward) struct Pumped<B> {
    task: Option<JoinHandle<RequestBody<B>>>,
    _share: Arc<Share>,
}

impl<B> Pumped<B> {
    /// A request without a body.
    pub(super) fn none(share: Arc<Share>) -> Self {
        Self {
            task: None,
            _share: share,
        }
    }

    /// The answer is whole: what the client still sends goes out all the same, as
    /// long as the upstream takes it.
    pub(in crate::forward) fn finish(mut self) {
        self.task = None;
    }

    /// The body, once its stream has ended.
    pub(super) async fn returned(mut self) -> Option<RequestBody<B>> {
        match &mut self.task {
            Some(task) => task.await.ok(),
            None => None,
        }
    }
}

impl<B> Drop for Pumped<B> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Begins to send a body.
pub(super) fn pump<B: RequestBytes>(
    mut body: RequestBody<B>,
    mut stream: SendStream<Bytes>,
    share: Arc<Share>,
) -> Pumped<B> {
    let held = Arc::clone(&share);
    body.keep();
    let task = tokio::spawn(async move {
        // A stream that ended early is told to the one who awaits its answer.
        if let Ok(Some(reset)) = flow(&mut body, &mut stream).await {
            stream.send_reset(reset);
        }
        drop(held);
        body
    });
    Pumped {
        task: Some(task),
        _share: share,
    }
}

/// Sends to the body's end; with how to break the stream off where the body did.
async fn flow<B: RequestBytes>(
    body: &mut RequestBody<B>,
    stream: &mut SendStream<Bytes>,
) -> Result<Option<Reason>, h2::Error> {
    loop {
        let frame = match next(body, stream).await? {
            None => return stream.send_data(Bytes::new(), true).map(|()| None),
            Some(Err(_broken)) => return Ok(Some(Reason::CANCEL)),
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(bytes) => {
                let is_last = body.is_end_stream();
                send(stream, bytes, is_last).await?;
                if is_last {
                    return Ok(None);
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_else(|_| HeaderMap::new());
                stream.send_trailers(trailers)?;
                return Ok(None);
            }
        }
    }
}

/// What the client sends next, unless the upstream wants no more of it.
async fn next<B: RequestBytes>(
    body: &mut RequestBody<B>,
    stream: &mut SendStream<Bytes>,
) -> Result<Option<Result<Frame<Bytes>, BodyError>>, h2::Error> {
    poll_fn(|cx| {
        if let Poll::Ready(reset) = stream.poll_reset(cx) {
            return Poll::Ready(Err(reset.map_or_else(|broken| broken, h2::Error::from)));
        }
        Pin::new(&mut *body).poll_frame(cx).map(Ok)
    })
    .await
}

/// Sends bytes as the upstream makes room for them.
async fn send(
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    is_last: bool,
) -> Result<(), h2::Error> {
    if bytes.is_empty() && is_last {
        return stream.send_data(bytes, true);
    }
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = if stream.capacity() > 0 {
            stream.capacity()
        } else {
            match poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(room) => room?,
                None => return Err(Reason::STREAM_CLOSED.into()),
            }
        };
        let part = bytes.split_to(room.min(bytes.len()));
        if !part.is_empty() {
            stream.send_data(part, is_last && bytes.is_empty())?;
        }
    }
    Ok(())
}
