//! Transfers that other sites own: forwarded to them, or read from this site by them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::{TransferRequest, TransferState, TransferView};
use penstock_cluster::state::Stub;
use penstock_proto::id::{Name, TransferId};

use super::users::not_paired;
use super::{Inner, Manager};

/// How long a list of transfers waits for the sites that own some of them.
const OWNERS_MAX: Duration = Duration::from_millis(100);

/// An owner that is being asked, until its thread ends.
struct Asking<'a> {
    inner: &'a Inner,
    owner: Name,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.inner.asking().remove(&self.owner);
    }
}

impl Manager {
    /// Records that another site opened a scan here for a transfer of its own, so that this site
    /// shows it as well. Asks that site for the state of the transfer.
    pub fn note_foreign(&self, owner: &Name, id: TransferId) {
        match self.inner.parts.state.stub(id) {
            Ok(None) => match self.inner.parts.sites.show(owner, id) {
                Ok(view) => {
                    if let Err(problem) = self.inner.remember(owner, id, &view) {
                        tracing::warn!(transfer = %id, %problem, "not remembered");
                    }
                }
                Err(problem) => tracing::info!(transfer = %id, %problem, "owner does not show it"),
            },
            Ok(Some(_)) => {}
            Err(error) => tracing::warn!(transfer = %id, %error, "stub not read"),
        }
    }

    /// A transfer of another site when its state is another one than `seen`, after `wait_ms` at the
    /// latest; `None` if this site owns it or does not know it. A silent owner may be noticed at
    /// once.
    ///
    /// # Errors
    /// The state database cannot be read.
    pub fn foreign_news(
        &self,
        id: TransferId,
        seen: TransferState,
        wait_ms: u32,
    ) -> Result<Option<TransferView>, Problem> {
        let stub = self.inner.parts.state.stub(id)?;
        let wait = Some((seen, wait_ms));
        Ok(stub.map(|stub| self.inner.refresh_when(stub, &mut Vec::new(), wait)))
    }

    /// The site whose transfer this is, and that alone may use its scan, as far as the state
    /// database knows: the own one, or the owner of a stub. `None` if it knows no such transfer.
    ///
    /// # Errors
    /// The state database cannot be read.
    pub fn owner(&self, id: TransferId) -> Result<Option<Name>, Problem> {
        let state = &self.inner.parts.state;
        if state.transfer(id)?.is_some() {
            return Ok(Some(self.inner.config.site.clone()));
        }
        Ok(state.stub(id)?.map(|stub| stub.owner))
    }

    /// Drops the pages of a transfer whose owner needs them no longer, and asks for its final
    /// state. The caller must have checked that the site opened the scan.
    pub fn forget_foreign(&self, owner: &Name, id: TransferId) {
        self.inner.parts.source.release(id);
        let stub = self.inner.parts.state.stub(id).ok().flatten();
        if let Some(stub) = stub.filter(|stub| stub.owner == *owner) {
            self.inner.refresh(stub, &mut Vec::new());
        }
    }
}

impl Inner {
    pub(super) fn forward(
        &self,
        request: &TransferRequest,
    ) -> Result<(TransferView, bool), Problem> {
        let owner = &request.target.site;
        if !self.parts.sites.is_paired(owner) {
            return Err(not_paired(owner));
        }
        let new = self.parts.state.stub(request.id)?.is_none();
        let view = self.parts.sites.submit(owner, request)?;
        self.remember(owner, request.id, &view)?;
        Ok((view, new))
    }

    /// Stores the state of another site's transfer. A failure is logged, since the state can be
    /// asked for again.
    ///
    /// # Errors
    /// The owner showed another transfer than the one it was asked for, or not its own: nothing is
    /// stored.
    pub(super) fn remember(
        &self,
        owner: &Name,
        id: TransferId,
        view: &TransferView,
    ) -> Result<(), Problem> {
        if view.id != id || view.target.site != *owner {
            let title = format!("site `{owner}` showed another transfer than {id}");
            return Err(Problem::new(ProblemCode::SiteReply, title));
        }
        let stub = Stub { owner: owner.clone(), view: view.clone() };
        if let Err(error) = self.parts.state.put_stub(&stub) {
            tracing::warn!(transfer = %id, %error, "stub not stored");
        }
        Ok(())
    }

