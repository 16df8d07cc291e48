//! Receipts: makes those of own transfers, and checks those that it is asked to countersign.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::access::AccountName;
use penstock_api::fence::Fence;
use penstock_api::io_problem;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::receipt::{
    RECEIPT_VERSION, Receipt, ReceiptBody, ReceiptFacts, ReceiptSignature, ReceiptSigner, Role,
    cannot_write,
};
use penstock_api::scan::{PageReply, ScanRequest, SourcePeer};
use penstock_api::transfer::{FailedItem, PathText, Progress, TransferRequest, TransferState};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::{Listing, TransferRecord};
use penstock_engine::retry::Backoff;
use penstock_proto::id::Name;
use penstock_proto::manifest::page_digest;

use super::config::{ManagerConfig, ManagerParts};
use super::journal_directory::JournalDirectory;
use super::queue::TransferTable;
use super::sources::{scan_of, scan_request};
use crate::runner::{RunFiles, RunOutcome, RunView};
use crate::sites::SiteClient;

/// Longest time for which a source that cannot sign now is asked again.
const COUNTERSIGN_PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait between two such questions.
const COUNTERSIGN_WAIT_MAX: Duration = Duration::from_secs(5);

/// The contents of a receipt besides the ledger's facts.
#[derive(Debug)]
pub struct ReceiptParts<'a> {
    /// The request.
    pub request: &'a TransferRequest,
    /// Root of the data set within the target's store.
    pub root: PathText,
    /// The final state.
    pub state: TransferState,
    /// The exit code of the command.
    pub exit: Exit,
    /// Seconds since 1970 of its submission.
    pub submitted: u64,
    /// Figures.
    pub progress: &'a Progress,
    /// The first failed items.
    pub failures: &'a [FailedItem],
    /// The method that made the data durable, in words.
    pub durable_by: &'a str,
}

/// Returns the body to sign for a run that has left its facts at `path`. `None` if it has left
/// none, having ended before everything was tried.
///
/// # Errors
/// The facts cannot be read.
pub fn receipt_body(path: &Path, parts: &ReceiptParts<'_>) -> Result<Option<ReceiptBody>, Problem> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => {
            let title = format!("{} cannot be read", path.display());
            return Err(io_problem::failed(ProblemCode::Receipt, title, &cause));
        }
    };
    if text.is_empty() {
        return Ok(None);
    }
    let facts: ReceiptFacts = serde_json::from_slice(&text).map_err(|cause| {
        let title = format!("{} cannot be understood", path.display());
        Problem::new(ProblemCode::ReceiptDamaged, title).because(cause)
    })?;
    Ok(Some(ReceiptBody {
        version: RECEIPT_VERSION,
        program: format!("penstock {}", env!("CARGO_PKG_VERSION")),
        id: parts.request.id,
        state: parts.state,
        exit: parts.exit,
        source: parts.request.source.clone(),
        target: parts.request.target.clone(),
        root: parts.root.clone(),
        options: serde_json::to_value(&parts.request.options)
            .map_err(|error| cannot_write(&error))?,
        submitted: parts.submitted,
        ended: now_seconds(),
        milliseconds: (parts.progress.seconds * 1000.0) as u64,
        durable_by: parts.durable_by.to_owned(),
        facts,
        failures: parts.failures.to_vec(),
        withheld: parts.progress.not_kept.iter().map(|told| (told.key(), told.items)).collect(),
    }))
}

/// Returns a receipt as a text for people to read and programs to check.
///
/// # Errors
/// The receipt cannot be written as JSON.
pub fn receipt_text(receipt: &Receipt) -> Result<Vec<u8>, Problem> {
    let mut text = serde_json::to_vec_pretty(receipt).map_err(|error| cannot_write(&error))?;
    text.push(b'\n');
    Ok(text)
}

