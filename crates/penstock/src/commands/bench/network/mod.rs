//! `penstock bench network`: what the way between two sites can do, without their disks.
//!
//! Bytes go from a `mem:` store, which generates them, to a `null:` store, which keeps none, by
//! plain transfers. Their records in the history of the site are the measurement that is kept.
//!
//! | module | what it owns |
//! |---|---|
//! | `ways` | the stores at both ends, and the rights |
//! | `stock` | the files of a `mem:` store that a transfer moves |
//! | `course` | the transfers: warm-up, then repeats by turns |
//! | `cards` | the bytes that each network card has carried |
//! | `iperf3` | the other program, by turns with the transfers |
//! | `result` | the figures, and their table |

mod cards;
mod course;
mod iperf3;
mod result;
mod stock;
mod ways;

use std::path::Path;

use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::Name;
use penstock_proto::units::parse_size;

use crate::client::Client;
use crate::commands::bench::sweep::interruption::Interruption;
use crate::commands::transfer::EncryptionArg;
use course::Course;
use iperf3::Iperf3Server;

/// Arguments of `penstock bench network`.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "the way is measured"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, "wrong command line, or no site is paired"),
    (ExitCode::SomeFailed, "a transfer failed"),
    (ExitCode::Temporary, "no daemon answers, or another temporary failure"),
    (ExitCode::Refused, "no store of either site can be used; the message says why"),
    (ExitCode::Fatal, ""),
    (ExitCode::Integrity, ""),
    (ExitCode::NotAuthorised, ""),
    (ExitCode::Interrupted, "interrupted; the transfer that ran is cancelled"),
]))]
pub(super) struct NetworkArgs {
    /// The other site; may be left out where only one is paired
    site: Option<Name>,
    /// Time of each transfer, about, in seconds. A warm-up finds the bytes that take so long
    #[arg(long, default_value_t = 10, value_name = "N", conflicts_with = "bytes",
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Bytes of each transfer, rounded up to whole files, instead of a time
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    bytes: Option<u64>,
    /// Number of times that each way is measured, by turns
    #[arg(long, default_value_t = 6, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Whether the payload is encrypted on the network
    #[arg(long, value_enum, default_value = "tls")]
    encryption: EncryptionArg,
    /// Also run `iperf3` of this host to a server that listens there, by turns, with 4 connections
    #[arg(long, value_name = "HOST[:PORT]")]
    iperf3: Option<Iperf3Server>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it; blocks until all transfers have ended.
///
/// # Errors
/// No daemon answers; no way can be measured; a transfer fails; exit 130.
pub(super) fn run(args: &NetworkArgs, directory: &Path) -> anyhow::Result<ExitCode> {
    let client = Client::new(directory)?;
    let interruption = Interruption::catch()?;
    let course = Course { client: &client, interruption: &interruption, args };
    let measured = course.run().map_err(|error| match exit::code_of(&error) {
        ExitCode::Interrupted => Failure::new(ExitCode::Interrupted, "interrupted")
            .hint("the transfer that ran is cancelled; the same command measures anew")
            .into(),
        _ => error,
    })?;
    let text = match args.json {
        true => serde_json::to_string(&measured)?,
        false => measured.text(),
    };
    exit::print(&text)?;
    Ok(ExitCode::Done)
}
