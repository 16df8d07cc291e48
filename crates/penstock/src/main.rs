//! `penstock`: the command line and the daemon. It parses, dispatches, prints and exits; what it
//! does lives in the modules below and in the crates they call.
#![forbid(unsafe_code)]

mod client;
mod commands;
mod consent;
mod copy;
mod dataset;
mod drift;
mod exit_codes;
mod forecast;
mod median;
mod options;
mod output;
mod progress_mark;
mod receipt;
mod record_directory;
mod reference;
mod rights_dialog;
mod selftest;
mod settings;
mod shell_command;
mod signals;
mod soak;
mod terminal;
mod token;
mod top;

use std::process;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use penstock_exit as exit;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Moves data sets between sites: fast, always verified, resumable.
#[derive(Parser)]
#[command(name = "penstock", version, after_help = exit::help(&exit::ExitCode::ALL))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Copy(Box<commands::copy::CopyArgs>),
    Daemon(commands::daemon::DaemonArgs),
    Transfer(commands::transfer::TransferArgs),
    Top(top::TopArgs),
    Queue(commands::queue::QueueArgs),
    Site(Box<commands::site::SiteArgs>),
    Peer(commands::peer::PeerArgs),
    Store(commands::store::StoreArgs),
    Bench(commands::bench::BenchArgs),
    Soak(Box<soak::SoakArgs>),
    Selftest(Box<selftest::SelftestArgs>),
    Forecast(Box<forecast::ForecastArgs>),
    User(commands::access::user::UserArgs),
    Webhook(commands::webhook::WebhookArgs),
    Token(commands::access::token::TokenArgs),
    Login(commands::access::login::LoginArgs),
    Logout(commands::access::login::LogoutArgs),
    Whoami(commands::access::login::WhoamiArgs),
    Auth(commands::access::auth::AuthArgs),
    Web(commands::access::web::WebArgs),
    Audit(commands::access::audit::AuditArgs),
    Config(settings::ConfigArgs),
    Doctor(commands::support::doctor::DoctorArgs),
    SupportBundle(commands::support::bundle::BundleArgs),
    #[command(hide = true)]
    SshServe(copy::ssh::ServeArgs),
    /// Makes test data sets of published shapes, and counts the sizes of existing ones
    Dataset(dataset::DatasetArgs),
    Verify(commands::verify::VerifyArgs),
    Receipt(receipt::ReceiptArgs),
    Completions(reference::CompletionsArgs),
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

/// The whole command line.
fn command() -> clap::Command {
    exit_codes::completed(Cli::command())
}

fn main() -> process::ExitCode {
    penstock_sys::keep_freed_memory();
    let parsed = Cli::from_arg_matches(&command().get_matches());
    let result = match parsed.unwrap_or_else(|error| error.exit()).command {
        Command::Copy(args) => commands::copy::run(*args),
        Command::Daemon(args) => commands::daemon::run(args),
        Command::Transfer(args) => commands::transfer::run(args),
        Command::Top(args) => top::run(&args),
        Command::Queue(args) => commands::queue::run(args),
        Command::Site(args) => commands::site::run(*args),
        Command::Peer(args) => commands::peer::run(args),
        Command::Store(args) => commands::store::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Soak(args) => soak::run(&args),
        Command::Selftest(args) => selftest::run(&args),
        Command::Forecast(args) => forecast::run(&args),
        Command::User(args) => commands::access::user::run(args),
        Command::Webhook(args) => commands::webhook::run(args),
        Command::Token(args) => commands::access::token::run(args),
        Command::Login(args) => commands::access::login::login(args),
        Command::Logout(args) => commands::access::login::logout(&args),
        Command::Whoami(args) => commands::access::login::whoami(&args),
        Command::Auth(args) => commands::access::auth::run(args),
        Command::Web(args) => commands::access::web::run(args),
        Command::Audit(args) => commands::access::audit::run(args),
        Command::Config(args) => settings::run(args),
        Command::Doctor(args) => commands::support::doctor::run(&args),
        Command::SupportBundle(args) => commands::support::bundle::run(&args),
        Command::SshServe(args) => copy::ssh::serve(&args),
        Command::Dataset(args) => dataset::run(args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Receipt(args) => receipt::run(&args),
        Command::Completions(args) => reference::completions(&args, command()),
        Command::Reference(args) => reference::run(&args, command()),
    };
    exit::finish(result)
}