/// Writes the text of a receipt into the site's own directory, whole or not at all.
fn write_receipt(path: &Path, receipt: &Receipt) -> Result<(), Problem> {
    let text = receipt_text(receipt)?;
    // The name must not be one that a user has given to a file beside it.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".penstock-new");
    let write = || -> std::io::Result<()> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        let mut file = File::create(&temporary)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|cause| {
        let title = format!("the receipt `{}` cannot be written", path.display());
        Problem::new(ProblemCode::Receipt, title).exit(io_problem::exit_of(&cause)).because(cause)
    })
}

/// Compares the facts of a receipt about a scan with the scan itself: the data set it names, and
/// every page that was served. `account` is the one as which a mapped store is used. Reads all
/// pages; blocks.
///
/// # Errors
/// Code `receipt-differs`: the receipt differs, or the scan can never be opened. Errors that may
/// pass are temporary, and no difference. The scan cannot be read now, is not complete here, or
/// belongs to another controller by now, as `fence` shows.
pub fn check_as_source(
    source: &dyn SourcePeer,
    fence: &Fence,
    body: &ReceiptBody,
    account: Option<&AccountName>,
) -> Result<(), Problem> {
    let differs = |what: &str| {
        let title = format!("the receipt of transfer {} names another {what}", body.id.short());
        Problem::new(ProblemCode::ReceiptDiffers, title)
    };
    let options = serde_json::from_value(body.options.clone())
        .map_err(|cause| differs("set of options than is known here").because(cause))?;
    let request = TransferRequest::new(body.id, body.source.clone(), body.target.clone(), options);
    let scan = scan_request(&request, Listing { at: body.submitted, ..Listing::default() });
    source.open_scan(&ScanRequest { account: account.cloned(), ..scan }).map_err(|problem| {
        let passes = problem.exit == Exit::Temporary;
        if passes { problem } else { differs("data set than was read").because(problem) }
    })?;
    let mut manifest = blake3::Hasher::new();
    for number in 0.. {
        match source.page(body.id, number, 0)? {
            PageReply::Page(encoded) => drop(manifest.update(&page_digest(&encoded).0)),
            PageReply::NotYet => {
                fence.check()?;
                let title = format!("the scan of transfer {} is not complete", body.id.short());
                return Err(Problem::new(ProblemCode::ScanIncomplete, title));
            }
            PageReply::End(summary) => {
                let same = body.facts.pages == number
                    && summary.pages == number
                    && body.facts.entries_found == summary.entries
                    && body.facts.files_found == summary.files
                    && body.facts.bytes_found == summary.bytes
                    && body.facts.manifest_digest == manifest.finalize().to_hex().as_str();
                return if same { Ok(()) } else { Err(differs("manifest than was served")) };
            }
        }
    }
    Ok(())
}

/// The end of an attempt to make a receipt.
enum Signing {
    /// The receipt is stored, or there is nothing to sign.
    Ended,
    /// The source has not signed yet: the next attempt asks it again.
    Interrupted,
}

/// Makes the receipts of own transfers.
pub(super) struct ReceiptMaker {
    /// The own site.
    site: Name,
    signer: Arc<dyn ReceiptSigner>,
    sites: Arc<dyn SiteClient>,
    fence: Fence,
    /// Least wait before the source is asked again.
    retry_least: Duration,
    journal: JournalDirectory,
    table: Arc<TransferTable>,
}

impl ReceiptMaker {
    pub(super) fn new(
        (config, parts): (&ManagerConfig, &ManagerParts),
        table: Arc<TransferTable>,
    ) -> Self {
        Self {
            site: config.site.clone(),
            signer: Arc::clone(&parts.signer),
            sites: Arc::clone(&parts.sites),
            fence: parts.fence.clone(),
            retry_least: config.retry_least,
            journal: JournalDirectory::new(config.journal.clone()),
            table,
        }
    }

