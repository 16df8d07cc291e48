//! Transfers of which something is being removed: no other caller may admit or change them
//! meanwhile.
//!
//! A removal may ask a store and another site, for as long as these take. That is too long for the
//! admission lock, for which every submit, pause and cancel waits.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::TransferId;

use super::{Inner, TransferRecord};

/// A transfer that is kept from others until this is dropped.
pub(super) struct Busy<'a> {
    inner: &'a Inner,
    id: TransferId,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.inner.lock().busy.remove(&self.id);
    }
}

impl Inner {
    /// Reserves a transfer that is not live, and with a record the place that its claim names as
    /// well (B8). The caller holds the admission lock.
    ///
    /// # Errors
    /// Code `transfer-busy`, temporary: another caller has reserved it.
    pub(super) fn occupy(
        &self,
        id: TransferId,
        place: Option<TransferRecord>,
    ) -> Result<Busy<'_>, Problem> {
        self.check_idle(id)?;
        self.lock().busy.insert(id, place);
        Ok(Busy { inner: self, id })
    }

    /// Checks that nothing of a transfer is being removed. The caller holds the admission lock.
    ///
    /// # Errors
    /// Code `transfer-busy`, temporary.
    pub(super) fn check_idle(&self, id: TransferId) -> Result<(), Problem> {
        if !self.lock().busy.contains_key(&id) {
            return Ok(());
        }
        let title = format!("files of transfer {} are being removed", id.short());
        Err(Problem::new(ProblemCode::TransferBusy, title).hint("repeat the command in a moment"))
    }
}
