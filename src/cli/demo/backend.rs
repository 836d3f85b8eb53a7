//! What does a backend see?

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::scene::Step;
use super::tape::Tape;

/// Starts a backend that notes when each request comes and answers it at once.
/// It has a thread of its own, so that nothing else delays its notes, and ends
/// with the program.
pub(super) fn begin(tape: Arc<Tape>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("backend".to_owned())
        .spawn(move || runtime.block_on(serve(listener, tape)))?;
    Ok(address)
}

/// Serves all that connect. Whoever is not accepted gets no answer and says so.
async fn serve(listener: TcpListener, tape: Arc<Tape>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (socket, _client) = listener.accept().await?;
        let tape = Arc::clone(&tape);
        let service = service_fn(move |_request: Request<Incoming>| {
            tape.note(Step::Arrived);
            std::future::ready(Ok::<_, Infallible>(answer()))
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}

fn answer() -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from_static(b"Hello from the backend.\n")))
}
