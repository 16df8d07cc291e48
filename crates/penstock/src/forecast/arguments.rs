//! The arguments of `penstock forecast`.

use penstock_api::transfer::{Durability, Encryption, Location};
use penstock_exit::{self as exit, ExitCode};
use penstock_proto::digest::DigestKind;
use penstock_proto::units::parse_size;

use super::history::Mode;
use crate::commands::transfer::{DurabilityArg, EncryptionArg, parse_digest};
use crate::dataset::Shape;
use crate::options::directory::DirectoryArgs;

/// Forecasts the time of a transfer, from the transfers and measurements that the site keeps
///
/// Transfers between the same stores tell most. Without them, what `penstock bench storage` and
/// `penstock bench network` have measured gives the least time. Nothing is assumed where nothing
/// was measured: the command to run is named instead. Nothing is changed.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "there is a forecast, or a grade"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::Temporary, "no daemon answers"),
    (ExitCode::Refused, "nothing was measured; the message names the commands to run"),
    (ExitCode::Fatal, ""),
    (ExitCode::NotAuthorised, ""),
]))]
pub(crate) struct ForecastArgs {
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// The source, SITE:STORE/PATH. Its files are listed and counted, unless options give them
    pub(super) source: Location,
    /// The target, SITE:STORE/PATH
    pub(super) target: Location,
    /// Leave out files that are the same at the target already
    #[arg(long, conflicts_with_all = ["files", "shape", "grade"])]
    pub(super) sync: bool,
    /// Number of files, with --bytes, instead of listing the source
    #[arg(long, value_name = "N", requires = "bytes",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) files: Option<u64>,
    /// Bytes of all files together
    #[arg(long, value_name = "BYTES", requires = "files", value_parser = parse_size)]
    pub(super) bytes: Option<u64>,
    /// Files by their sizes, as 100000x4KiB,20x1GiB or esnet@3GiB, instead of listing the source
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', conflicts_with = "files")]
    pub(super) shape: Vec<Shape>,
    /// Forecast each past transfer between the stores from the others, and show the errors
    #[arg(long, conflicts_with_all = ["files", "shape"])]
    pub(super) grade: bool,
    /// Whether the payload is encrypted on the network
    #[arg(long, value_enum, default_value = "tls")]
    encryption: EncryptionArg,
    /// The hash that verifies the data: blake3 or xxh3-128
    #[arg(long, default_value = "blake3", value_parser = parse_digest)]
    digest: DigestKind,
    /// When a file counts as durable
    #[arg(long, value_enum, default_value = "batch")]
    durability: DurabilityArg,
    /// Ask this daemon of the other site for its measurements: its address, or its site directory
    #[arg(long, value_name = "URL|DIR")]
    pub(super) other_daemon: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl ForecastArgs {
    /// Returns the options of a transfer that decide its speed.
    pub(super) fn mode(&self) -> Mode {
        Mode {
            encryption: Encryption::from(self.encryption),
            digest: self.digest,
            durability: Durability::from(self.durability),
        }
    }
}
