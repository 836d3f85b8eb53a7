//! How little room does the head of a waiting request take?

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header};

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
    /// Packs a head. Of the target, path and query are kept, and the authority as
    /// `Host` where there is none, as in HTTP/2. Extensions are dropped.
    pub fn pack(parts: &Parts) -> Self {
        let target = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let host = authority(parts);
        let lines = || {
            let headers = parts.headers.iter();
            let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
            headers.chain(host.map(|host| ("host", host)))
        };
        let total: usize = lines().map(|(name, value)| name.len() + value.len()).sum();
        let mut text = Vec::with_capacity(target.len() + total);
        text.extend_from_slice(target.as_bytes());
        let mut headers = Vec::with_capacity(parts.headers.len().saturating_add(1));
        for (name, value) in lines() {
            let lengths = (u16::try_from(name.len()), u32::try_from(value.len()));
            // A head is bounded far below either.
            if let (Ok(name_len), Ok(value_len)) = lengths {
                text.extend_from_slice(name.as_bytes());
                text.extend_from_slice(value);
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

/// The host that the target names, where no header does.
fn authority(parts: &Parts) -> Option<&[u8]> {
    let authority = parts.uri.authority()?;
    (!parts.headers.contains_key(header::HOST)).then(|| authority.as_str().as_bytes())
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

    #[test]
    fn the_authority_of_a_packed_head_is_its_host() {
        for (host, expected) in [(None, "a.example:81"), (Some("b"), "b")] {
            let request = Request::get("https://a.example:81/x?y").version(Version::HTTP_2);
            let request = host
                .into_iter()
                .fold(request, |it, host| it.header("host", host));
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            let unpacked = ParkedHead::pack(&parts).unpack();
            assert_eq!(unpacked.uri, "/x?y");
            assert_eq!(unpacked.version, Version::HTTP_2);
            let hosts: Vec<_> = unpacked.headers.get_all("host").iter().collect();
            assert_eq!(hosts, [expected]);
        }
    }
}
