//! The last phase of a run with proof: every page's files are read back at the target when all is
//! durable.
//!
//! ```text
//! DIR/proof/00000000.json     result of reading a page back; kept for a restart
//! ```
//! In `DIR/proof.EPOCH` where a site has several peers: see `journal::names`.
//!
//! Data that differs from the data written becomes *missing* in the ledger, and the run begins
//! again, as after a restart: only the missing pieces are fetched. After [`ROUNDS_MAX`] such rounds
//! the run fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_api::heads::{HeadCommit, PageHead};
use penstock_api::problem::Problem;
use penstock_api::proof::{PageProof, Proof, ProofRequest};
use penstock_api::task::TaskPage;
use penstock_engine::slice::{Piece, slice_without};
use penstock_engine::transfer::compared_of;
use penstock_proto::checksum::{ChecksumKind, format_line};
use penstock_proto::compared::EntrySet;
use penstock_proto::journal::{EntryDigest, EntryFailure, FailurePhase, JournalRecord};
use serde::{Deserialize, Serialize};

use super::checksum_list::each_line;
use crate::runner::context::RunContext;
use crate::runner::journal::page_log::digests_of;
use crate::runner::journal::{RunFiles, failed, names, write_lines};
use crate::runner::shared::RunShared;
use crate::runner::state::RunState;

/// Number of rounds that fetch damaged data again before it counts as failed.
pub(crate) const ROUNDS_MAX: u32 = 3;

/// The result of proving.
pub(crate) enum Proved {
    /// All pages were read back; permanent damage is recorded as failed.
    All(ProofTotals),
    /// Some data is missing again: the run must begin again.
    Again,
    /// A user wishes to stop.
    Stopped,
}

/// The recorded result for one page.
#[derive(Serialize, Deserialize)]
struct KeptProof {
    /// The page, and how long its log was: with another log it is read again.
    page_digest: String,
    log_bytes: u64,
    options: Proof,
    proof: PageProof,
}

/// Totals of proving, for the receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProofTotals {
    pub(crate) bytes: u64,
    pub(crate) bytes_direct: u64,
}

/// Reads all files back, as far as the options ask for it. Blocks for as long as a peer reads.
///
/// # Errors
/// No peer can read; the ledger cannot be read or committed.
pub(crate) fn read_back(context: &RunContext, state: &mut RunState) -> Result<Proved, Problem> {
    if !context.options.proof.reads_again() {
        return Ok(Proved::All(ProofTotals::default()));
    }
    Readback { context, state }.prove()
}

/// The reading of all pages.
struct Readback<'a> {
    context: &'a RunContext,
    state: &'a mut RunState,
}

