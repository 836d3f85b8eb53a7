//! What does the backend do with a request?

use std::time::Duration;

/// One thing after another.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Reads the request's body to its end.
    Read,
    Send(Vec<u8>),
    Wait(Duration),
    /// Waits until the test lets one more go.
    Held,
    /// Does nothing until the other side has gone.
    Never,
    /// Sends back whatever comes, up to its end.
    Echo,
    Close,
    Reset,
}

impl Answer {
    /// `200`, at once.
    pub(crate) fn ok() -> Self {
        Self::with("200 OK", &[], "ok")
    }

    /// A whole answer with a length, once the request's body is there.
    pub(crate) fn with(status: &str, fields: &[(&str, &str)], body: &str) -> Self {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        Self::raw(format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{}\r\n{body}",
            body.len(),
            fields.concat()
        ))
    }

    /// These bytes, once the request's body is there.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::nothing().read().send(bytes)
    }

    /// Nothing yet, not even a look at the body.
    pub(crate) const fn nothing() -> Self {
        Self { steps: Vec::new() }
    }

    /// The head of an answer in chunks.
    pub(crate) fn chunked(fields: &str) -> Self {
        Self::nothing().send(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{fields}\r\n"
        ))
    }

    /// Takes the request and never answers.
    pub(crate) fn never() -> Self {
        Self::nothing().read().step(Step::Never)
    }

    /// Answers `200` when the test lets it.
    pub(crate) fn held() -> Self {
        let mut answer = Self::ok();
        answer.steps.insert(1, Step::Held);
        answer
    }

    /// The same so much later.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.steps.insert(0, Step::Wait(delay));
        self
    }

    pub(crate) fn read(self) -> Self {
        self.step(Step::Read)
    }

    pub(crate) fn send(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Send(bytes.into()))
    }

    pub(crate) fn chunk(self, text: &str) -> Self {
        self.send(format!("{:x}\r\n{text}\r\n", text.len()))
    }

    pub(crate) fn wait(self, span: Duration) -> Self {
        self.step(Step::Wait(span))
    }

    pub(crate) fn hold(self) -> Self {
        self.step(Step::Held)
    }

    pub(crate) fn echo(self) -> Self {
        self.step(Step::Echo)
    }

    pub(crate) fn close(self) -> Self {
        self.step(Step::Close)
    }

    pub(crate) fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}
