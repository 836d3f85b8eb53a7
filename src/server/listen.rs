//! Who owns an address?

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4096;

/// Why an instance can't listen.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}")]
pub struct ListenError {
    address: SocketAddr,
    source: io::Error,
}

/// One listener for each of `threads` on `address`; the kernel shares the
/// connections out among them. Fails where anyone listens there already, another
/// instance too: sharing the port would let it.
pub(super) fn listeners(
    address: SocketAddr,
    threads: usize,
) -> Result<Vec<TcpListener>, ListenError> {
    let failed = |source| ListenError { address, source };
    let only = listen(address, false).map_err(failed)?;
    // Port 0 becomes the one that the kernel chose.
    let address = only.local_addr().map_err(failed)?;
    drop(only);
    (0..threads)
        .map(|_| listen(address, true).map_err(failed))
        .collect()
}

/// A listener of its own.
pub(super) fn listener(address: SocketAddr) -> Result<TcpListener, ListenError> {
    listen(address, false).map_err(|source| ListenError { address, source })
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A port whose last connections are still dying is free all the same.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_on_the_same_address_is_refused() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = listeners(any, 2).expect("a free port");
        let address = first
            .first()
            .expect("two listeners")
            .local_addr()
            .expect("an address");
        let second = listeners(address, 2).expect_err("the port is taken");
        assert_eq!(second.source.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        listeners(address, 2).expect("the port is free again");
    }
}
