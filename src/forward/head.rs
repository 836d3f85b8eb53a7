//! How little room does the head of a waiting request take?

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};

/// A request's head in one allocation. Parsed, its headers would keep the whole
/// buffer alive that they were read into.
#[derive(Debug)]
pub struct ParkedHead {
    method: Method,
    version: Version,
    /// The target, then each header's name and value.
    text: Bytes,
    target: usize,
    headers: Box<[(u16, u32)]>,
}

impl ParkedHead {
    /// Packs a head. Extensions and all of the target but path and query are dropped.
    pub fn pack(parts: &Parts) -> Self {
        let target = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        let total: usize = parts.headers.iter().map(size).sum();
        let mut text = Vec::with_capacity(target.len() + total);
        text.extend_from_slice(target.as_bytes());
        let mut headers = Vec::with_capacity(parts.headers.len());
        for (name, value) in &parts.headers {
            let lengths = (
                u16::try_from(name.as_str().len()),
                u32::try_from(value.len()),
            );
            // A head is bounded far below either.
            if let (Ok(name_len), Ok(value_len)) = lengths {
                text.extend_from_slice(name.as_str().as_bytes());
                text.extend_from_slice(value.as_bytes());
                headers.push((name_len, value_len));
            }
        }
        Self {
            method: parts.method.clone(),
            version: parts.version,
            text: text.into(),
            target: target.len(),
            headers: headers.into(),
        }
    }

    /// The head as it was; nothing is copied but the names.
    pub fn unpack(self) -> Parts {
        let mut rest = self.text;
        let target = rest.split_to(self.target);
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = self.method;
        parts.version = self.version;
        parts.uri = PathAndQuery::from_maybe_shared(target)
            .map(Into::into)
            .unwrap_or_default();
        parts.headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(&rest.split_to(usize::from(*name)));
            let value = HeaderValue::from_maybe_shared(rest.split_to(*value as usize));
            if let (Ok(name), Ok(value)) = (name, value) {
                parts.headers.append(name, value);
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_head_comes_out_as_it_went_in() {
        let request = Request::post("/a%2Fb/../%7b{}?q=%41&x")
            .header("host", "example.com")
            .header(
                "x-odd",
                HeaderValue::from_bytes(b"\xff\xfe \"quoted\"").expect("a value"),
            )
            .header("accept", "a")
            .header("accept", "b")
            .header("x-empty", "")
            .body(())
            .expect("a request");
        let (parts, ()) = request.into_parts();
        let unpacked = ParkedHead::pack(&parts).unpack();
        assert_eq!(unpacked.method, parts.method);
        assert_eq!(unpacked.uri, parts.uri);
        assert_eq!(unpacked.version, parts.version);
        assert_eq!(unpacked.headers, parts.headers);
    }
}
