//! Transfers that other sites own: forwarded to them, or read from this site by them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use penstock_api::access::AccountName;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{Steering, TransferPatch};
use penstock_api::scan::SourcePeer;
use penstock_api::transfer::{PathText, TransferReport, TransferRequest, TransferState};
use penstock_cluster::state::{SiteState, Stub, Submitted};
use penstock_proto::id::{Name, TransferId};

use super::caller::Caller;
use super::config::ManagerParts;
use super::events::TransferEvents;
use super::request_check::{changed_meanwhile, id_taken, not_paired};
use crate::sites::SiteClient;

/// The longest time that a list of transfers waits for the sites that own some of them.
const OWNERS_MAX: Duration = Duration::from_millis(100);

/// An owner that is being asked, until its thread ends.
struct Asking<'a> {
    stubs: &'a Stubs,
    owner: Name,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.stubs.asking().remove(&self.owner);
    }
}

/// The transfers that other sites own, as this site knows them.
pub(super) struct Stubs {
    state: Arc<dyn SiteState>,
    sites: Arc<dyn SiteClient>,
    source: Arc<dyn SourcePeer>,
    /// Receives the ends of these transfers.
    events: TransferEvents,
    /// Owners that are asked for a list now.
    asking: Mutex<BTreeSet<Name>>,
    /// Transfers that are being submitted to their owners, which may open the scan before they
    /// answer.
    submitting: Mutex<BTreeMap<TransferId, Submitted>>,
}

/// An account as which a transfer that another site owns uses a source of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceAccount {
    /// The account of the user of this site who submitted the transfer, if that user has one.
    Submitter(Option<AccountName>),
    /// This site has submitted no such transfer: the mapping of the other site decides.
    Mapped,
}

/// A transfer that is being submitted, until this is dropped.
struct Submitting<'a>(&'a Stubs, TransferId);

impl Drop for Submitting<'_> {
    fn drop(&mut self) {
        self.0.submitting().remove(&self.1);
    }
}

impl Stubs {
    pub(super) fn new(parts: &ManagerParts, events: TransferEvents) -> Self {
        let (state, sites) = (Arc::clone(&parts.state), Arc::clone(&parts.sites));
        let (source, submitting) = (Arc::clone(&parts.source), Mutex::default());
        Self { state, sites, source, events, asking: Mutex::default(), submitting }
    }

