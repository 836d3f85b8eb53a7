//! How does a client come to speak WebSocket with an upstream?

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Response, StatusCode, Uri, Version};
use hyper::upgrade::OnUpgrade;

use super::answer::Answer;
use super::body::{RequestBody, Upload};
use super::client::{Attempt, Client, RequestBytes};
use super::fault::{Fault, FaultKind};
use super::headers::{clean_answer, to_client};
use super::http1;
use super::target::Protocol;
use super::tunnel::Tunnel;
use crate::bucket::Permit;

const WEBSOCKET: &str = "websocket";

/// The upstream's protocol has no way to upgrade a connection.
#[derive(Debug, thiserror::Error)]
#[error("WebSockets go over HTTP/1.1, and the upstream's protocol is set to h2")]
struct NoUpgrade;

/// Whether a head asks for a WebSocket, or agrees to one.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    lists(headers, &CONNECTION, "upgrade") && lists(headers, &UPGRADE, WEBSOCKET)
}

/// Makes a head ask for a WebSocket, or agree to one: nothing else is upgraded to.
pub fn to_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
}

fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let lines = headers.get_all(name).iter();
    let mut words = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    words.any(|found| found.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

impl<B: RequestBytes> Client<B> {
    /// Sends a request that asks for a WebSocket, once, on a connection of its own.
    pub async fn send_upgrade(
        &self,
        mut parts: Box<Parts>,
        path: PathAndQuery,
        body: RequestBody<B>,
        upload: Option<Arc<Upload>>,
    ) -> Result<Answer<B>, Fault> {
        if self.target().protocol == Protocol::Http2 {
            return Err(Fault::unsent(FaultKind::NoUpgrade, NoUpgrade.into()));
        }
        parts.uri = Uri::from(path);
        parts.version = Version::HTTP_11;
        let mut lease = self.lease(self.dialer.dial_http1().await?);
        lease.keep();
        match http1::send(lease, true, parts, body, upload.as_ref()).await? {
            Attempt::Answered(answer) => Ok(answer),
            // A fresh connection gives nothing back.
            Attempt::Again(..) => Err(Fault::too_slow()),
        }
    }
}

impl<B: Send + 'static> Answer<B> {
    /// Whether the upstream agrees to a WebSocket.
    pub fn is_switching(&self) -> bool {
        self.status() == StatusCode::SWITCHING_PROTOCOLS && is_websocket(self.headers())
    }

    /// The answer that tells the client so, with both ends.
    pub fn switch(mut self, client: OnUpgrade, permit: Permit) -> Response<Tunnel> {
        let patience = self.response.body_mut().patience();
        let patience = patience.map_or(Duration::ZERO, |patience| patience.most());
        let version = self.response.version();
        let mut response = self.response.map(|arriving| {
            let upstream = arriving.into_wire();
            Tunnel::new(client, upstream, patience, permit)
        });
        clean_answer(response.headers_mut());
        to_client(response.headers_mut(), version);
        to_websocket(response.headers_mut());
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_websocket_is_asked_for_with_both_headers() {
        let asks = |lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_static(value));
            }
            is_websocket(&headers)
        };
        let connection = ("connection", "keep-alive, Upgrade");
        assert!(asks(&[connection, ("upgrade", "WebSocket")]));
        assert!(asks(&[
            ("connection", "close"),
            ("connection", "upgrade"),
            ("upgrade", "h2c, websocket")
        ]));
        for lines in [
            &[connection][..],
            &[("upgrade", "websocket")],
            &[connection, ("upgrade", "h2c")],
            &[connection, ("upgrade", "websocket/13")],
            &[("connection", "x-upgrade"), ("upgrade", "websocket")],
        ] {
            assert!(!asks(lines), "{lines:?}");
        }
    }
}
