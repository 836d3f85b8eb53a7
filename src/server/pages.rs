//! How does a request reach the admin pages?

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tower_service::Service as _;

use crate::admin::From;
use crate::peer::Peer;

/// An answer; when it has ended its client may ask again, within the time for that.
pub(super) struct Page {
    body: Body,
    _asking: Asking,
}

/// A client whose request is being answered.
struct Asking(Arc<Peer>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.answered(Instant::now());
    }
}

/// Answers a request of the admin listener.
pub(super) async fn page(
    mut router: Router,
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> Result<Response<Page>, Infallible> {
    peer.asked();
    let asking = Asking(peer);
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(From(asking.0.ip()));
    let response = router.call(request).await?;
    Ok(response.map(|body| Page {
        body,
        _asking: asking,
    }))
}

impl HttpBody for Page {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
