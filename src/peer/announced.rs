//! For whom does a proxy in front open a connection?
//!
//! The PROXY protocol, versions 1 and 2: before the first byte of a connection
//! stands a header with the address of the client.

use std::io;
use std::net::SocketAddr;

use ppp::{HeaderResult, v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What a header of either version has at least: version 1's shortest is longer.
const LEAST: usize = v2::PROTOCOL_PREFIX.len();
/// The longest header of version 1, its line feed included.
const LONGEST_LINE: usize = 107;
/// What version 2 has before its addresses.
const FIXED: usize = 16;
/// No proxy says more: addresses and some notes.
const LONGEST: usize = 4096;

/// Why a connection is not taken.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// It broke off before its header was whole.
    #[error("the connection broke off in its PROXY header")]
    Broken(#[from] io::Error),
    /// It doesn't begin with such a header.
    #[error("the connection doesn't begin with a PROXY header")]
    Missing,
    /// The header is not one of either version.
    #[error("the PROXY header is malformed: {0}")]
    Malformed(String),
}

/// Reads the header and nothing behind it. `None` where the proxy speaks for itself,
/// as health checks do, or for somebody who has no address.
pub async fn announced(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<SocketAddr>, AnnounceError> {
    let mut header = vec![0; LEAST];
    stream.read_exact(&mut header).await?;
    if header == v2::PROTOCOL_PREFIX {
        header.resize(FIXED, 0);
        stream.read_exact(header.split_at_mut(LEAST).1).await?;
        let length = header
            .last_chunk()
            .map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
        if FIXED + length > LONGEST {
            return Err(AnnounceError::Malformed(format!("{length} bytes long")));
        }
        header.resize(FIXED + length, 0);
        stream.read_exact(header.split_at_mut(FIXED).1).await?;
    } else if header.starts_with(v1::PROTOCOL_PREFIX.as_bytes()) {
        // Byte by byte: what comes behind the line is the client's.
        while header.last() != Some(&b'\n') && header.len() < LONGEST_LINE {
            header.push(stream.read_u8().await?);
        }
    } else {
        return Err(AnnounceError::Missing);
    }
    client(&header)
}

fn client(header: &[u8]) -> Result<Option<SocketAddr>, AnnounceError> {
    match HeaderResult::parse(header) {
        HeaderResult::V1(Ok(header)) => Ok(match header.addresses {
            v1::Addresses::Unknown => None,
            v1::Addresses::Tcp4(four) => Some((four.source_address, four.source_port).into()),
            v1::Addresses::Tcp6(six) => Some((six.source_address, six.source_port).into()),
        }),
        HeaderResult::V2(Ok(header)) => Ok(match (header.command, header.addresses) {
            (v2::Command::Local, _) | (_, v2::Addresses::Unspecified | v2::Addresses::Unix(_)) => {
                None
            }
            (_, v2::Addresses::IPv4(four)) => Some((four.source_address, four.source_port).into()),
            (_, v2::Addresses::IPv6(six)) => Some((six.source_address, six.source_port).into()),
        }),
        HeaderResult::V1(Err(odd)) => Err(AnnounceError::Malformed(odd.to_string())),
        HeaderResult::V2(Err(odd)) => Err(AnnounceError::Malformed(odd.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> (Result<Option<String>, AnnounceError>, Vec<u8>) {
        let mut rest = bytes;
        let client = announced(&mut rest).await;
        (
            client.map(|client| client.map(|client| client.to_string())),
            rest.to_vec(),
        )
    }

    fn v2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).expect("short");
        [
            v2::PROTOCOL_PREFIX,
            &[0x20 | command, family],
            &length.to_be_bytes(),
            addresses,
            b"GET /",
        ]
        .concat()
    }

    const FOUR: [u8; 12] = [192, 0, 2, 7, 127, 0, 0, 1, 0x1f, 0x90, 0, 80];

    #[tokio::test]
    async fn both_versions_name_the_client_and_leave_what_follows() {
        let six = "PROXY TCP6 2001:db8::1 ::1 4000 80\r\nGET /";
        let mut with_notes = FOUR.to_vec();
        with_notes.extend([0x04, 0, 3, 1, 2, 3]);
        for (bytes, client) in [
            (
                b"PROXY TCP4 192.0.2.7 127.0.0.1 8080 80\r\nGET /".to_vec(),
                Some("192.0.2.7:8080"),
            ),
            (six.into(), Some("[2001:db8::1]:4000")),
            (b"PROXY UNKNOWN\r\nGET /".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\nGET /".to_vec(), None),
            (v2(1, 0x11, &FOUR), Some("192.0.2.7:8080")),
            (v2(1, 0x11, &with_notes), Some("192.0.2.7:8080")),
            (v2(0, 0x11, &FOUR), None),
            (v2(0, 0, &[]), None),
            (v2(1, 0, &[]), None),
            (v2(1, 0x31, &[0; 216]), None),
        ] {
            let (found, rest) = read(&bytes).await;
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(found.expect(&shown).as_deref(), client, "{shown}");
            assert_eq!(rest, b"GET /", "{shown}");
        }
    }

    #[tokio::test]
    async fn whatever_else_begins_a_connection_is_no_header() {
        let (missing, _rest) = read(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(matches!(missing, Err(AnnounceError::Missing)));
        for odd in [
            b"PROXY TCP4 192.0.2.7 127.0.0.1 8080\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.777 127.0.0.1 8080 80\r\n".to_vec(),
            b"PROXY TCP6 192.0.2.7 127.0.0.1 8080 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 127.0.0.1 8080 99999\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 127.0.0.1 8080 80\n".to_vec(),
            [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat(),
            v2(1, 0x11, &FOUR[..11]),
            v2(1, 0x11, &[0; 5000]),
            v2(7, 0x11, &FOUR),
        ] {
            let (found, _rest) = read(&odd).await;
            let shown = String::from_utf8_lossy(&odd).into_owned();
            assert!(
                matches!(found, Err(AnnounceError::Malformed(_))),
                "{shown}: {found:?}"
            );
        }
        for cut in ["PROXY TCP4 192", "PRO", ""] {
            let (found, _rest) = read(cut.as_bytes()).await;
            assert!(matches!(found, Err(AnnounceError::Broken(_))), "{cut}");
        }
    }
}
