//! Remains of transfers that will not be continued.

use std::collections::BTreeSet;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::rest::{Orphan, OrphanKind, OrphanList};
use penstock_proto::id::TransferId;

use super::{Inner, Manager, journal_of};

impl Manager {
    /// Lists the remains, and with `remove` removes them. These are journals without a transfer in
    /// the database, ledgers of transfers that have ended, and stubs that their owner does not
    /// know. A failed transfer whose ledger is removed begins from the start when it is retried. A
    /// ledger whose target cannot be cleaned now is kept, and its place gives the reason.
    ///
    /// # Errors
    /// The journal store or the database cannot be read.
    pub fn orphans(&self, remove: bool) -> Result<OrphanList, Problem> {
        let inner = &self.inner;
        let mut orphans = Vec::new();
        for id in inner.left_over()? {
            orphans.extend(inner.orphan(id, remove)?);
        }
        orphans.extend(inner.orphan_stubs(remove)?);
        Ok(OrphanList { orphans })
    }
}

impl Inner {
    /// Stubs that their owner does not know. An owner that does not answer is asked once.
    fn orphan_stubs(&self, remove: bool) -> Result<Vec<Orphan>, Problem> {
        let (mut orphans, mut silent) = (Vec::new(), BTreeSet::new());
        for stub in self.parts.state.open_stubs()? {
            let id = stub.view.id;
            if silent.contains(&stub.owner) {
                continue;
            }
            match self.parts.sites.show(&stub.owner, id) {
                Err(problem) if problem.status == 404 => {}
                Err(problem) if problem.exit == Exit::Temporary => {
                    tracing::info!(site = %stub.owner, %problem, "its stubs cannot be examined");
                    silent.insert(stub.owner);
                    continue;
                }
                _ => continue,
            }
            if remove {
                self.parts.source.release(id);
                self.parts.state.remove_stub(id)?;
            }
            let place = format!("stub of a transfer of site `{}`", stub.owner);
            let kind = OrphanKind::Stub;
            orphans.push(Orphan { id, kind, place, root: None, removed: remove });
        }
        Ok(orphans)
    }

    /// Returns all transfers with a ledger in the journal store or the database.
    pub(super) fn left_over(&self) -> Result<BTreeSet<TransferId>, Problem> {
        let mut ids: BTreeSet<_> = self.parts.state.ledgers()?.into_iter().collect();
        let journal = &self.config.journal;
        let unreadable = |error: std::io::Error| {
            let title = format!("the journal store `{}` cannot be listed", journal.display());
            penstock_api::io_problem::failed(ProblemCode::Journal, title, &error)
        };
        match std::fs::read_dir(journal) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry.map_err(unreadable)?.file_name();
                    ids.extend(name.to_str().and_then(|name| name.parse::<TransferId>().ok()));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(error)),
        }
        Ok(ids)
    }

    /// Returns the remains of a transfer. `None` if it has not ended, or if another caller is
    /// removing them.
    fn orphan(&self, id: TransferId, remove: bool) -> Result<Option<Orphan>, Problem> {
        // An id without a transfer now gets none until the remains are removed.
        let admission = self.admission.lock();
        if self.lock().is_live(id) || self.check_idle(id).is_err() {
            return Ok(None);
        }
        let _busy = remove.then(|| self.occupy(id, None)).transpose()?;
        let record = self.parts.state.transfer(id)?;
        drop(admission);
        let mut place = journal_of(&self.config.journal, id).display().to_string();
        let root = record.as_ref().and_then(|record| record.root.clone());
        let kind = if record.is_some() { OrphanKind::Ledger } else { OrphanKind::Journal };
        let mut removed = remove;
        match record {
            Some(record) if remove => match self.discard(&record) {
                Ok(()) => self.note_clean(record),
                Err(problem) => {
                    removed = false;
                    place.push_str(&format!("  kept: {problem}"));
                }
            },
            None if remove => self.discard_ledger(id),
            _ => {}
        }
        Ok(Some(Orphan { id, kind, place, root, removed }))
    }
}
