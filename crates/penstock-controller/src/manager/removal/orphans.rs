//! Remains of transfers that will not be continued.

use std::collections::BTreeSet;
use std::sync::Arc;

use penstock_api::problem::{Exit, Problem};
use penstock_api::rest::{Orphan, OrphanKind};
use penstock_api::scan::SourcePeer;
use penstock_cluster::state::SiteState;
use penstock_proto::id::TransferId;

use super::cancelled::CancelledTransfers;
use super::cleaner::Cleaner;
use crate::manager::config::ManagerParts;
use crate::manager::journal_directory::JournalDirectory;
use crate::manager::queue::{Admission, TransferTable};
use crate::sites::SiteClient;

/// Finds and removes remains.
pub(crate) struct Orphans {
    cleaner: Arc<Cleaner>,
    pub(crate) cancelled: Arc<CancelledTransfers>,
    admission: Arc<Admission>,
    table: Arc<TransferTable>,
    state: Arc<dyn SiteState>,
    source: Arc<dyn SourcePeer>,
    sites: Arc<dyn SiteClient>,
    journal: JournalDirectory,
}

impl Orphans {
    pub(crate) fn new(
        (parts, journal): (&ManagerParts, JournalDirectory),
        (cleaner, cancelled): (Arc<Cleaner>, Arc<CancelledTransfers>),
        (admission, table): (Arc<Admission>, Arc<TransferTable>),
    ) -> Self {
        let (state, source) = (Arc::clone(&parts.state), Arc::clone(&parts.source));
        let sites = Arc::clone(&parts.sites);
        Self { cleaner, cancelled, admission, table, state, source, sites, journal }
    }

    /// Lists the remains, and with `remove` removes them: see
    /// [`Manager::orphans`](crate::manager::Manager::orphans).
    ///
    /// # Errors
    /// The journal store or the database cannot be read.
    pub(crate) fn list(&self, remove: bool) -> Result<Vec<Orphan>, Problem> {
        let mut orphans = Vec::new();
        for id in self.cleaner.left_over()? {
            orphans.extend(self.orphan(id, remove)?);
        }
        orphans.extend(self.stubs(remove)?);
        Ok(orphans)
    }

    /// Stubs that their owner does not know. An owner that does not answer is asked once.
    fn stubs(&self, remove: bool) -> Result<Vec<Orphan>, Problem> {
        let (mut orphans, mut silent) = (Vec::new(), BTreeSet::new());
        for stub in self.state.open_stubs()? {
            let id = stub.view.id;
            if silent.contains(&stub.owner) {
                continue;
            }
            match self.sites.show(&stub.owner, id) {
                Err(problem) if problem.status == 404 => {}
                Err(problem) if problem.exit == Exit::Temporary => {
                    tracing::info!(site = %stub.owner, %problem, "its stubs cannot be examined");
                    silent.insert(stub.owner);
                    continue;
                }
                _ => continue,
            }
            if remove {
                self.source.release(id);
                self.state.remove_stub(id)?;
            }
            let place = format!("stub of a transfer of site `{}`", stub.owner);
            let kind = OrphanKind::Stub;
            orphans.push(Orphan { id, kind, place, root: None, removed: remove });
        }
        Ok(orphans)
    }

    /// Returns the remains of a transfer. `None` if it has not ended, or if another caller is
    /// removing them.
    fn orphan(&self, id: TransferId, remove: bool) -> Result<Option<Orphan>, Problem> {
        // An id without a transfer now gets none until the remains are removed.
        let admission = self.admission.lock();
        if self.table.lock().is_live(id) || self.table.check_idle(id).is_err() {
            return Ok(None);
        }
        let _busy = remove.then(|| self.table.occupy(id, None)).transpose()?;
        let record = self.state.transfer(id)?;
        drop(admission);
        let mut place = self.journal.of(id).display().to_string();
        let root = record.as_ref().and_then(|record| record.root.clone());
        let kind = if record.is_some() { OrphanKind::Ledger } else { OrphanKind::Journal };
        let mut removed = remove;
        match record {
            Some(record) if remove => match self.cleaner.discard(&record) {
                Ok(()) => self.cancelled.note_clean(record),
                Err(problem) => {
                    removed = false;
                    place.push_str(&format!("  kept: {problem}"));
                }
            },
            None if remove => self.cleaner.discard_ledger(id),
            _ => {}
        }
        Ok(Some(Orphan { id, kind, place, root, removed }))
    }
}
