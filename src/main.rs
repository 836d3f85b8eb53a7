//! The `weir` command.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Requests come and go by thousands, each with a few buffers of 8 KiB: they cost less
/// here than in the C library's allocator, and leave fewer gaps.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    weir::cli::main()
}
