//! How does a server of a test run beside it?

use std::net::SocketAddr;
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A server on a thread of its own; dropped, it ends.
#[derive(Debug)]
pub(super) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Begins to serve on a free port.
    pub(super) fn begin<F: Future<Output = ()>>(
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> (SocketAddr, Self) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = serve(listener) => (),
                    _stopped = stopped => (),
                }
            });
        });
        let serving = Self {
            stop: Some(stop),
            thread: Some(thread),
        };
        (address, serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
