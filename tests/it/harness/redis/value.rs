//! What does Redis answer to a command? (RESP2)

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::super::message::Incoming;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nothing,
    Number(i64),
    Text(String),
    List(Vec<Self>),
    Error(String),
}

impl Value {
    pub(crate) fn number(&self) -> i64 {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
        .ok_or(self)
        .expect("a number")
    }

    /// A number, if it is one.
    pub(crate) const fn optional_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) => Some(text.as_str()),
            _ => None,
        }
        .ok_or(self)
        .expect("a text")
    }

    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => Some(list.as_slice()),
            _ => None,
        }
        .ok_or(self)
        .expect("a list")
    }

    /// A list of texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        let texts = self.list().iter().map(|text| text.text().to_owned());
        texts.collect()
    }
}

/// Sends a command and takes its answer.
pub(super) async fn call<S: AsyncRead + AsyncWrite + Unpin>(
    incoming: &mut Incoming<S>,
    words: &[&str],
) -> io::Result<Value> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    incoming.stream.write_all(&bytes).await?;
    answer(incoming).await
}

async fn answer<S: AsyncRead + Unpin>(incoming: &mut Incoming<S>) -> io::Result<Value> {
    let line = String::from_utf8_lossy(&incoming.up_to(b"\r\n").await?).into_owned();
    let (kind, rest) = line.split_at(1);
    let rest = rest.trim_end();
    let number = || {
        rest.parse::<i64>()
            .map_err(|_odd| io::ErrorKind::InvalidData)
    };
    Ok(match kind {
        "+" => Value::Text(rest.to_owned()),
        "-" => Value::Error(rest.to_owned()),
        ":" => Value::Number(number()?),
        "$" => match usize::try_from(number()?) {
            Ok(length) => {
                let bytes = incoming.exactly(length + 2).await?;
                let text = bytes.get(..length).unwrap_or_default();
                Value::Text(String::from_utf8_lossy(text).into_owned())
            }
            Err(_minus_one) => Value::Nothing,
        },
        "*" => match usize::try_from(number()?) {
            Ok(length) => {
                let mut list = Vec::with_capacity(length);
                for _ in 0..length {
                    list.push(Box::pin(answer(incoming)).await?);
                }
                Value::List(list)
            }
            Err(_minus_one) => Value::Nothing,
        },
        _ => return Err(io::ErrorKind::InvalidData.into()),
    })
}
