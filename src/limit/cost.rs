//! How much of a limit does a request need?

use std::fmt;

use http::{HeaderMap, HeaderName};

/// A number of slots, or of requests in a window: always the same, or as a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    usual: u32,
    header: Option<(HeaderName, u32)>,
}

impl Cost {
    /// The same for each request, at least 1.
    pub fn each(cost: u32) -> Self {
        Self {
            usual: cost.max(1),
            header: None,
        }
    }

    /// From 1 to `most`, as a header says; `usual` where it is not there.
    pub fn in_header(name: HeaderName, most: u32, usual: u32) -> Self {
        Self {
            usual: usual.max(1),
            header: Some((name, most)),
        }
    }

    /// What a request costs of which nothing more is known.
    pub const fn usual(&self) -> u32 {
        self.usual
    }

    /// The most that any request may cost.
    pub fn most(&self) -> u32 {
        let most = self.header.as_ref().map(|(_, most)| *most);
        most.unwrap_or(self.usual).max(self.usual)
    }

    /// What a request with these headers costs.
    pub fn of(&self, headers: &HeaderMap) -> Result<u32, BadCost> {
        let Some((name, most)) = &self.header else {
            return Ok(self.usual);
        };
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else {
            return Ok(self.usual);
        };
        let digits = value.as_bytes();
        let is_whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let cost = value.to_str().ok().filter(|_| is_whole);
        let cost = cost.and_then(|text| text.parse().ok());
        cost.filter(|cost| (1..=*most).contains(cost) && values.next().is_none())
            .ok_or_else(|| BadCost {
                header: name.clone(),
                most: *most,
            })
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::each(1)
    }
}

/// As it is shown behind a rule: nothing, where each costs one.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.header, self.usual) {
            (None, 1) => Ok(()),
            (None, usual) => write!(f, ", cost {usual}"),
            (Some((name, most)), usual) => {
                write!(f, ", cost by {name} up to {most}, {usual} without")
            }
        }
    }
}

/// A header that does not say what the request costs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{header} must say once what the request costs, from 1 to {most}")]
pub struct BadCost {
    /// The header.
    pub header: HeaderName,
    /// The most that it may say.
    pub most: u32,
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&[u8]]) -> Result<u32, BadCost> {
        let name = HeaderName::from_static("x-cost");
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value).expect("a header's value");
            headers.append(&name, value);
        }
        Cost::in_header(name, 20, 3).of(&headers)
    }

    #[test]
    fn a_header_says_what_a_request_costs() {
        assert_eq!(read(&[b"1"]), Ok(1));
        assert_eq!(read(&[b"20"]), Ok(20));
        assert_eq!(read(&[b"007"]), Ok(7));
        assert_eq!(read(&[]), Ok(3));
    }

    #[test]
    fn whatever_else_it_says_is_refused() {
        let odd: [&[&[u8]]; 9] = [
            &[b"0"],
            &[b"21"],
            &[b"99999999999999999999"],
            &[b"-1"],
            &[b"+1"],
            &[b"1.5"],
            &[b""],
            &[b"\xff"],
            &[b"1", b"1"],
        ];
        for values in odd {
            let refused = read(values).expect_err("no cost");
            assert_eq!(refused.most, 20, "{values:?}");
        }
    }
}
