//! How does the command line speak to a running instance?

mod link;
mod say;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::Value;

use link::Link;

use crate::config::load;

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

/// Which instance to watch.
#[derive(Args, Debug)]
pub(super) struct Top {
    #[command(flatten)]
    instance: Instance,
    /// End after so many pictures, one a second.
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pictures: Option<u32>,
}

/// Draws how an instance stands, once a second.
pub(super) fn top(top: &Top) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(top::top(&top.instance, top.pictures))
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

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
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
        let link = self.link()?;
        runtime()?.block_on(link.ask(method, path))
    }

    fn link(&self) -> anyhow::Result<Link> {
        let (admin, token) = self.found()?;
        Link::new(admin, token)
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
