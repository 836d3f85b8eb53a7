//! How does hyper's own refusal become one that says why?
//!
//! hyper answers what it can't parse by itself, with a status and no body. Every
//! answer of weir's carries a request id; one that doesn't is hyper's.

use bytes::Bytes;
use memchr::memmem;

/// The longest head that hyper writes by itself.
const LONGEST: usize = 256;

/// What to write instead of `head`, where that is hyper's own refusal.
pub(super) fn refusal(head: &[u8]) -> Option<Bytes> {
    let status: [u8; 3] = head.strip_prefix(b"HTTP/1.1 ")?.get(..3)?.try_into().ok()?;
    let (title, detail) = match &status {
        b"400" => ("Bad Request", "it is not a request of HTTP/1.1"),
        b"414" => ("URI Too Long", "its target is too long"),
        b"431" => ("Request Header Fields Too Large", "its head is too large"),
        b"505" => (
            "HTTP Version Not Supported",
            "its version is not HTTP/1.1 or HTTP/1.0",
        ),
        _ => return None,
    };
    let is_hypers = head.len() <= LONGEST
        && head.ends_with(b"\r\n\r\n")
        && memmem::find(head, b"content-length: 0\r\n").is_some()
        && memmem::find(head, b"x-request-id").is_none();
    if !is_hypers {
        return None;
    }
    let status = String::from_utf8_lossy(&status);
    let body = format!(
        "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status},\"detail\":\"bad request: {detail}\"}}"
    );
    let answer = format!(
        "HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nconnection: close\r\n\
         proxy-status: weir; error=http_request_error; details=\"{detail}\"\r\n\r\n{body}",
        body.len()
    );
    Some(answer.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hypers_own_refusals_are_replaced() {
        let own = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: Mon, 30 Nov 2026 12:00:00 GMT\r\n\r\n";
        let text = refusal(own).expect("hyper's own");
        assert!(text.starts_with(b"HTTP/1.1 431 ") && text.ends_with(b"}"));
        for other in [
            &b"HTTP/1.1 400 Bad Request\r\nx-request-id: 1\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno",
            b"HTTP/1.1 4",
            b"",
        ] {
            assert_eq!(refusal(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
