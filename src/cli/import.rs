//! How does the config of another product become one of weir's?

mod nginx;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};

/// Another product's config.
#[derive(Args, Debug)]
pub(super) struct Import {
    #[command(subcommand)]
    from: Product,
}

#[derive(Debug, Subcommand)]
enum Product {
    /// NGINX: limits, servers, locations and upstreams. Whatever is left out, or not quite
    /// the same, is named on standard error and in the config.
    Nginx(File),
}

#[derive(Args, Debug)]
struct File {
    /// Where the config is; files that it includes are looked for from its directory.
    file: PathBuf,
    /// Where weir's config is written, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes weir's config, and on standard error what did not come along.
///
/// Fails where something is wrong with the config that it is made from.
pub(super) fn import(import: &Import) -> anyhow::Result<ExitCode> {
    let Product::Nginx(File { file, output }) = &import.from;
    let imported = nginx::import(file)?;
    match output {
        Some(path) => std::fs::write(path, &imported.toml)
            .with_context(|| format!("{} can't be written", path.display()))?,
        None => std::io::stdout().write_all(imported.toml.as_bytes())?,
    }
    let mut notes = imported.notes.join("\n");
    notes.push_str(if notes.is_empty() { "" } else { "\n" });
    std::io::stderr().write_all(notes.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
