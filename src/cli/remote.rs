//! How does the command line speak to a running instance?

mod say;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::config::load;

/// How long an instance may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the instance is, and by which right it is steered.
#[derive(Args, Debug)]
pub(super) struct Instance {
    /// The config file of the instance, which says where its admin listener is.
    #[arg(short, long, value_name = "FILE", default_value = "config/weir.toml")]
    config: PathBuf,
    /// Its admin listener, instead of the config file's.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Its admin token, instead of the config file's.
    #[arg(long, env = "WEIR_ADMIN_TOKEN", hide_env_values = true, hide = true)]
    token: Option<String>,
}

/// A limit, or one key of it.
#[derive(Args, Debug)]
pub(super) struct Line {
    /// The limit's name.
    limit: String,
    /// A key of it, or the key's hash; all keys where there is none.
    key: Option<String>,
    #[command(flatten)]
    instance: Instance,
}

/// What to pause, and for how long.
#[derive(Args, Debug)]
pub(super) struct Pause {
    #[command(flatten)]
    line: Line,
    /// How long, such as 10m or 2h.
    #[arg(long = "for", value_name = "SPAN", default_value = "1h")]
    span: String,
}

/// Says how an instance stands.
pub(super) fn status(instance: &Instance) -> anyhow::Result<ExitCode> {
    say::status(&instance.ask(Method::GET, "/api/status")?)
}

/// Lets nobody go for a while.
pub(super) fn pause(pause: &Pause) -> anyhow::Result<ExitCode> {
    let path = pause.line.path("pause");
    let span = utf8_percent_encode(&pause.span, NON_ALPHANUMERIC);
    let said = pause
        .line
        .instance
        .ask(Method::POST, &format!("{path}?for={span}"))?;
    say::pause(&said)
}

/// Ends a pause.
pub(super) fn resume(line: &Line) -> anyhow::Result<ExitCode> {
    say::pause(&line.instance.ask(Method::POST, &line.path("resume"))?)
}

/// Sends away those who wait.
pub(super) fn purge(line: &Line) -> anyhow::Result<ExitCode> {
    say::purged(&line.instance.ask(Method::DELETE, &line.path("line"))?)
}

/// Lets an instance read its config anew.
pub(super) fn reload(instance: &Instance) -> anyhow::Result<ExitCode> {
    say::reloaded(&instance.ask(Method::POST, "/api/reload")?)
}

impl Line {
    fn path(&self, what: &str) -> String {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let limit = encoded(&self.limit);
        match &self.key {
            None => format!("/api/limits/{limit}/{what}"),
            Some(key) => format!("/api/limits/{limit}/buckets/{}/{what}", encoded(key)),
        }
    }
}

impl Instance {
    /// What the instance answers.
    fn ask(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let (admin, token) = self.found()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let client = reqwest::Client::builder()
                .no_proxy()
                .timeout(PATIENCE)
                .build()?;
            let mut request = client.request(method, format!("{admin}{path}"));
            if let Some(token) = token {
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
        })
    }

    /// Where the admin listener is, and the token for it.
    fn found(&self) -> anyhow::Result<(String, Option<String>)> {
        if let Some(admin) = &self.admin {
            return Ok((admin.trim_end_matches('/').to_owned(), self.token.clone()));
        }
        let config = load(&self.config)
            .context("the config file doesn't say where the instance is; give --admin URL")?;
        let mut admin = config.server.admin;
        if admin.ip().is_unspecified() {
            // A listener on all addresses is on this one.
            admin.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let configured = config.server.admin_token.as_ref();
        let token = self
            .token
            .clone()
            .or_else(|| configured.map(|token| token.reveal().to_owned()));
        Ok((format!("http://{admin}"), token))
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
