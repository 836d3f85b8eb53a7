//! How is a running instance asked?

use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

/// How long an instance may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The way to an instance's admin listener.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    admin: String,
    token: Option<String>,
}

impl Link {
    /// To the listener at `admin`, by the right that `token` gives.
    pub(super) fn new(admin: String, token: Option<String>) -> anyhow::Result<Self> {
        let client = Client::builder().no_proxy().timeout(PATIENCE).build()?;
        Ok(Self {
            client,
            admin,
            token,
        })
    }

    /// How the instance stands.
    pub(super) async fn status(&self) -> anyhow::Result<Value> {
        self.ask(Method::GET, "/api/status").await
    }

    /// What the instance answers.
    pub(super) async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let admin = &self.admin;
        let mut request = self.client.request(method, format!("{admin}{path}"));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("no instance answers at {admin}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(said);
        }
        refused(status, &said)
    }
}

fn refused(status: StatusCode, said: &Value) -> anyhow::Result<Value> {
    let text = |name: &str| said.get(name).and_then(Value::as_str);
    let mut why = text("detail").unwrap_or(status.as_str()).to_owned();
    let faults = said.get("faults").and_then(Value::as_array);
    for fault in faults.into_iter().flatten().filter_map(Value::as_str) {
        why.push('\n');
        why.push_str(fault);
    }
    bail!(why)
}