    /// Makes the receipt of a run that has ended for good, before its end is published. A receipt
    /// that cannot be made is logged: the data is in its place all the same.
    ///
    /// Returns the result of the run. The run has not ended for good in three cases. The journal
    /// cannot store the receipt now, this controller is deposed, or the daemon ends while the
    /// source is asked. The next attempt then makes the receipt.
    pub(super) fn make(
        &self,
        record: &TransferRecord,
        outcome: RunOutcome,
        seen: &RunView,
    ) -> RunOutcome {
        let ended = match &outcome {
            RunOutcome::Done => (TransferState::Done, Exit::Done),
            RunOutcome::Failed(problem) if problem.exit != Exit::Temporary => {
                (TransferState::Failed, problem.exit)
            }
            _ => return outcome,
        };
        if !record.request.options.proof.receipt {
            return outcome;
        }
        match self.sign(record, ended, seen) {
            Ok(Signing::Ended) => outcome,
            Ok(Signing::Interrupted) => RunOutcome::Paused,
            Err(problem) if problem.exit == Exit::Temporary => RunOutcome::Failed(problem),
            Err(problem) => {
                tracing::error!(transfer = %record.id(), %problem, "no receipt");
                outcome
            }
        }
    }

    fn sign(
        &self,
        record: &TransferRecord,
        (state, exit): (TransferState, Exit),
        seen: &RunView,
    ) -> Result<Signing, Problem> {
        let parts = ReceiptParts {
            request: &record.request,
            root: record.root.clone().unwrap_or_default(),
            state,
            exit,
            submitted: record.created,
            progress: &seen.progress,
            failures: &seen.failures,
            durable_by: &seen.durable_by,
        };
        let journal = self.journal.of(record.id());
        // The facts of this controller's own run, and of no other's (B4).
        let facts = RunFiles::own(&journal, self.fence.epoch()).facts;
        let Some(body) = receipt_body(&facts, &parts)? else { return Ok(Signing::Ended) };
        let mut signatures = vec![self.signer.sign(&body, Role::Target)?];
        match self.sign_as_source(record, &body) {
            Ok(Some(signature)) => signatures.push(signature),
            Ok(None) => return Ok(Signing::Interrupted),
            Err(problem) => {
                tracing::warn!(
                    transfer = %record.id(), %problem,
                    "the source did not countersign: the receipt has the target's signature alone"
                );
            }
        }
        write_receipt(&self.journal.receipt(record.id()), &Receipt { receipt: body, signatures })?;
        Ok(Signing::Ended)
    }

    /// Requests the source's signature. Its controller may change in that moment, or its store be
    /// away: temporary errors are retried for [`COUNTERSIGN_PATIENCE`]. `None` if that was
    /// interrupted, since the manager stops or no longer leads.
    fn sign_as_source(
        &self,
        record: &TransferRecord,
        body: &ReceiptBody,
    ) -> Result<Option<ReceiptSignature>, Problem> {
        if record.request.source.site == self.site {
            return self.signer.sign(body, Role::Source).map(Some);
        }
        let end = Instant::now() + COUNTERSIGN_PATIENCE;
        let mut backoff = Backoff::new(self.retry_least, COUNTERSIGN_WAIT_MAX);
        loop {
            let problem = match self.countersign(record, body) {
                Err(problem) if problem.exit == Exit::Temporary => problem,
                outcome => return outcome.map(Some),
            };
            let wait = backoff.next(&mut rand::rng());
            if Instant::now() + wait >= end {
                return Err(problem);
            }
            tracing::info!(transfer = %record.id(), %problem, "the source is asked to sign again");
            if !self.table.rest(wait) || !self.fence.holds() {
                return Ok(None);
            }
        }
    }

    fn countersign(
        &self,
        record: &TransferRecord,
        body: &ReceiptBody,
    ) -> Result<ReceiptSignature, Problem> {
        let site = &record.request.source.site;
        match self.sites.countersign(site, body, record.owner.as_ref()) {
            // The source was restarted: it continues the same scan once it is opened again.
            Err(problem) if problem.code == ProblemCode::ScanUnknown => {
                self.sites.open_scan(site, &scan_of(record))?;
                self.sites.countersign(site, body, record.owner.as_ref())
            }
            reply => reply,
        }
    }
}
