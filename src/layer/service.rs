//! Which way does a request take to a service that a limit stands before?

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::{Either, Full};
use tower_service::Service;

use super::limits::Limits;
use super::reading::Reading;
use crate::proxy::prefer_wait;
use crate::respond::{Dialect, LimitFields, Rejection};

static SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The service's own body, or that of a refusal.
pub type Answer<B> = Either<B, Full<Bytes>>;

/// A service with a limit before it. Made by [`super::LimitLayer`].
#[derive(Clone, Debug)]
pub struct Limited<S> {
    inner: S,
    limits: Arc<Limits>,
    reading: Reading,
}

impl<S> Limited<S> {
    pub(super) fn new(inner: S, limits: Arc<Limits>, reading: Reading) -> Self {
        Self {
            inner,
            limits,
            reading,
        }
    }
}

impl<S, B, R> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: 'static,
{
    type Response = Response<Answer<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    /// Always: whoever waits for its turn holds nothing of the service, which is asked
    /// whether it is ready when the turn has come.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self {
            inner,
            limits,
            reading,
        } = self.clone();
        Box::pin(serve(inner, limits, reading, request))
    }
}

async fn serve<S, B, R>(
    mut inner: S,
    limits: Arc<Limits>,
    reading: Reading,
    request: Request<B>,
) -> Result<Response<Answer<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    let (parts, body) = request.into_parts();
    let dialect = Dialect::of(&parts.headers);
    let refused = |rejection: &Rejection| {
        let answer = rejection.answer_in(dialect);
        answer.map(|body| Either::Right(Full::new(body)))
    };
    let claims = match limits.claims(&parts, &reading) {
        Ok(claims) => claims,
        Err(rejection) => return Ok(refused(&rejection)),
    };
    let max_wait = prefer_wait(&parts.headers);
    let mut answer = match limits.wait(&claims, max_wait).await {
        Ok(waited) => {
            poll_fn(|context| inner.poll_ready(context)).await?;
            let answer = inner.call(Request::from_parts(parts, body)).await?;
            let mut answer = answer.map(Either::Left);
            told(waited, answer.headers_mut());
            answer
        }
        Err(rejection) => refused(&rejection),
    };
    LimitFields::of(&claims, max_wait).write(answer.headers_mut(), false);
    Ok(answer)
}

/// Says how long a request waited for its turn.
fn told(waited: Option<Duration>, headers: &mut HeaderMap) {
    let timing = waited.map(|waited| format!("queue;dur={:.3}", waited.as_secs_f64() * 1e3));
    if let Some(Ok(timing)) = timing.map(HeaderValue::try_from) {
        headers.append(&SERVER_TIMING, timing);
    }
}
