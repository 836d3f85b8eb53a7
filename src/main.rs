//! The `weir` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::cli::main()
}
