//! Which bytes does a client send?

use std::fmt::Write as _;

/// A request to be written as it stands: nothing is added but `Host`, and
/// `Content-Length` where there is a body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    head: String,
    body: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    pub(crate) fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: Some(body.into()),
            ..Self::new("POST", target)
        }
    }

    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self::to("weir.test", method, target)
    }

    /// One that names another host.
    pub(crate) fn to(host: &str, method: &str, target: &str) -> Self {
        Self {
            head: format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n"),
            body: None,
        }
    }

    /// One more line.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        write!(self.head, "{name}: {value}\r\n").expect("room in a String");
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone().into_bytes();
        if let Some(body) = &self.body {
            bytes.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(self.body.iter().flatten());
        bytes
    }
}
