//! The arguments of `penstock bench network`.

use penstock_exit::{self as exit, ExitCode};
use penstock_proto::id::Name;
use penstock_proto::units::parse_size;

use super::iperf3::Iperf3Server;
use crate::commands::transfer::EncryptionArg;

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
pub(crate) struct NetworkArgs {
    /// The other site; may be left out where only one is paired
    pub(super) site: Option<Name>,
    /// Time of each transfer, about, in seconds. A warm-up finds the bytes that take so long
    #[arg(long, default_value_t = 10, value_name = "N", conflicts_with = "bytes",
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: u32,
    /// Bytes of each transfer, rounded up to whole files, instead of a time
    #[arg(long, value_name = "BYTES", value_parser = some_bytes)]
    pub(super) bytes: Option<u64>,
    /// Number of times that each way is measured, by turns
    #[arg(long, default_value_t = 6, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) repeats: u32,
    /// Whether the payload is encrypted on the network
    #[arg(long, value_enum, default_value = "tls")]
    pub(super) encryption: EncryptionArg,
    /// Also measure each network for data alone, by turns with all of them together. The networks
    /// need names in penstock.toml
    #[arg(long)]
    pub(super) each_network: bool,
    /// Also run `iperf3` of this host to a server that listens there, by turns, with 4 connections
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(super) iperf3: Option<Iperf3Server>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Reads a size that is not zero.
fn some_bytes(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(0) => Err("a transfer moves at least 1 byte".to_owned()),
        bytes => bytes.map_err(|error| error.to_string()),
    }
}
