//! The arguments of `penstock soak`.

use std::path::PathBuf;

use penstock_api::transfer::Location;
use penstock_exit::{self as exit, ExitCode};

use super::until::{Until, interval, stall};
use crate::options::directory::DirectoryArgs;

/// Repeats a transfer until a volume or a time is reached, and proves that nothing was lost
///
/// Every round is verified, and its receipt checked. With `--faults` things break meanwhile. The
/// same command continues after an interrupt or a kill. The result is `proof.md` in the directory
/// of `--out`. Ask the site of the target: a soak works at the site that owns its transfers.
/// `--show` exits with 0 only if the end was reached and nothing failed.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "the end was reached, and nothing failed; `--clean` has removed what it may"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::SomeFailed, "something failed: the page says what"),
    (
        ExitCode::Temporary,
        "no daemon answers; `--show`: nothing failed so far, and the end is not reached",
    ),
    (ExitCode::Refused, "the user did not confirm, or a fault is not undone"),
    (ExitCode::Fatal, ""),
    (ExitCode::NotAuthorised, ""),
    (ExitCode::Interrupted, "interrupted; the same command continues"),
]))]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    pub(super) directory: DirectoryArgs,
    /// The data set, SITE:STORE/PATH. It must not change meanwhile
    #[arg(required_unless_present_any = ["show", "clean"])]
    pub(super) source: Option<Location>,
    /// Where a directory of the soak is made, SITE:STORE/DIR, or a store that is `null:`
    #[arg(required_unless_present_any = ["show", "clean"])]
    pub(super) target: Option<Location>,
    /// When it ends: a volume (1TB), a time (90s, 30min, 2h, 1d) or a number of rounds (10-rounds)
    #[arg(
        long,
        value_name = "1TB|2h|N-rounds",
        required_unless_present_any = ["show", "clean"]
    )]
    pub(super) until: Option<Until>,
    /// The directory for records and result; with an earlier soak in it, that is continued
    #[arg(long, value_name = "DIR", required_unless_present_any = ["show", "clean"])]
    pub(super) out: Option<PathBuf>,
    /// Inject the faults of this file while transfers run; asks before
    #[arg(long, value_name = "FILE")]
    pub(super) faults: Option<PathBuf>,
    /// Mean time from the begin of one fault to that of the next
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval)]
    pub(super) every: u64,
    /// Seed of the order of faults; random by default, and shown in the result
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Compare source and target by digests after each round, not only where a fault has damaged
    /// data at rest. A soak that continues still compares without it
    #[arg(long)]
    pub(super) compare: bool,
    /// Time without progress after which a round fails and its transfer is cancelled. Time in which
    /// a fault is open does not count. 15min by default; a soak that continues keeps its own
    #[arg(long, value_name = "TIME", value_parser = stall)]
    pub(super) stall: Option<u64>,
    /// Watch the figures of this daemon of the host too, by its site directory
    #[arg(long, value_name = "DIR")]
    pub(super) watch: Vec<PathBuf>,
    /// Do not ask before faults are injected
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Print rounds, faults and waits as JSON Lines; with --show the result as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print the page of a soak, also of one that works
    #[arg(long, value_name = "DIR", conflicts_with_all = ["source", "target", "until", "out"])]
    pub(super) show: Option<PathBuf>,
    /// Remove the data that a soak has left in the target store, and undo a fault that is open.
    /// Prints what remains
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["source", "target", "until", "out", "show"]
    )]
    pub(super) clean: Option<PathBuf>,
}
