//! `penstock`: the command line and the daemon. It parses, dispatches, prints and exits; what it
//! does lives in the modules below and in the crates they call.
#![forbid(unsafe_code)]

mod cause;
mod clean;
mod cli_cluster;
mod cli_events;
mod cli_join;
mod cli_paths;
mod cli_peer;
mod cli_plan;
mod cli_recover;
mod cli_rotation;
mod cli_shares;
mod cli_site;
mod cli_status;
mod cli_store;
mod cli_transfer;
mod client;
mod config;
mod copy;
mod daemon;
mod dataset;
mod doctor;
mod exit;
mod failed_list;
mod grants;
mod http;
mod networks;
mod options;
mod output_file;
mod plan;
mod progress;
mod receipt;
mod reference;
mod site_directory;
mod ssh;
mod token;
mod verify;
mod wiring;

use std::process;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Moves data sets between sites: fast, always verified, resumable.
#[derive(Parser)]
#[command(name = "penstock", version, after_help = exit::help(&exit::ExitCode::ALL))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Copy(Box<copy::CopyArgs>),
    Daemon(daemon::DaemonArgs),
    Transfer(cli_transfer::TransferArgs),
    Site(Box<cli_site::SiteArgs>),
    Peer(cli_peer::PeerArgs),
    Store(cli_store::StoreArgs),
    Doctor(doctor::DoctorArgs),
    #[command(hide = true)]
    SshServe(ssh::ServeArgs),
    /// Makes test data sets of published shapes, and counts the sizes of existing ones
    Dataset(dataset::DatasetArgs),
    Verify(verify::VerifyArgs),
    Receipt(receipt::ReceiptArgs),
    Completions(reference::CompletionsArgs),
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

/// The whole command line, to be described.
fn command() -> clap::Command {
    Cli::command()
}

fn main() -> process::ExitCode {
    let result = match Cli::parse().command {
        Command::Copy(args) => copy::run(*args),
        Command::Daemon(args) => daemon::run(args),
        Command::Transfer(args) => cli_transfer::run(args),
        Command::Site(args) => cli_site::run(*args),
        Command::Peer(args) => cli_peer::run(args),
        Command::Store(args) => cli_store::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::SshServe(args) => ssh::serve(&args),
        Command::Dataset(args) => dataset::run(args),
        Command::Verify(args) => verify::run(&args),
        Command::Receipt(args) => receipt::run(&args),
        Command::Completions(args) => reference::completions(&args, command()),
        Command::Reference(args) => reference::run(&args, command()),
    };
    exit::finish(result)
}