    fn submitting(&self) -> MutexGuard<'_, BTreeMap<TransferId, Submitted>> {
        self.submitting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the account as which another site, `owner`, may use `source` for its transfer. An id
    /// alone grants no right to other files of the user who submitted it.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(super) fn source_account(
        &self,
        owner: &Name,
        id: TransferId,
        (store, root): (&Name, &PathText),
    ) -> Result<SourceAccount, Problem> {
        let mut submitted = self.submitting().get(&id).cloned();
        if submitted.is_none() {
            let stub = self.state.stub(id)?.filter(|stub| stub.owner == *owner);
            submitted = stub.and_then(|stub| stub.submitted);
        }
        Ok(match submitted {
            Some(Submitted { source, account })
                if source.store == *store && source.path == *root =>
            {
                SourceAccount::Submitter(account)
            }
            _ => SourceAccount::Mapped,
        })
    }

    /// Handles a scan that another site opened here for a transfer of its own, so that this site
    /// shows it as well. Asks that site for the state of the transfer.
    pub(super) fn handle_scan(&self, owner: &Name, id: TransferId) {
        match self.state.stub(id) {
            Ok(None) => match self.sites.show(owner, id) {
                Ok(view) => {
                    if let Err(problem) = self.remember(owner, (None, None), id, &view) {
                        tracing::warn!(transfer = %id, %problem, "not remembered");
                    }
                }
                Err(problem) => tracing::info!(transfer = %id, %problem, "owner does not show it"),
            },
            Ok(Some(_)) => {}
            Err(error) => tracing::warn!(transfer = %id, %error, "stub not read"),
        }
    }

    /// Drops the pages of a transfer whose owner needs them no longer, and asks for its final
    /// state.
    pub(super) fn handle_release(&self, owner: &Name, id: TransferId) {
        self.source.release(id);
        let stub = self.state.stub(id).ok().flatten();
        if let Some(stub) = stub.filter(|stub| stub.owner == *owner) {
            self.refresh(stub);
        }
    }

    /// Returns a stub as its owner shows it when its state is another one than `seen`, or after
    /// `wait_ms`.
    pub(super) fn refresh_when(
        &self,
        stub: Stub,
        seen: TransferState,
        wait_ms: u32,
    ) -> TransferReport {
        self.ask(stub, &mut Vec::new(), Some((seen, wait_ms)))
    }

    /// Returns a stub as its owner shows it now, or as it was last seen, with the reason.
    pub(super) fn refresh(&self, stub: Stub) -> TransferReport {
        self.ask(stub, &mut Vec::new(), None)
    }

    /// Hands a request to the site that will own the transfer. Also returns whether it is new here.
    ///
    /// # Errors
    /// The site is not paired, or rejects it.
    pub(super) fn forward(
        &self,
        request: &TransferRequest,
        caller: &Caller,
    ) -> Result<(TransferReport, bool), Problem> {
        let owner = &request.target.site;
        if !self.sites.is_paired(owner) {
            return Err(not_paired(owner));
        }
        let known = self.state.stub(request.id)?;
        if known.as_ref().is_some_and(|stub| !caller.may_see_stub(stub)) {
            return Err(id_taken(request.id));
        }
        let user = known.as_ref().map_or_else(|| caller.owner(), |stub| stub.user.clone());
        let (source, account) = (request.source.clone(), caller.account().cloned());
        let first = known.as_ref().and_then(|stub| stub.submitted.clone());
        let submitted = first.unwrap_or(Submitted { source, account });
        self.submitting().insert(request.id, submitted.clone());
        let _submitting = Submitting(self, request.id);
        let view = self.sites.submit(owner, request, user.as_ref())?;
        self.remember(owner, (user, Some(submitted)), request.id, &view)?;
        Ok((view, known.is_none()))
    }

    /// Has the owner of a stub pause, resume, cancel or retry its transfer.
    ///
    /// # Errors
    /// The error of the owner, or that it cannot be reached; an owner of an earlier release has
    /// paused the transfer without an end.
    pub(super) fn act(&self, stub: &Stub, steering: Steering) -> Result<TransferReport, Problem> {
        let view = self.sites.act(&stub.owner, stub.view.id, steering)?;
        let by = (stub.user.clone(), stub.submitted.clone());
        self.remember(&stub.owner, by, stub.view.id, &view)?;
        let ends = view.attempts.pause.as_ref().is_some_and(|pause| pause.until_ms.is_some());
        if steering.until.is_some() && !ends && !view.state.is_ended() {
            let title = format!("site `{}` has paused the transfer without an end", stub.owner);
            return Err(Problem::new(ProblemCode::WrongState, title)
                .hint("its release knows no end of a pause: resume the transfer yourself"));
        }
        Ok(view)
    }

    /// Has the owner of a stub change its transfer. `is_current` judges the transfer as the owner
    /// shows it now; another change may come between.
    ///
    /// # Errors
    /// As [`Self::act`]; code `changed-meanwhile`.
    pub(super) fn change(
        &self,
        stub: Stub,
        patch: &TransferPatch,
        is_current: &dyn Fn(&TransferReport) -> bool,
    ) -> Result<TransferReport, Problem> {
        let (owner, user, id) = (stub.owner.clone(), stub.user.clone(), stub.view.id);
        let submitted = stub.submitted.clone();
        if !is_current(&self.refresh(stub)) {
            return Err(changed_meanwhile(id));
        }
        let view = self.sites.change(&owner, id, patch)?;
        self.remember(&owner, (user.clone(), submitted), id, &view)?;
        Ok(TransferReport { owner: user, ..view })
    }

    /// Stores the state of another site's transfer, and reports its end when that is new. A failure
    /// is logged, since the state can be asked for again.
    ///
    /// # Errors
    /// The owner showed another transfer than the one it was asked for, or not its own: nothing is
    /// stored.
    fn remember(
        &self,
        owner: &Name,
        (user, submitted): (Option<Name>, Option<Submitted>),
        id: TransferId,
        view: &TransferReport,
    ) -> Result<(), Problem> {
        if view.id != id || view.target.site != *owner {
            let title = format!("site `{owner}` showed another transfer than {id}");
            return Err(Problem::new(ProblemCode::SiteReply, title));
        }
        // The owner may open its scan here before the answer to the submission arrives.
        let known = self.state.stub(id).ok().flatten();
        let was_ended = known.as_ref().is_some_and(|stub| stub.view.state.is_ended());
        let mut view = view.clone().without_paths();
        let (mut user, mut submitted) = (user, submitted);
        if let Some(known) = known {
            (user, submitted) = (user.or(known.user), submitted.or(known.submitted));
            // Its place in lists, which the owner does not move.
            view.created = known.view.created;
        }
        let stub = Stub { owner: owner.clone(), user, submitted, view };
        if let Err(error) = self.state.put_stub(&stub) {
            tracing::warn!(transfer = %id, %error, "stub not stored");
        } else if stub.view.state.is_ended() && !was_ended {
            self.events.tell(&TransferReport { owner: stub.user, ..stub.view });
        }
        Ok(())
    }

    /// Returns the stubs as their owners show them now, as far as the owners answer within
    /// [`OWNERS_MAX`]. A thread asks each owner, continues after that time, and stores the answer.
    /// Until the thread ends, the owner is not asked again.
    pub(super) fn refresh_all(
        self: &Arc<Self>,
        stubs: Vec<Stub>,
    ) -> HashMap<TransferId, TransferReport> {
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
            let (asks, heard) = (Arc::clone(self), heard.clone());
            let asking = std::thread::Builder::new().name("owner".to_owned()).spawn(move || {
                let _asking = Asking { stubs: &asks, owner };
                let mut silent = Vec::new();
                for stub in stubs {
                    // The receiver may be gone: the answer is stored in any case.
                    let _ = heard.send(asks.ask(stub, &mut silent, None));
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

    /// Returns a stub as its owner shows it, as [`Self::refresh`] does. With a state and
    /// milliseconds in `wait`, the owner answers when the state differs, or after that time. Owners
    /// that do not answer are added to `silent`, and the same caller does not ask them again.
    fn ask(
        &self,
        stub: Stub,
        silent: &mut Vec<Name>,
        wait: Option<(TransferState, u32)>,
    ) -> TransferReport {
        let Stub { owner, user, submitted, mut view } = stub;
        view.owner.clone_from(&user);
        if view.state.is_ended() && view.state != TransferState::Failed {
            return view;
        }
        if silent.contains(&owner) {
            view.reason = format!("site `{owner}` cannot be reached; shown as last seen");
            return view;
        }
        let asked = match wait {
            None => self.sites.show(&owner, view.id),
            Some((seen, wait_ms)) => self.sites.news(&owner, view.id, seen, wait_ms),
        };
        // Users of other sites are theirs to name.
        let asked = asked.map(|now| TransferReport { owner: user.clone(), ..now });
        let id = view.id;
        let fits = asked.and_then(|now| {
            if now != view {
                self.remember(&owner, (user, submitted), id, &now)?;
            }
            Ok(now)
        });
        match fits {
            Ok(now) => {
                if matches!(now.state, TransferState::Done | TransferState::Cancelled) {
                    self.source.release(id);
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
