//! `penstock`: the command line and the daemon. It parses, dispatches, prints and exits; what it
//! does lives in the modules below and in the crates they call.
#![forbid(unsafe_code)]

mod dataset;
mod exit;

use std::process;

use clap::{Parser, Subcommand};

/// Moves data sets between sites: fast, always verified, resumable.
#[derive(Parser)]
#[command(name = "penstock", version, after_help = exit::help(&exit::ExitCode::ALL))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes test data sets of published shapes, and counts the sizes of existing ones
    Dataset(dataset::DatasetArgs),
}

fn main() -> process::ExitCode {
    let result = match Cli::parse().command {
        Command::Dataset(args) => dataset::run(args),
    };
    exit::finish(result)
}
