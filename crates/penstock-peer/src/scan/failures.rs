//! The list of items that could not be listed, in parts on disk: memory does not grow with it.

use std::fs;
use std::path::PathBuf;

use penstock_api::scan::{FAILURE_PART_BYTES, PageReply, ScanFailure};
use penstock_api::transfer::PathText;
use penstock_proto::name;
use penstock_store::StoreError;

use super::state::{FailedPart, Scan, State};
use crate::source::error::SourceError;
use crate::stores::chain;

impl Scan {
    fn failures_path(&self, part: u32) -> PathBuf {
        self.directory.join(format!("failed-{part:08}"))
    }

    /// Notes an item that could not be listed (it has an entry), or not even looked at (it has
    /// none: `unseen`). A scan that is resumed lists the item again, and begins the list again.
    pub(super) fn fail(
        &self,
        state: &mut State,
        path: &[u8],
        error: &StoreError,
        unseen: bool,
    ) -> Result<(), SourceError> {
        tracing::warn!(path = %name::escape(path), error = %chain(error), "scan error");
        state.summary.errors_unseen += u64::from(unseen);
        let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
        let path = PathText(path.to_vec());
        self.note_failure(state, ScanFailure { path, errno, unfinished: false })
    }

    /// Notes a file that a copy has not finished: it is no item, and has no entry.
    pub(super) fn fail_unfinished(
        &self,
        state: &mut State,
        path: &[u8],
    ) -> Result<(), SourceError> {
        state.summary.errors_unseen += 1;
        state.summary.unfinished += 1;
        let path = PathText(path.to_vec());
        self.note_failure(state, ScanFailure { path, errno: 0, unfinished: true })
    }

    fn note_failure(&self, state: &mut State, failure: ScanFailure) -> Result<(), SourceError> {
        state.summary.errors += 1;
        let part = &mut state.failed;
        part.bytes += failure.path.0.len() + size_of::<ScanFailure>();
        part.items.push(failure);
        if part.bytes < FAILURE_PART_BYTES { Ok(()) } else { self.keep_failed(state) }
    }

    /// Writes the part of the list of failures that is in memory.
    pub(super) fn keep_failed(&self, state: &mut State) -> Result<(), SourceError> {
        let FailedPart { items, .. } = std::mem::take(&mut state.failed);
        if items.is_empty() {
            return Ok(());
        }
        let path = self.failures_path(state.summary.error_parts);
        let text = serde_json::to_vec(&items).unwrap_or_default();
        self.write_fenced(&path, &text).map_err(|cause| SourceError::manifest(&path, cause))?;
        state.summary.error_parts += 1;
        Ok(())
    }

    /// Returns a part of the list of failures.
    pub(super) fn failures(&self, part: u32) -> Result<PageReply, SourceError> {
        {
            let state = self.lock();
            if !state.complete {
                return Ok(PageReply::NotYet);
            }
            if part >= state.summary.error_parts {
                return Ok(PageReply::End(state.summary.clone()));
            }
        }
        let path = self.failures_path(part);
        fs::read(&path).map(PageReply::Page).map_err(|cause| SourceError::manifest(&path, cause))
    }
}
