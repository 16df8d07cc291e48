//! Heads of ledgers in etcd and the journal store (E6).
//!
//! A complete page is never checked again. Its head is therefore appended once to a file,
//! `JOURNAL/ID/heads.EPOCH`, which only the controller of that epoch writes. The key `heads/ID`
//! records which of these files count, and up to which length. The key also holds the heads of open
//! pages. The value has a few kilobytes, whatever the number of files.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use penstock_api::heads::{COMMIT_INTERVAL, HeadCommit, HeadStore, LedgerHead, PageHead};
use penstock_api::problem::Problem;
use penstock_api::scan::ScanSummary;
use penstock_api::task::MountSeen;
use penstock_proto::digest::Digest;
use penstock_proto::id::{TransferId, WriterId};
use serde::{Deserialize, Serialize};

use super::{EtcdState, damaged};
use crate::etcd::{EtcdError, Operation};
use crate::state::StateError;

/// Longest wait between two commits, however much there is to write.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The known heads of the transfers that were worked on.
#[derive(Default)]
pub(super) struct Ledgers(Mutex<HashMap<TransferId, Ledger>>);

/// The value of `heads/ID`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ledger {
    scan: Option<ScanSummary>,
    epochs: BTreeMap<WriterId, u64>,
    store: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<MountSeen>,
    /// Epochs of the files of complete heads, and how many bytes of each count.
    complete: Vec<(u64, u64)>,
    /// Heads of pages that are not complete, by number.
    open: BTreeMap<u32, Line>,
}

/// A head: page, digest, log, log bytes, files, bytes, failures, kept, kept bytes, asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line(u32, String, u64, u64, u64, u64, u64, u64, u64, bool);

impl From<&PageHead> for Line {
    fn from(head: &PageHead) -> Self {
        let digest = HEXLOWER.encode(&head.digest.0);
        let PageHead {
            page, log, log_bytes, files, bytes, failures, kept, kept_bytes, asks, ..
        } = *head;
        Self(page, digest, log, log_bytes, files, bytes, failures, kept, kept_bytes, asks)
    }
}

impl Line {
    fn head(self, complete: bool) -> Result<PageHead, StateError> {
        let Self(page, digest, log, log_bytes, files, bytes, failures, kept, kept_bytes, asks) =
            self;
        let digest =
            HEXLOWER.decode(digest.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        let digest = digest.ok_or_else(|| StateError::Damaged {
            what: "head",
            why: format!("the digest of page {page} is not valid"),
        })?;
        Ok(PageHead {
            page,
            digest: Digest(digest),
            log,
            log_bytes,
            complete,
            files,
            bytes,
            failures,
            kept,
            kept_bytes,
            asks,
        })
    }
}

impl EtcdState {
    fn heads_key(&self, transfer: TransferId) -> String {
        self.keys.at(&format!("heads/{transfer}"))
    }

    fn complete_path(&self, transfer: TransferId, epoch: u64) -> PathBuf {
        self.journal.join(transfer.to_string()).join(format!("heads.{epoch:016x}"))
    }

    fn ledger(&self, transfer: TransferId) -> Result<Ledger, StateError> {
        let known = self.ledgers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ledger) = known.get(&transfer) {
            return Ok(ledger.clone());
        }
        drop(known);
        let what = "read a ledger's heads";
        let key = self.heads_key(transfer);
        let ledger = loop {
            match self.etcd.transact(&[], &[Operation::Get(key.clone())], super::ATTEMPT) {
                Ok(answer) => match answer.read.first().and_then(|found| found.first()) {
                    Some(found) => break self.decode(&key, &found.value)?,
                    None => break Ledger::default(),
                },
                Err(EtcdError::Unavailable(_)) if self.tenure.holds() => {
                    std::thread::sleep(super::AGAIN);
                }
                Err(source) => return Err(StateError::Etcd { what, source }),
            }
        };
        Ok(self.keep(transfer, ledger))
    }

    fn keep(&self, transfer: TransferId, ledger: Ledger) -> Ledger {
        let mut known = self.ledgers.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(transfer, ledger.clone());
        ledger
    }