    /// Stubs as their owners show them now, as far as those answer within [`OWNERS_MAX`]. A thread
    /// asks each owner, goes on after that time, and stores what the owner says; until it ends, the
    /// owner is not asked again.
    pub(super) fn refresh_all(
        self: &Arc<Self>,
        stubs: Vec<Stub>,
    ) -> HashMap<TransferId, TransferView> {
        let until = Instant::now() + OWNERS_MAX;
        let mut shown = HashMap::new();
        let mut by_owner: BTreeMap<Name, Vec<Stub>> = BTreeMap::new();
        for mut stub in stubs {
            let (id, state) = (stub.view.id, stub.view.state);
            if state.is_ended() && state != TransferState::Failed {
                shown.insert(id, stub.view);
                continue;
            }
            by_owner.entry(stub.owner.clone()).or_default().push(stub.clone());
            stub.view.reason = format!("shown as last seen: site `{}` is slow", stub.owner);
            shown.insert(id, stub.view);
        }
        let (heard, hears) = mpsc::channel();
        for (owner, stubs) in by_owner {
            if !self.asking().insert(owner.clone()) {
                continue;
            }
            let (inner, heard) = (Arc::clone(self), heard.clone());
            let asking = std::thread::Builder::new().name("owner".to_owned()).spawn(move || {
                let _asking = Asking { inner: &inner, owner };
                let mut silent = Vec::new();
                for stub in stubs {
                    // Nobody may listen any more: what was heard is stored.
                    let _ = heard.send(inner.refresh(stub, &mut silent));
                }
            });
            if let Err(error) = asking {
                tracing::warn!(%error, "an owner of transfers is not asked");
            }
        }
        drop(heard);
        while let Ok(view) = hears.recv_timeout(until.saturating_duration_since(Instant::now())) {
            shown.insert(view.id, view);
        }
        shown
    }

    fn asking(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a stub as its owner shows it now, or as it was last seen, with the reason. Owners
    /// that do not answer are added to `silent`, and the same caller does not ask them again.
    pub(super) fn refresh(&self, stub: Stub, silent: &mut Vec<Name>) -> TransferView {
        self.refresh_when(stub, silent, None)
    }

    /// Returns a stub as [`Self::refresh`] does. With a state and milliseconds in `wait`, the owner
    /// answers when the state differs, or after that time.
    fn refresh_when(
        &self,
        stub: Stub,
        silent: &mut Vec<Name>,
        wait: Option<(TransferState, u32)>,
    ) -> TransferView {
        let Stub { owner, mut view } = stub;
        if view.state.is_ended() && view.state != TransferState::Failed {
            return view;
        }
        if silent.contains(&owner) {
            view.reason = format!("site `{owner}` cannot be reached; shown as last seen");
            return view;
        }
        let asked = match wait {
            None => self.parts.sites.show(&owner, view.id),
            Some((seen, wait_ms)) => self.parts.sites.news(&owner, view.id, seen, wait_ms),
        };
        let id = view.id;
        let fits = asked.and_then(|now| {
            if now != view {
                self.remember(&owner, id, &now)?;
            }
            Ok(now)
        });
        match fits {
            Ok(now) => {
                if matches!(now.state, TransferState::Done | TransferState::Cancelled) {
                    self.parts.source.release(id);
                }
                now
            }
            Err(problem) if problem.status == 404 => {
                view.reason = format!("site `{owner}` no longer knows it");
                view
            }
            Err(problem) => {
                view.reason = format!("shown as last seen: {problem}");
                silent.push(owner);
                view
            }
        }
    }
}
