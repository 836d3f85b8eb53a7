//! Is this exactly one request, by the letter of RFC 9112?
//!
//! Shares nothing with weir or with hyper, and forgives nothing: what it reads as
//! one request, every server does.
#![expect(
    clippy::indexing_slicing,
    reason = "a reader that is at fault ends its test"
)]

/// Where the first request in `bytes` ends; `None` where it isn't whole yet.
pub(super) fn request(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(end) = position(bytes, b"\r\n\r\n") else {
        return if bytes.len() > 1 << 20 {
            Err("no head ends".to_owned())
        } else {
            Ok(None)
        };
    };
    let mut lines = split(&bytes[..end]).into_iter();
    let line = lines.next().ok_or("no request line")?;
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, b"HTTP/1.1"] = parts[..] else {
        return Err("the request line has not three parts".to_owned());
    };
    // Many clients send UTF-8 as it is; no server takes it for anything else.
    let is_path = target.starts_with(b"/") && target.iter().all(|b| *b > b' ' && *b != 0x7f);
    if !is_token(method) || !is_path || target.contains(&b'#') {
        return Err("the request line".to_owned());
    }
    let fields = lines.map(field).collect::<Result<Vec<_>, _>>()?;
    let values = |name: &str| -> Vec<&[u8]> {
        let named = fields.iter().filter(|(key, _)| key == name);
        named.map(|(_, value)| *value).collect()
    };
    if values("host").len() != 1 {
        return Err("not one Host".to_owned());
    }
    let start = end + 4;
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Some(start)),
        ([length], []) if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
            let length = String::from_utf8_lossy(length).parse::<usize>();
            let whole = start.checked_add(length.map_err(|_odd| "the length")?);
            Ok(whole.filter(|whole| bytes.len() >= *whole))
        }
        ([], [b"chunked"]) => Ok(chunks(&bytes[start..])?.map(|length| start + length)),
        _ => Err("its length is not said once".to_owned()),
    }
}

/// The length of a body in chunks, without extensions.
fn chunks(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let Some(end) = position(&bytes[at..], b"\r\n") else {
            let digits = bytes[at..].strip_suffix(b"\r").unwrap_or(&bytes[at..]);
            let fits = digits.len() <= 16 && digits.iter().all(u8::is_ascii_hexdigit);
            return fits.then_some(None).ok_or("a chunk's size".to_owned());
        };
        let digits = &bytes[at..at + end];
        if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err("a chunk's size".to_owned());
        }
        let size = usize::from_str_radix(&String::from_utf8_lossy(digits), 16);
        let size = size.map_err(|_odd| "a chunk's size")?;
        at += end + 2;
        if size == 0 {
            let rest = &bytes[at..];
            if rest.starts_with(b"\r\n") {
                return Ok(Some(at + 2));
            }
            let Some(end) = position(rest, b"\r\n\r\n") else {
                return Ok(None);
            };
            split(&rest[..end])
                .into_iter()
                .try_for_each(|line| field(line).map(drop))?;
            return Ok(Some(at + end + 4));
        }
        let Some(behind) = bytes.get(at.saturating_add(size)..) else {
            return Ok(None);
        };
        if !b"\r\n".starts_with(&behind[..behind.len().min(2)]) {
            return Err("what stands behind a chunk".to_owned());
        }
        if behind.len() < 2 {
            return Ok(None);
        }
        at += size + 2;
    }
}

fn field(line: &[u8]) -> Result<(String, &[u8]), String> {
    let told = || format!("the field {:?}", String::from_utf8_lossy(line));
    let colon = line
        .iter()
        .position(|byte| *byte == b':')
        .ok_or_else(told)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_text = |byte: &u8| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f);
    if !is_token(name) || !value.iter().all(is_text) {
        return Err(told());
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Ok((name, value.trim_ascii()))
}

fn is_token(text: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_tchar)
}

fn position(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

/// Lines that end with CR LF; a CR or LF that stands alone stays in its line.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while let Some(end) = position(rest, b"\r\n") {
        lines.push(&rest[..end]);
        rest = &rest[end + 2..];
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::request;

    #[test]
    fn one_request_is_read_to_its_end_and_no_further() {
        for whole in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
        ] {
            assert_eq!(request(whole.as_bytes()), Ok(Some(whole.len())));
            let more = format!("{whole}GET");
            assert_eq!(request(more.as_bytes()), Ok(Some(whole.len())));
            for cut in 0..whole.len() {
                assert_eq!(request(&whole.as_bytes()[..cut]), Ok(None), "{whole} {cut}");
            }
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_none() {
        for odd in [
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        ] {
            assert!(request(odd.as_bytes()).is_err(), "{odd:?}");
        }
    }
}