    /// Heads in the files of complete ones; a later line replaces an earlier one of its page.
    fn complete_heads(
        &self,
        transfer: TransferId,
        ledger: &Ledger,
    ) -> Result<BTreeMap<u32, PageHead>, StateError> {
        let mut heads = BTreeMap::new();
        for (epoch, bytes) in &ledger.complete {
            let path = self.complete_path(transfer, *epoch);
            let mut text = String::new();
            File::open(&path)
                .and_then(|file| file.take(*bytes).read_to_string(&mut text))
                .map_err(|source| StateError::File { what: "read", path: path.clone(), source })?;
            if (text.len() as u64) < *bytes {
                let why = format!("{} is shorter than was committed", path.display());
                return Err(StateError::Damaged { what: "ledger", why });
            }
            for line in text.lines() {
                let head = serde_json::from_str::<Line>(line).map_err(damaged)?.head(true)?;
                heads.insert(head.page, head);
            }
        }
        Ok(heads)
    }

    /// Appends heads of complete pages to this controller's file, synced.
    fn append_complete(
        &self,
        transfer: TransferId,
        ledger: &mut Ledger,
        heads: &[&PageHead],
    ) -> Result<(), StateError> {
        if heads.is_empty() {
            return Ok(());
        }
        let epoch = self.tenure.epoch();
        if ledger.complete.last().is_none_or(|(last, _)| *last != epoch) {
            ledger.complete.push((epoch, 0));
        }
        let mut text = String::new();
        for head in heads {
            text.push_str(&serde_json::to_string(&Line::from(*head)).map_err(damaged)?);
            text.push('\n');
        }
        let path = self.complete_path(transfer, epoch);
        let append = |at: u64| -> io::Result<()> {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            let new = at == 0;
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            // The remains of a commit that failed are cut off.
            file.set_len(at)?;
            file.write_all_at(text.as_bytes(), at)?;
            file.sync_all()?;
            match path.parent().filter(|_| new) {
                Some(directory) => File::open(directory)?.sync_all(),
                None => Ok(()),
            }
        };
        if let Some((_, bytes)) = ledger.complete.last_mut() {
            append(*bytes).map_err(|source| StateError::File {
                what: "write",
                path: path.clone(),
                source,
            })?;
            *bytes += text.len() as u64;
        }
        Ok(())
    }

    fn commit_heads(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), StateError> {
        let ledger = self.ledger(transfer)?;
        self.commit_to(transfer, ledger, commit)
    }

    fn commit_to(
        &self,
        transfer: TransferId,
        mut ledger: Ledger,
        commit: &HeadCommit,
    ) -> Result<(), StateError> {
        let (complete, open): (Vec<_>, Vec<_>) =
            commit.pages.iter().partition(|head| head.complete);
        self.append_complete(transfer, &mut ledger, &complete)?;
        for head in complete {
            ledger.open.remove(&head.page);
        }
        ledger.open.extend(open.into_iter().map(|head| (head.page, Line::from(head))));
        if commit.scan.is_some() {
            ledger.scan.clone_from(&commit.scan);
        }
        ledger.epochs.extend(commit.epochs.iter().copied());
        ledger.store = commit.store.unwrap_or(ledger.store);
        if let Some(mounts) = &commit.mounts {
            ledger.mounts.clone_from(mounts);
        }
        self.put("commit a ledger's heads", self.heads_key(transfer), &ledger)?;
        self.keep(transfer, ledger);
        Ok(())
    }

    fn load_heads(&self, transfer: TransferId) -> Result<LedgerHead, StateError> {
        let ledger = self.ledger(transfer)?;
        let mut pages = self.complete_heads(transfer, &ledger)?;
        for (page, line) in ledger.open {
            pages.insert(page, line.head(false)?);
        }
        let pages = pages.into_values().collect();
        let Ledger { scan, epochs, store, mounts, .. } = ledger;
        Ok(LedgerHead { pages, scan, epochs, store, mounts })
    }
}

impl HeadStore for EtcdState {
    fn load(&self, transfer: TransferId) -> Result<LedgerHead, Problem> {
        Ok(self.load_heads(transfer)?)
    }

    fn commit(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem> {
        Ok(self.commit_heads(transfer, commit)?)
    }

    fn pace(&self) -> (Duration, Duration) {
        let debt = self.budget.lock().unwrap_or_else(PoisonError::into_inner).debt();
        let debt = debt.min(INTERVAL_MAX);
        (debt, debt.max(COMMIT_INTERVAL))
    }

    fn replace(&self, transfer: TransferId, commit: &HeadCommit) -> Result<(), Problem> {
        Ok(self.commit_to(transfer, Ledger::default(), commit)?)
    }

    fn remove(&self, transfer: TransferId) -> Result<(), Problem> {
        self.delete("remove a ledger's heads", self.heads_key(transfer))?;
        self.ledgers.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&transfer);
        Ok(())
    }
}
