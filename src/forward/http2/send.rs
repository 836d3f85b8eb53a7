//! How is a request sent over a share of a connection, and was it surely not seen?

use std::sync::Arc;
use std::time::Duration;

use h2::Reason;
use http::{Request, Response};
use http_body::Body as _;

use super::link::{Link, Share};
use super::pump::{Pumped, pump};
use super::received::Received;
use crate::forward::body::{RequestBody, Upload};
use crate::forward::client::{RequestBytes, answered, broken};
use crate::forward::fault::Fault;
use crate::forward::patience::Patience;

/// A request that was not answered.
#[derive(Debug)]
pub(in crate::forward) struct Unanswered<B> {
    pub(in crate::forward) fault: Fault,
    /// The body from its beginning, where the upstream has surely not seen the
    /// request: it may be sent again.
    pub(in crate::forward) again: Option<RequestBody<B>>,
    /// The connection that it was refused on; none where it went stale.
    pub(in crate::forward) refused: Option<Arc<Link>>,
}

type Answered<B> = (Response<Received>, Pumped<B>, Patience);

/// Sends a request and awaits the head of its answer.
pub(in crate::forward) async fn send<B: RequestBytes>(
    mut share: Share,
    head: Request<()>,
    body: RequestBody<B>,
    upload: Option<&Upload>,
    timeout: Duration,
) -> Result<Answered<B>, Unanswered<B>> {
    let method = head.method().clone();
    let link = Arc::clone(&share.link);
    let written = link.written();
    let is_whole = body.is_end_stream();
    let (response, stream) = match share.sender.send_request(head, is_whole) {
        Ok(sent) => sent,
        // Not even a stream was opened for it.
        Err(failed) => {
            return Err(Unanswered {
                fault: broken(failed.into(), false, upload),
                again: Some(body),
                refused: None,
            });
        }
    };
    link.asked();
    let share = Arc::new(share);
    let (pumped, unread) = if is_whole {
        (Pumped::none(share), Some(body))
    } else {
        (pump(body, stream, share), None)
    };
    let mut patience = Patience::new(timeout);
    match answered(response, &mut patience, upload).await {
        Ok(Ok(response)) => {
            link.answered();
            Ok((Received::of(response, &method), pumped, patience))
        }
        Ok(Err(failed)) => {
            let refused = is_refused(&failed);
            let unseen = refused || link.written() == written;
            let again = match unread {
                _ if !unseen => None,
                Some(body) => Some(body),
                None => pumped.returned().await.and_then(RequestBody::rewound),
            };
            Err(Unanswered {
                fault: broken(failed.into(), !unseen, upload),
                again,
                refused: refused.then_some(link),
            })
        }
        Err(fault) => {
            // Hardly a sign of life: the next request goes elsewhere.
            if link.quiet_for() >= timeout / 2 {
                link.set_bad();
            }
            Err(Unanswered {
                fault,
                again: None,
                refused: None,
            })
        }
    }
}

/// Whether the upstream says that it has not looked at the request: by a reset
/// that says so, or a GOAWAY that names an earlier stream as the last (only then
/// does a stream end with it).
fn is_refused(failed: &h2::Error) -> bool {
    failed.is_remote()
        && (failed.is_go_away()
            || failed.is_reset() && failed.reason() == Some(Reason::REFUSED_STREAM))
}
