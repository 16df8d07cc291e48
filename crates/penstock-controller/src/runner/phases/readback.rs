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
use crate::runner::Run;
use crate::runner::control::WISH_CANCEL;
use crate::runner::input::{RunOutcome, VIEW_INTERVAL};
use crate::runner::journal::page_log::digests_of;
use crate::runner::journal::{RunFiles, failed, names, write_lines};
use crate::runner::shared::RunShared;
use crate::runner::tasks::hung::no_thread;

/// Number of rounds that fetch damaged data again before it counts as failed.
pub(crate) const ROUNDS_MAX: u32 = 3;

/// The result of proving.
pub(crate) enum Proved {
    /// All pages were read back; permanent damage is recorded as failed.
    All,
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

impl Run {
    /// Reads everything back, as far as the options ask for it.
    pub(crate) fn prove(&mut self) -> Result<Proved, Problem> {
        if !self.options.proof.reads_again() {
            return Ok(Proved::All);
        }
        let mut again = false;
        for head in self.heads.load(self.id)?.pages {
            let kept = kept_proof(&self.shared, &head, &self.options.proof);
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
            self.proved.bytes += proof.bytes;
            self.proved.bytes_direct += proof.bytes_direct;
        }
        Ok(if again { Proved::Again } else { Proved::All })
    }

    /// Reads one page's files back. Returns the result, and whether no piece is missing again.
    /// `None` if it was stopped.
    fn prove_page(&mut self, head: &PageHead) -> Result<Option<(PageProof, bool)>, Problem> {
        let page = self.shared.read_page(head.page)?;
        let log = self.shared.journal().read_log(head.page, head.log_bytes)?.0;
        let digests: Vec<EntryDigest> = digests_of(&page, &log);
        let proof = self.ask_peer(&page, &digests)?;
        if proof.stopped {
            return Ok(None);
        }
        let mut records = Vec::new();
        let mut head = head.clone();
        let last = self.round >= ROUNDS_MAX;
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
                transfer = %self.id, page = head.page, files = damaged.len(),
                "read again, files are not what was written: they are fetched again"
            );
            records.extend(missing(&page, &log, &damaged));
            head.complete = false;
            self.carried.repairs += damaged.len() as u64;
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
        let options = self.options.proof.clone();
        let (peer, spec) = (std::sync::Arc::clone(&self.peer), self.spec.clone());
        let progress = std::sync::Arc::clone(&self.proving);
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
            let asked = asked.map_err(no_thread)?;
            while !asked.is_finished() {
                if self.control.wish.load(Ordering::Acquire) != 0 {
                    self.proving.stop.store(true, Ordering::Release);
                }
                if self.viewed_at.elapsed() >= VIEW_INTERVAL {
                    self.show();
                }
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
            let mut journal = self.shared.journal();
            journal.append(head.page, &append, head.log_bytes)?;
            head.log = journal.log_epoch(head.page);
            journal.sync([head.page])?;
        }
        let pages = vec![head.clone()];
        self.heads.commit(self.id, &HeadCommit { pages, durable: true, ..HeadCommit::default() })
    }

    fn keep_proof(&self, head: &PageHead, proof: &PageProof) -> Result<(), Problem> {
        let kept = KeptProof {
            page_digest: head.digest.to_hex(),
            log_bytes: head.log_bytes,
            options: self.options.proof.clone(),
            proof: proof.clone(),
        };
        let directory = self.shared.journal().own(PROOF);
        let path = directory.join(file_of(head.page));
        std::fs::create_dir_all(&directory).map_err(|cause| failed("make", &directory, &cause))?;
        write_lines(&path, |out| {
            let text = serde_json::to_string(&kept).unwrap_or_default();
            out.write_all(text.as_bytes()).map_err(|cause| failed("write", &path, &cause))
        })
    }

    /// Ends a run that a user has stopped after the last sync: cancels or pauses it.
    pub(crate) fn stop_proving(&mut self) -> Result<RunOutcome, Problem> {
        if self.control.wish.load(Ordering::Acquire) == WISH_CANCEL {
            return self.cancel();
        }
        self.pause()
    }
}

/// Interval at which the figures are polled while the peer reads.
const PARK: std::time::Duration = std::time::Duration::from_millis(5);

const PROOF: &str = "proof";

fn file_of(page: u32) -> String {
    format!("{page:08}.json")
}

fn kept_proof(shared: &RunShared, head: &PageHead, options: &Proof) -> Option<PageProof> {
    let directories = names::all(&shared.journal().directory().join(PROOF));
    directories.into_iter().find_map(|directory| {
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
        RunFiles::own(journal.directory(), journal.epoch()).checksums(kind)
    };
    write_lines(&path, |out| {
        let values = |head: &PageHead, _: &TaskPage, _: &[JournalRecord]| {
            let proof = kept_proof(shared, head, options).unwrap_or_default();
            let text = |(entry, texts): (u32, Vec<String>)| Some((entry, texts.get(at)?.clone()));
            proof.checksums.into_iter().filter_map(text).collect()
        };
        each_line(shared, pages, root, values, |_, name, text| {
            out.write_all(&format_line(text, name)).map_err(|cause| failed("write", &path, &cause))
        })
    })
}
