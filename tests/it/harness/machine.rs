//! Which ports are there on which nobody answers?

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

fn bound() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).expect("a free port");
    let address = socket.local_addr().expect("an address");
    (socket, address.as_socket().expect("an address of IP"))
}

/// A port that refuses connections as long as the socket is kept: it is bound,
/// and nobody listens.
pub(crate) fn free_port() -> (Socket, SocketAddr) {
    bound()
}

/// A port that answers no SYN as long as what is returned is kept: its queue of
/// connections is full.
pub(crate) fn black_hole() -> (Socket, Vec<TcpStream>, SocketAddr) {
    let (socket, address) = bound();
    socket.listen(0).expect("a listener");
    let mut kept = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        kept.push(stream);
        assert!(kept.len() < 20, "the queue fills up");
    }
    (socket, kept, address)
}

/// A port that is nobody else's as long as the socket is kept, on which a server
/// that sets `SO_REUSEADDR` may listen, end and listen again.
pub(crate) fn reserved_port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).expect("a free port");
    let address = socket.local_addr().expect("an address");
    (socket, address.as_socket().expect("an address of IP"))
}
