//! Which way does a request take?

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use hyper::body::{Body as _, Incoming};

use super::account::Account;
use super::app::{App, Edition, Upstream, Worker};
use super::claim::{find, label};
use super::outgoing::{Content, Outgoing};
use super::send::send;
use super::socket::wanted;
use crate::bucket::{Pass, Places, Unserved};
use crate::forward::{Fault, ParkedHead};
use crate::peer::Peer;
use crate::respond::Rejection;

/// How long a request may take before its client is watched.
const UNWATCHED: Duration = Duration::from_millis(15);

/// Takes a request to its upstream, when its turn comes.
pub fn proxy(
    worker: Arc<Worker>,
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> impl Future<Output = Response<Outgoing>> {
    // Outside of the future, which would keep room for the request as it came.
    let (mut parts, body) = request.into_parts();
    let socket = wanted(&mut parts, &body);
    let parts = Box::new(parts);
    async move {
        // With nothing more to read, hyper itself notices a client that leaves.
        let is_multiplexed = peer.is_multiplexed();
        let is_watched = !is_multiplexed && (!body.is_end_stream() || peer.has_more());
        let edition = worker.edition.load_full();
        let mut account = Account::open(&edition, &peer, &parts.headers);
        account.socket = socket;
        let served = serve(&worker, &edition, parts, body, &mut account);
        let answer = {
            tokio::pin!(served);
            if is_watched {
                tokio::select! {
                    biased;
                    answer = &mut served => answer,
                    left = Box::pin(gone(&peer)) => {
                        Err(Rejection::Upstream(Fault::client_left(left.err())))
                    }
                }
            } else {
                served.await
            }
        };
        let answer = match answer {
            Ok(answer) => account.answer(answer),
            Err(rejection) => account.reject(&rejection),
        };
        if is_multiplexed {
            answer.map(|body| body.lent(&worker.streams, peer))
        } else {
            answer
        }
    }
}

/// The path: each step is refused or goes on to the next.
async fn serve(
    worker: &Worker,
    edition: &Edition,
    mut parts: Box<Parts>,
    body: Incoming,
    account: &mut Account,
) -> Result<Response<Content>, Rejection> {
    let app = &edition.app;
    if app.is_closed() {
        return Err(Rejection::Draining);
    }
    let route = find(app, &parts, account)?;
    if body.size_hint().lower() > route.max_body_bytes {
        return Err(Rejection::TooLarge(route.max_body_bytes));
    }
    let upstream = app
        .upstreams
        .get(route.upstream)
        .ok_or(Rejection::NoRoute)?;
    let Pass { permit, waited } = {
        let (claims, most) = (&account.claims, account.max_wait);
        let mut places = Places::enter(claims, &upstream.gate, most, &worker.timer)
            .map_err(Rejection::Refused)?;
        if let Some(pass) = places.free() {
            pass
        } else {
            label(app, route, &parts, account, &mut places);
            tokio::select! {
                biased;
                waited = wait(&mut places, app, upstream, parts) => {
                    let (pass, unpacked) = waited?;
                    parts = unpacked;
                    pass
                }
                // What has come behind the head by now is watched already.
                left = account.peer().left_unread() => {
                    return Err(Rejection::Upstream(Fault::client_left(left.err())));
                }
            }
        }
    };
    account.waited = waited;
    // Boxed: those who wait need not carry what only those who go need.
    Box::pin(send(edition, route, upstream, parts, body, permit, account)).await
}

/// Waits for the request's turn, with no more of its head than it needs.
async fn wait(
    places: &mut Places<'_>,
    app: &App,
    upstream: &Upstream,
    parts: Box<Parts>,
) -> Result<(Pass, Box<Parts>), Unserved> {
    let parked = ParkedHead::pack(&parts);
    drop(parts);
    let pass = places.wait(&app.crowd, upstream.target.patience()).await?;
    Ok((pass, Box::new(parked.unpack())))
}

/// Resolves when a client has left behind a body that nobody reads. Watching
/// costs three system calls, so it begins only where there is some wait.
async fn gone(peer: &Peer) -> std::io::Result<()> {
    tokio::time::sleep(UNWATCHED).await;
    Box::pin(peer.left()).await
}
