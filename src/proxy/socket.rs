//! Does a request ask for a WebSocket?

use http::request::Parts;
use http::{Method, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;

use crate::forward::is_websocket;

/// The client's connection for when a WebSocket is agreed on; none where none is
/// asked for. Any other upgrade is ignored, as RFC 9110 allows: the request is
/// served as one without, so that nothing gets past the limits.
pub(super) fn wanted(parts: &mut Parts, body: &Incoming) -> Option<OnUpgrade> {
    let asks = parts.method == Method::GET
        && parts.version == Version::HTTP_11
        && body.is_end_stream()
        && is_websocket(&parts.headers);
    let connection = parts.extensions.remove::<OnUpgrade>();
    connection.filter(|_| asks)
}
