//! What can be asked of the `weir` command?

pub mod check;
mod demo;
mod explain;
mod import;
mod log;
mod remote;
mod row;
mod screen;
mod serve;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// A reverse proxy that shapes traffic: requests wait in bounded queues, one for
/// each key, and leave at an even rate.
#[derive(Debug, Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve requests (what weir does without a command).
    Serve(ConfigFile),
    /// Say what a config file comes to, or all that is wrong with it.
    Check(ConfigFile),
    /// Draw what a burst would see at a limit: who passes, who waits how long, who is refused.
    Explain(explain::Explain),
    /// Make a config from one of another product.
    Import(import::Import),
    /// Say how a running instance stands.
    Status(remote::Instance),
    /// Draw how a running instance stands, once a second.
    Top(remote::Top),
    /// Let nobody of a limit go for a while, or nobody of one key; those who wait keep
    /// their places.
    Pause(remote::Pause),
    /// End a pause.
    Resume(remote::Line),
    /// Send away those who wait in a limit, or under one key.
    Purge(remote::Line),
    /// Let a running instance read its config anew.
    Reload(remote::Instance),
    /// Show a burst turn into an even stream: upstream, weir and clients in one process.
    Demo,
}

#[derive(Args, Debug)]
struct ConfigFile {
    /// The config file.
    #[arg(short, long, value_name = "FILE", default_value = "config/weir.toml")]
    config: PathBuf,
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    // Another provider may be set already where weir runs inside another program.
    let _other = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let done = match cli.command.unwrap_or(Command::Serve(cli.file)) {
        Command::Serve(file) => serve::serve(&file.config),
        Command::Check(file) => {
            check::check(&file.config, &mut std::io::stdout(), &mut std::io::stderr())
                .map(|sound| {
                    if sound {
                        ExitCode::SUCCESS
                    } else {
                        ExitCode::FAILURE
                    }
                })
                .map_err(Into::into)
        }
        Command::Explain(asked) => explain::explain(&asked),
        Command::Import(import) => import::import(&import),
        Command::Status(instance) => remote::status(&instance),
        Command::Top(top) => remote::top(&top),
        Command::Pause(pause) => remote::pause(&pause),
        Command::Resume(line) => remote::resume(&line),
        Command::Purge(line) => remote::purge(&line),
        Command::Reload(instance) => remote::reload(&instance),
        Command::Demo => demo::demo(),
    };
    done.unwrap_or_else(|error: anyhow::Error| {
        // Where standard error is closed there is nobody left to tell.
        let _untold = writeln!(std::io::stderr(), "weir: {error:#}");
        ExitCode::FAILURE
    })
}
