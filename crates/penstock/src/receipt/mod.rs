//! Receipts at the command line: signing them, and `penstock receipt check`, which needs neither a
//! daemon nor a network.

mod check;
mod findings;
mod json;
mod listed;
mod tree;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use penstock_api::problem::Exit;
use penstock_api::receipt::{Receipt, ReceiptSigner as _, Role};
use penstock_api::transfer::{PathText, TransferReport, TransferRequest};
use penstock_controller::manager::{ReceiptParts, receipt_body, receipt_text};
use penstock_controller::runner::RunFiles;

use crate::output::output_file::OutputFile;
use penstock_daemon::access::receipt_keys::Signer;
use penstock_exit::failure;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_sys::now_seconds;

pub(crate) use check::{CheckArgs, sound};

/// Checks receipts, without a daemon or a network
#[derive(clap::Args)]
pub(crate) struct ReceiptArgs {
    #[command(subcommand)]
    command: ReceiptCommand,
}

#[derive(clap::Subcommand)]
enum ReceiptCommand {
    /// Checks the form and the signatures of a receipt, and optionally the data that it describes
    Check(CheckArgs),
}

/// Runs the command.
///
/// # Errors
/// The receipt cannot be read, or is not sound: exit 8.
pub(crate) fn run(args: &ReceiptArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        ReceiptCommand::Check(args) => check::run(args),
    }
}

/// Makes the receipt of a copy on this host, signed in both roles by the user's key.
///
/// # Errors
/// The copy left no facts; the key or the file cannot be written.
pub(crate) fn write_own(
    to: OutputFile,
    signer: &Signer,
    journal: &Path,
    view: &TransferReport,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (source, target) = (view.source.clone(), view.target.clone());
    let request = TransferRequest::new(view.id, source, target, view.options.clone());
    let parts = ReceiptParts {
        request: &request,
        root: PathText::default(),
        state: view.state,
        exit: view.exit.unwrap_or(Exit::Unclassified),
        submitted: now_seconds().saturating_sub(view.progress.seconds as u64),
        progress: &view.progress,
        failures: &view.failures,
        durable_by: &view.durable_by,
    };
    let facts = RunFiles::of(journal).map_err(failure)?.facts;
    let Some(body) = receipt_body(&facts, &parts).map_err(failure)? else {
        let message = "the copy ended before a receipt could be made";
        return Err(Failure::new(ExitCode::Fatal, message).into());
    };
    let signatures = [Role::Source, Role::Target].map(|role| signer.sign(&body, role));
    let signatures = signatures.into_iter().collect::<Result<Vec<_>, _>>().map_err(failure)?;
    let receipt = Receipt { receipt: body, signatures };
    let text = receipt_text(&receipt).map_err(failure)?;
    let name = to.name().to_owned();
    to.write(stop, |out| Ok(out.write_all(&text)?))?;
    exit::warn(&format!("receipt in `{}`: `penstock receipt check` checks it", name.display()));
    Ok(())
}
