//! Removes what a transfer that does not run any more left at its target and in the journal store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_api::task::{SourceAccess, TaskPage, TaskSpec};
use penstock_api::transfer::Encryption;
use penstock_proto::frame::Framing;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::units::FileTime;
use penstock_proto::wire::Reader;

use super::{Inner, TransferRecord, journal_of};

impl Inner {
    /// Removes all that is kept for a transfer that will not go on: the temporary files that it may
    /// have left, its ledger, and its pages here and at the source. What cannot be removed is
    /// logged, and found again by `orphans`.
    pub(super) fn discard(&self, record: &TransferRecord) {
        self.clean_target(record);
        self.discard_ledger(record.id());
        self.release(record);
    }

    /// Removes the heads of a ledger, and its journal.
    pub(super) fn discard_ledger(&self, id: TransferId) {
        if let Err(problem) = self.parts.state.remove(id) {
            tracing::warn!(transfer = %id, %problem, "heads not removed");
            if !self.parts.fence.holds() {
                return;
            }
        }
        let journal = journal_of(&self.config.journal, id);
        if let Err(error) = fs::remove_dir_all(&journal)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(transfer = %id, %error, "journal not removed");
        }
    }

    fn clean_target(&self, record: &TransferRecord) {
        let (Some(root), request) = (&record.root, &record.request) else { return };
        let journal = journal_of(&self.config.journal, record.id());
        let head = self.parts.state.load(record.id()).unwrap_or_default();
        let spec = TaskSpec {
            transfer: record.id(),
            store: request.target.store.clone(),
            root: root.clone(),
            store_id: head.store,
            mounts: Vec::new(),
            writer: WriterId::SOLE,
            epoch: 0,
            doubt: false,
            grant: None,
            // Nothing is read from it.
            source: SourceAccess::Local {
                store: request.source.store.clone(),
                root: request.source.path.clone(),
            },
            digest: request.options.digest,
            framing: match request.options.encryption {
                Encryption::Tls => Framing::Tls,
                Encryption::Off => Framing::Clear,
            },
            durability: request.options.durability,
            digest_list: request.options.digest_list,
            proves: false,
            preserve: request.options.preserve.clone(),
            lanes_max: request.options.lanes_max,
            lanes: request.options.lanes,
            limits: request.options.limits,
            update: request.options.update.clone(),
            select: request.options.select.clone(),
            remove_source: false,
            began: FileTime::default(),
            fence: self.parts.fence.clone(),
        };
        let generation_max = generation_max(&journal.join("logs"));
        let mut writers: Vec<WriterId> = head.epochs.into_keys().collect();
        if writers.is_empty() {
            writers.push(WriterId::SOLE);
        }
        for writer in writers {
            let spec = TaskSpec { writer, ..spec.clone() };
            let pages = files(&journal.join("pages"));
            let mut pages = pages.into_iter().filter_map(|path| page(&path));
            self.parts.target.clean(&spec, &mut pages, generation_max);
        }
    }

    /// Tells the source that its pages are needed no more.
    pub(super) fn release(&self, record: &TransferRecord) {
        let site = &record.request.source.site;
        if *site == self.config.site {
            self.parts.source.release(record.id());
        } else if let Err(problem) = self.parts.sites.release(site, record.id()) {
            // The source finds out from its stub that the transfer has ended.
            tracing::info!(transfer = %record.id(), %problem, "source not told of the end");
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(Result::ok).map(|entry| entry.path()).collect()
}

fn page(path: &Path) -> Option<TaskPage> {
    let encoded = fs::read(path).ok()?;
    let page = Arc::new(Page::decode(&encoded).ok()?);
    Some(TaskPage { page, digest: page_digest(&encoded), left: Arc::default() })
}

/// The last attempt at any file of which the logs know; see `runner::journal` for their layout.
fn generation_max(logs: &Path) -> u32 {
    let mut most = 0;
    for path in files(logs) {
        let Ok(log) = fs::read(path) else { continue };
        let mut input = Reader::new(&log);
        while let Ok(record) = JournalRecord::take_from(&mut input) {
            if let JournalRecord::Generation { generation, .. } = record {
                most = most.max(generation);
            }
        }
    }
    most
}
