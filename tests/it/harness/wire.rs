//! Which bytes reach the server behind weir?

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::strict;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that keeps every byte, and says `200` to what a strict reader takes
/// for one whole request.
#[derive(Debug)]
pub(crate) struct Wire {
    address: SocketAddr,
    notes: Arc<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    heard: Mutex<Vec<Heard>>,
    ended: AtomicBool,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// One whole request.
    Whole(Vec<u8>),
    /// The beginning of one, behind which the connection ended.
    Part(Vec<u8>),
    /// No request, and why.
    Odd(String, Vec<u8>),
}

impl Wire {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let notes = Arc::new(Notes::default());
        let noted = Arc::clone(&notes);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if noted.ended.load(Ordering::SeqCst) {
                    return;
                }
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || serve(stream, &noted));
            }
        });
        Self { address, notes }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that came since the last call.
    pub(crate) fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut *self.notes.heard.lock())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.notes.ended.store(true, Ordering::SeqCst);
        // Wakes the listener up; one that is gone needs no waking.
        let _woken = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, notes: &Notes) {
    let note = |heard| notes.heard.lock().push(heard);
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        match strict::request(&bytes) {
            Ok(Some(end)) => {
                note(Heard::Whole(bytes.drain(..end).collect()));
                if stream.write_all(ANSWER).is_err() {
                    return;
                }
            }
            Ok(None) => match stream.read(&mut part) {
                Ok(read) if read > 0 => bytes.extend(part.iter().take(read)),
                _ended if bytes.is_empty() => return,
                _ended => return note(Heard::Part(bytes)),
            },
            Err(why) => return note(Heard::Odd(why, bytes)),
        }
    }
}