impl Readback<'_> {
    fn prove(&mut self) -> Result<Proved, Problem> {
        let mut totals = ProofTotals::default();
        let mut again = false;
        let directories = kept_directories(&self.context.shared)?;
        for head in self.context.heads.load(self.context.id)?.pages {
            let kept = kept_proof(&directories, &head, &self.context.options.proof);
            let proof = match kept {
                Some(proof) => proof,
                None => match self.prove_page(&head)? {
                    Some((proof, whole)) => {
                        again |= !whole;
                        proof
                    }
                    None => return Ok(Proved::Stopped),
                },
            };
            totals.bytes += proof.bytes;
            totals.bytes_direct += proof.bytes_direct;
        }
        Ok(if again { Proved::Again } else { Proved::All(totals) })
    }

    /// Reads one page's files back. Returns the result, and whether no piece is missing again.
    /// `None` if it was stopped.
    fn prove_page(&mut self, head: &PageHead) -> Result<Option<(PageProof, bool)>, Problem> {
        let page = self.context.shared.read_page(head.page)?;
        let log = self.context.shared.journal().read_log(head.page, head.log_bytes)?.0;
        let digests: Vec<EntryDigest> = digests_of(&page, &log);
        let proof = self.ask_peer(&page, &digests)?;
        if proof.stopped {
            return Ok(None);
        }
        let mut records = Vec::new();
        let mut head = head.clone();
        let last = self.context.round >= ROUNDS_MAX;
        // Entries that an earlier attempt has moved are in no piece of this page, and are not
        // fetched again.
        let carried = compared_of(&log).map(|compared| compared.carried.clone());
        let carried: EntrySet = carried.unwrap_or_default().iter().map(|it| it.entry).collect();
        let (lost, damaged): (Vec<u32>, Vec<u32>) =
            proof.damaged.iter().partition(|entry| last || carried.contains(**entry));
        for failure in &proof.failures {
            records.push(JournalRecord::Failed(*failure));
        }
        let phase = FailurePhase::ReadBack;
        let failure = |entry: &u32| EntryFailure { entry: *entry, phase, errno: 0 };
        records.extend(lost.iter().map(failure).map(JournalRecord::Failed));
        head.failures += records.len() as u64;
        let whole = damaged.is_empty();
        if !whole {
            tracing::error!(
                transfer = %self.context.id, page = head.page, files = damaged.len(),
                "read again, files are not what was written: they are fetched again"
            );
            records.extend(missing(&page, &log, &damaged));
            head.complete = false;
            self.state.progress.add_repairs(damaged.len() as u64);
        }
        if !records.is_empty() {
            self.commit_records(&mut head, &records)?;
        }
        if whole {
            self.keep_proof(&head, &proof)?;
        }
        Ok(Some((proof, whole)))
    }

    /// Lets the peer read, and meanwhile shows how far it is and looks for wishes.
    fn ask_peer(&mut self, page: &TaskPage, digests: &[EntryDigest]) -> Result<PageProof, Problem> {
        let options = self.context.options.proof.clone();
        let (peer, spec) = (Arc::clone(&self.context.peer), self.context.spec.clone());
        let progress = Arc::clone(&self.state.progress.read_back);
        std::thread::scope(|scope| {
            let asked = std::thread::Builder::new().name("prove".to_owned());
            let asked = asked.spawn_scoped(scope, move || {
                let request = ProofRequest {
                    page,
                    digests,
                    readback: options.readback,
                    also: &options.also_digests,
                    progress: &progress,
                };
                peer.prove(&spec, &request)
            });
            let asked = asked.map_err(Problem::no_thread)?;
            while !asked.is_finished() {
                if self.context.control.is_asked_to_stop() {
                    self.state.progress.read_back.stop.store(true, Ordering::Release);
                }
                self.state.show_if_due(self.context);
                std::thread::park_timeout(PARK);
            }
            asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Adds records to a page's log, and commits its head.
    fn commit_records(
        &self,
        head: &mut PageHead,
        records: &[JournalRecord],
    ) -> Result<(), Problem> {
        let mut append = Vec::new();
        records.iter().for_each(|record| record.append_to(&mut append));
        head.log_bytes += append.len() as u64;
        {
            let mut journal = self.context.shared.journal();
            journal.append(head.page, &append, head.log_bytes)?;
            head.log = journal.log_epoch(head.page);
            journal.sync([head.page])?;
        }
        let pages = vec![head.clone()];
        self.context
            .heads
            .commit(self.context.id, &HeadCommit { pages, durable: true, ..HeadCommit::default() })
    }

    fn keep_proof(&self, head: &PageHead, proof: &PageProof) -> Result<(), Problem> {
        let kept = KeptProof {
            page_digest: head.digest.to_hex(),
            log_bytes: head.log_bytes,
            options: self.context.options.proof.clone(),
            proof: proof.clone(),
        };
        let directory = self.context.shared.journal().own(PROOF);
        let path = directory.join(file_of(head.page));
        std::fs::create_dir_all(&directory).map_err(|cause| failed("make", &directory, &cause))?;
        write_lines(&path, |out| {
            let text = serde_json::to_string(&kept).unwrap_or_default();
            out.write_all(text.as_bytes()).map_err(|cause| failed("write", &path, &cause))
        })
    }
}

/// Interval at which the figures are polled while the peer reads.
const PARK: std::time::Duration = std::time::Duration::from_millis(5);

const PROOF: &str = "proof";

fn file_of(page: u32) -> String {
    format!("{page:08}.json")
}

/// Returns the directories of recorded results, the last controller's first.
fn kept_directories(shared: &RunShared) -> Result<Vec<PathBuf>, Problem> {
    let path = shared.journal().directory().join(PROOF);
    names::all(&path).map_err(|cause| failed("read", &path, &cause))
}

fn kept_proof(directories: &[PathBuf], head: &PageHead, options: &Proof) -> Option<PageProof> {
    directories.iter().find_map(|directory| {
        let text = std::fs::read(directory.join(file_of(head.page))).ok()?;
        let kept: KeptProof = serde_json::from_slice(&text).ok()?;
        let same = kept.page_digest == head.digest.to_hex()
            && kept.log_bytes == head.log_bytes
            && kept.options == *options;
        same.then_some(kept.proof)
    })
}

/// Records that make damaged files missing: packs of which they are part, or a new attempt at a
/// large file, whose temporary name is another one (B1).
fn missing(page: &TaskPage, log: &[JournalRecord], damaged: &[u32]) -> Vec<JournalRecord> {
    let mut generations: BTreeMap<u32, u32> = BTreeMap::new();
    for record in log {
        if let JournalRecord::Generation { entry, generation } = record {
            generations.insert(*entry, *generation);
        }
    }
    let mut records = Vec::new();
    let mut packs = Vec::new();
    for (index, piece) in (0..).zip(slice_without(&page.page, &page.left)) {
        match piece {
            Piece::Finish { entry } if damaged.contains(&entry) => {
                let generation = generations.get(&entry).map_or(1, |last| last + 1);
                records.push(JournalRecord::Generation { entry, generation });
            }
            Piece::Pack { first, end, .. }
                if damaged.iter().any(|entry| {
                    (first..end).contains(entry)
                        && !page.page.slicing.is_split(page.page.entries()[*entry as usize].size)
                }) =>
            {
                packs.push(index);
            }
            _ => {}
        }
    }
    if !packs.is_empty() {
        records.push(JournalRecord::Missing { pieces: packs });
    }
    records
}

/// Writes the list of one kind of checksum, page by page from the recorded results.
pub(crate) fn write_checksums(
    shared: &RunShared,
    pages: &[PageHead],
    root: &penstock_api::transfer::PathText,
    options: &Proof,
    kind: ChecksumKind,
) -> Result<(), Problem> {
    let Some(at) = options.also_digests.iter().position(|also| *also == kind) else {
        return Ok(());
    };
    let path = {
        let journal = shared.journal();
        RunFiles::own(journal.directory(), journal.epoch()).checksums(kind)?
    };
    let directories = kept_directories(shared)?;
    write_lines(&path, |out| {
        let values = |head: &PageHead, _: &TaskPage, _: &[JournalRecord]| {
            let proof = kept_proof(&directories, head, options).unwrap_or_default();
            let text = |(entry, texts): (u32, Vec<String>)| Some((entry, texts.get(at)?.clone()));
            proof.checksums.into_iter().filter_map(text).collect()
        };
        each_line(shared, pages, root, values, |_, name, text| {
            out.write_all(&format_line(text, name)).map_err(|cause| failed("write", &path, &cause))
        })
    })
}
