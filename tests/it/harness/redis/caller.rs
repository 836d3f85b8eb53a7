//! How does a test itself ask Redis?

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::super::message::Incoming;
use super::super::ms;
use super::{Value, value};

/// How long an answer may take before it counts as none.
const NO_ANSWER: Duration = ms(1_000);

/// Sends commands to an address, each on a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(super) address: SocketAddr,
    /// A user and a password, where nobody else is let in.
    user: Option<[&'static str; 2]>,
}

impl Caller {
    pub(crate) const fn to(address: SocketAddr) -> Self {
        Self {
            address,
            user: None,
        }
    }

    /// The same as this user.
    pub(super) const fn with_user(mut self, user: [&'static str; 2]) -> Self {
        self.user = Some(user);
        self
    }

    /// The answer to a command.
    pub(crate) async fn call(&self, words: &[&str]) -> Value {
        let answer = self.try_call(words).await.expect("an answer of redis");
        assert!(!matches!(answer, Value::Error(_)), "{words:?}: {answer:?}");
        answer
    }

    /// The same where Redis may be away or refuse.
    pub(crate) async fn try_call(&self, words: &[&str]) -> io::Result<Value> {
        let conversation = async {
            let mut incoming = Incoming::new(TcpStream::connect(self.address).await?);
            if let Some([name, password]) = self.user {
                value::call(&mut incoming, &["AUTH", name, password]).await?;
            }
            value::call(&mut incoming, words).await
        };
        let answer = tokio::time::timeout(NO_ANSWER, conversation).await;
        answer.map_err(|_late| io::Error::from(io::ErrorKind::TimedOut))?
    }
}
