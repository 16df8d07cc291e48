//! `--dry-run` and `--plan`: what a transfer would do, and a transfer that does just that.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use penstock_api::plan::{PlanHead, PlanReader, PlanUse};
use penstock_api::preserve::Preserve;
use penstock_api::select::Selection;
use penstock_api::transfer::TransferOptions;
use penstock_api::update::UpdateOptions;

use penstock_exit::failure;
use penstock_exit::{ExitCode, Failure};

/// Whether to make a plan, or to follow one.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Plans")]
pub(crate) struct PlanArgs {
    /// List the items that would be copied, replaced, linked and deleted, with totals and a
    /// forecast; write nothing at the target
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// In a dry run or plan, also list the items that would not change, with the reason
    #[arg(short, long)]
    verbose: bool,
    /// Follow the plan in FILE. Do nothing if the source or the target has changed since it was
    /// made (exit code 4). The plan contains the source, the target and all options that matter
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    plan: Option<PathBuf>,
}

impl PlanArgs {
    /// Whether a plan is to be made.
    pub(crate) fn makes(&self) -> bool {
        self.dry_run
    }

    /// Whether what stays as it is is wanted too.
    pub(crate) fn verbose(&self) -> bool {
        self.verbose
    }

    /// The plan that is to be followed.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.plan.as_deref()
    }
}

/// Reads a plan once: its head, and the digest of a plan that is whole.
///
/// # Errors
/// It cannot be read, or is no whole plan.
pub(crate) fn read_plan(path: &Path) -> anyhow::Result<(PlanHead, String)> {
    let file = File::open(path)
        .map_err(|error| Failure::io(format!("read the plan `{}`", path.display()), error))?;
    let read = || {
        let (reader, head) = PlanReader::open(BufReader::with_capacity(1 << 18, file))?;
        Ok((head, reader.finish()?.digest))
    };
    let read = read().map_err(failure);
    Ok(read.map_err(|cause| {
        let code = ExitCode::Usage;
        Failure::new(code, format!("cannot follow the plan `{}`", path.display())).caused_by(cause)
    })?)
}

/// The options of a transfer that follows a plan: those that decide what is done are the plan's,
/// those that say how are `options`, of the command line.
///
/// # Errors
/// Usage: the command line decides something too.
pub(crate) fn planned_options(
    head: &PlanHead,
    digest: String,
    options: TransferOptions,
) -> anyhow::Result<TransferOptions> {
    let decides = options.update != UpdateOptions::default()
        || options.select != Selection::default()
        || !options.files_from.is_empty()
        || options.preserve != Preserve::default();
    if decides {
        let message = "the options are part of the plan: leave out those that it contains";
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("leave these options out, or make another plan with them")
            .into());
    }
    let planned = head.options.clone();
    Ok(TransferOptions {
        update: planned.update,
        select: planned.select,
        files_from: planned.files_from,
        preserve: planned.preserve,
        plan: Some(PlanUse::Follow { digest }),
        ..options
    })
}
