//! What does a claim of the request's token say?
//!
//! Nothing is verified here: signature, issuer and expiry are for whoever checked the
//! token before the request came.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The text of a claim in a `Bearer` token; `None` where there is no such token, or the
/// claim is absent, empty, given twice, or neither a text, a number nor a boolean.
pub(super) fn claim(authorization: &HeaderValue, name: &str) -> Option<Vec<u8>> {
    let (scheme, token) = authorization.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parts = token.trim().split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let mut json = serde_json::Deserializer::from_slice(&payload);
    let value = Only(name).deserialize(&mut json).ok()??;
    json.end().ok()?;
    let text = match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then(|| text.into_bytes())
}

/// The only member of this name: of two, another reader might believe the other.
struct Only<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Only<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Only<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of claims")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut claims: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut count) = (None, 0_usize);
        while let Some(name) = claims.next_key::<Cow<'de, str>>()? {
            if name == self.0 {
                found = Some(claims.next_value()?);
                count = count.saturating_add(1);
            } else {
                claims.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found.filter(|_| count == 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(payload: &str) -> HeaderValue {
        let text = format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload));
        text.parse().expect("a header value")
    }

    fn said(payload: &str, name: &str) -> Option<String> {
        claim(&token(payload), name).map(|text| String::from_utf8(text).expect("text"))
    }

    #[test]
    fn a_claim_is_text_a_number_or_a_boolean() {
        let payload = r#"{"sub":"alice","n":7,"big":12345678901234567890,"f":1.5,"b":true,
            "https://example.com/tenant":"t1","nested":{"sub":"no"},"\u0061b":"escaped"}"#;
        for (name, value) in [
            ("sub", "alice"),
            ("n", "7"),
            ("big", "12345678901234567890"),
            ("f", "1.5"),
            ("b", "true"),
            ("https://example.com/tenant", "t1"),
            ("ab", "escaped"),
        ] {
            assert_eq!(said(payload, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn a_claim_that_may_be_read_in_two_ways_is_missing() {
        for payload in [
            r#"{"sub":"a","sub":"b"}"#,
            r#"{"sub":""}"#,
            r#"{"sub":null}"#,
            r#"{"sub":["a"]}"#,
            r#"{"sub":{"a":1}}"#,
            r#"{"sub":"a"} x"#,
            r#"{"sub":"a""#,
            r#"["sub"]"#,
            "{}",
            "",
        ] {
            assert_eq!(said(payload, "sub"), None, "{payload}");
        }
    }

    #[test]
    fn what_is_no_token_has_no_claim() {
        let payload = URL_SAFE_NO_PAD.encode(r#"{"sub":"a"}"#);
        for text in [
            format!("Basic e30.{payload}.c2ln"),
            format!("Bearer {payload}"),
            format!("Bearer e30.{payload}"),
            format!("Bearer e30.{payload}.a.b"),
            format!("Bearer e30.{payload}=.c2ln"),
            "Bearer e30.!!!!.c2ln".to_owned(),
            "Bearer".to_owned(),
        ] {
            let header = text.parse().expect("a header value");
            assert_eq!(claim(&header, "sub"), None, "{text}");
        }
        let lower = format!("bearer e30.{payload}.").parse();
        let lower = lower.expect("a header value");
        assert!(claim(&lower, "sub").is_some(), "a signature may be empty");
    }

    #[test]
    fn claims_nested_deep_do_no_harm() {
        let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        let beside = format!("{{\"a\":{deep},\"sub\":\"alice\"}}");
        assert_eq!(said(&beside, "sub").as_deref(), Some("alice"));
        assert_eq!(said(&format!("{{\"sub\":{deep}}}"), "sub"), None);
    }
}
