//! One attempt at a transfer: opens the source, finds the root, runs, and settles the result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use penstock_api::plan::location_text;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::scan::{OwnPages, PageSource, RootKind, ScanRequest};
use penstock_api::task::{Room, SourceAccess};
use penstock_api::transfer::{Location, PathText, TransferRequest, TransferState};
use penstock_cluster::state::Wish;
use penstock_proto::id::TransferId;
use penstock_proto::version;

use super::receipt::scan_request;
use super::{Inner, Live, ManagerConfig, Table, TransferRecord, journal_of, place};
use crate::runner::{FindSource, RunControl, RunInput, RunOutcome};
use crate::sites::RemotePages;

/// The reason shown for a cancelled transfer.
pub(super) const CANCELLED: &str = "cancelled by a user";

pub(super) struct Opened {
    pub(super) kind: RootKind,
    pub(super) pages: Box<dyn PageSource>,
    pub(super) access: SourceAccess,
    pub(super) find: Option<FindSource>,
    /// Number of the source's process that serves the list; 0 if the source does not report
    /// restarts.
    instance: u64,
}

impl Inner {
    /// The body of a transfer's thread.
    pub(super) fn attempt(self: Arc<Self>, id: TransferId, control: &Arc<RunControl>) {
        let began = Instant::now();
        let run = AssertUnwindSafe(|| {
            let waits = self.is_without_room(id, control);
            (!waits).then(|| self.run(id, control))
        });
        let outcome = catch_unwind(run).unwrap_or_else(|_| {
            let title = "the transfer's thread broke an assumption of ours";
            let problem = Problem::new(ProblemCode::Internal, title);
            let hint = "please report it, with the log of the daemon";
            Some(RunOutcome::Failed(problem.hint(hint)))
        });
        if let Some(outcome) = outcome {
            let asks = match &outcome {
                RunOutcome::Failed(problem) => problem.code == ProblemCode::ListAnew,
                _ => false,
            };
            let outcome = match asks || began.elapsed() >= self.config.restart_least {
                true => self.list_after_restart(id, outcome, asks),
                false => outcome,
            };
            self.settle(id, control, outcome);
        }
    }

    fn run(&self, id: TransferId, control: &Arc<RunControl>) -> RunOutcome {
        let Some(record) = self.lock().live.get(&id).map(|live| live.record.clone()) else {
            return RunOutcome::Cancelled;
        };
        match record.wish {
            Wish::Cancel => return RunOutcome::Cancelled,
            Wish::Pause => return RunOutcome::Paused,
            Wish::None => {}
        }
        match self.prepare(&record, control) {
            Ok(input) => {
                self.say(id, "");
                (self.parts.run)(input)
            }
            Err(problem) => RunOutcome::Failed(problem),
        }
    }

    /// Shows the reason why an attempt waits before its run has begun.
    fn say(&self, id: TransferId, reason: &str) {
        if let Some(live) = self.lock().live.get_mut(&id)
            && live.full.is_none()
        {
            reason.clone_into(&mut live.record.reason);
        }
    }

    fn prepare(
        &self,
        record: &TransferRecord,
        control: &Arc<RunControl>,
    ) -> Result<RunInput, Problem> {
        let (id, target) = (record.id(), &record.request.target);
        self.say(id, &format!("asking site `{}` for the data set", record.request.source.site));
        let (site, options) = (&record.request.source.site, &record.request.options);
        if *site != self.config.site {
            let lanes_max = if options.lanes > 0 { options.lanes } else { options.lanes_max };
            let peers = self.parts.sites.far_data(site);
            self.parts.target.expect_source(&target.store, site, &peers, lanes_max);
        }
        let (record, opened) = self.open_listed(record.clone())?;
        let record = &record;
        let root = match &record.root {
            Some(root) => root.clone(),
            None => {
                let there = self.parts.target.root_kind(&target.store, &target.path)?;
                let root = place::root(&record.request.source, opened.kind, target, there)?;
                // Stored before anything is made there: a later attempt finds another situation.
                let mut table = self.lock();
                if let Some(live) = table.live.get_mut(&id) {
                    live.record.root = Some(root.clone());
                    live.record.claim = root.clone();
                    self.parts.state.put_transfer(&live.record)?;
                }
                root
            }
        };
        Ok(RunInput {
            id,
            listing: record.listing.number,
            is_new_target: false,
            options: record.request.options.clone(),
            store: target.store.clone(),
            root,
            pages: opened.pages,
            peers: (self.parts.peers)(&target.store, opened.access.own_store()),
            source: opened.access,
            find_source: opened.find,
            heads: Arc::clone(&self.parts.state) as _,
            journal: journal_of(&self.config.journal, id),
            control: Arc::clone(control),
            places: places_of(&record.request),
            known_rate: None,
            fence: self.parts.fence.clone(),
        })
    }

    /// Opens the source. A source that was restarted since it made its list makes another one, so
    /// that the transfer ends as one submitted now would (A13).
    fn open_listed(&self, mut record: TransferRecord) -> Result<(TransferRecord, Opened), Problem> {
        let opened = self.open_source(&record)?;
        let before = record.listing;
        if opened.instance == 0 || opened.instance == before.instance {
            return Ok((record, opened));
        }
        if before.instance != 0 {
            self.list_anew(&mut record);
        }
        record.listing.instance = opened.instance;
        self.keep_listing(&record)?;
        let opened = match record.listing.number == before.number {
            true => opened,
            false => self.open_source(&record)?,
        };
        Ok((record, opened))
    }

    /// Stores which list a transfer works on.
    fn keep_listing(&self, record: &TransferRecord) -> Result<(), Problem> {
        if let Some(live) = self.lock().live.get_mut(&record.id()) {
            live.record.listing = record.listing;
            self.parts.state.put_transfer(&live.record)?;
        }
        Ok(())
    }

    /// Turns the end of a run into another attempt, which lists anew, if the source was restarted
    /// during that run (A13). A source that does not answer now does not hold up the end. A move
    /// and a plan end with the list that they had. A run that `asks` for a new list gets one.
    fn list_after_restart(&self, id: TransferId, outcome: RunOutcome, asks: bool) -> RunOutcome {
        let ends = match &outcome {
            RunOutcome::Done => true,
            RunOutcome::Failed(problem) => asks || problem.exit != Exit::Temporary,
            RunOutcome::Paused | RunOutcome::Cancelled => false,
        };
        let record = self.lock().live.get(&id).map(|live| live.record.clone());
        let Some(mut record) = record.filter(|_| ends && self.parts.fence.holds()) else {
            return outcome;
        };
        let options = &record.request.options;
        let keeps = options.remove_source || options.plan.is_some() || record.wish != Wish::None;
        if keeps || !asks && !self.is_restarted(&record) {
            return outcome;
        }
        tracing::info!(transfer = %id, "its data set is listed again");
        self.list_anew(&mut record);
        match self.keep_listing(&record) {
            Ok(()) => RunOutcome::Paused,
            Err(problem) => RunOutcome::Failed(problem),
        }
    }

    /// Returns whether the process that serves the source's list is another than the one that made
    /// it.
    fn is_restarted(&self, record: &TransferRecord) -> bool {
        let known = record.listing.instance;
        let request = scan_request(&record.request, record.listing());
        let site = &record.request.source.site;
        let asked = || self.parts.sites.open_scan(site, &request).map_or(0, |it| it.instance);
        known != 0 && ![0, known].contains(&asked())
    }

    pub(super) fn open_source(&self, record: &TransferRecord) -> Result<Opened, Problem> {
        let (id, source) = (record.id(), &record.request.source);
        let request = scan_request(&record.request, record.listing());
        if source.site == self.config.site {
            let slicer = version::known().format(self.parts.state.format()).slicer;
            let slicing = request.slicing.no_newer_than(slicer);
            let kind = self.parts.source.open_scan(&ScanRequest { slicing, ..request })?;
            let pages = Box::new(OwnPages::new(Arc::clone(&self.parts.source), id));
            let access = self.own_access(record);
            let find = access.own_store().is_none().then(|| self.find_own(record));
            return Ok(Opened { kind, pages, access, find, instance: 0 });
        }
        let site = source.site.clone();
        let scan = self.parts.sites.open_scan(&site, &request)?;
        let sites = Arc::clone(&self.parts.sites);
        let (peers, capability, instance) = (scan.peers, scan.capability, scan.instance);
        let shown = capability.clone();
        let (asked, from, store) = (Arc::clone(&sites), site.clone(), source.store.clone());
        let find: FindSource = Arc::new(move || asked.source_peers(&from, &store));
        let pages = Box::new(RemotePages::new(sites, site.clone(), request, shown));
        let access = SourceAccess::Remote { site, own_site: false, peers, capability };
        Ok(Opened { kind: scan.root, pages, access, find: Some(find), instance })
    }

    /// Returns the access to a data set of this site. Peers that have both stores read it
    /// themselves. If there are none, they read over lanes from peers that have the source's store.
    fn own_access(&self, record: &TransferRecord) -> SourceAccess {
        let Location { store, path: root, .. } = &record.request.source;
        let target = &record.request.target.store;
        let lanes = match (self.parts.peers)(target, Some(store)).present().is_empty() {
            true => (self.parts.lanes)(&scan_request(&record.request, record.listing())),
            false => None,
        };
        let local = || SourceAccess::Local { store: store.clone(), root: root.clone() };
        lanes.unwrap_or_else(local)
    }

    /// Finds the peers of this site again that have the source's store.
    fn find_own(&self, record: &TransferRecord) -> FindSource {
        let (store, peers) = (record.request.source.store.clone(), &self.parts.own_peers);
        let peers = Arc::clone(peers);
        Arc::new(move || Ok(peers(&store)))
    }

    /// Takes over the result of a run, and decides the next state of the transfer. A failed
    /// transfer keeps its ledger for a retry, a done one for as long as its digest list may be
    /// asked for.
    ///
    /// A deposed controller settles nothing: the next one begins with the committed state.
    fn settle(&self, id: TransferId, control: &RunControl, outcome: RunOutcome) {
        control.take_notes().iter().for_each(|note| self.tell_problem(id, note));
        if !self.parts.fence.holds() {
            self.lock().running -= 1;
            self.changed.notify_all();
            return;
        }
        let discarded = self.discard_cancelled(id, &outcome);
        let outcome = self.make_receipt(id, outcome, &control.view());
        let room = self.room_of(id, &outcome);
        let mut table = self.lock();
        let Table { live, unclean, .. } = &mut *table;
        let Some(live) = live.get_mut(&id) else { return };
        let seen = control.view();
        let ran = seen.progress != Default::default();
        if ran {
            live.record.progress = seen.progress;
            live.record.failures = seen.failures;
            live.record.durable_by = seen.durable_by;
            if live.record.progress.bytes_verified > 0 {
                live.backoff.reset();
            }
        }
        live.record.progress.lanes = 0;
        let problem = live.end_with(outcome, room, &self.config);
        live.remark(&seen.remark);
        if live.record.state == TransferState::Cancelled && !matches!(discarded, Some(Ok(()))) {
            unclean.add(id);
            live.remark(&discarded.and_then(Result::err).map(still_there).unwrap_or_default());
        }
        let stored = self.store(&mut live.record);
        let record = live.record.clone();
        drop(table);
        if stored && record.state == TransferState::Done && !record.request.options.digest_list {
            self.discard_ledger(id);
        }
        if let Some(problem) = problem {
            tracing::warn!(transfer = %id, %problem, "attempt failed");
            self.tell_problem(id, &problem);
        }
        let mut table = self.lock();
        // A user may have asked for a retry meanwhile: then this is another entry, not ours.
        if let Some(live) = table.live.get_mut(&id)
            && live.run.as_ref().is_some_and(|run| std::ptr::eq(Arc::as_ptr(run), control))
        {
            live.run = None;
            if record.state.is_ended() {
                table.live.remove(&id);
            }
        }
        table.running -= 1;
        drop(table);
        self.changed.notify_all();
        self.tell(penstock_api::rest::Event::of(&record.view()));
        // The user need not wait for the source to hear of it.
        if stored && record.state == TransferState::Done {
            self.release(&record);
        }
    }

    /// Removes the temporary files of a cancelled transfer. The transfer is reported as cancelled
    /// only when nothing temporary is left, or together with the fact that something is. Until then
    /// the wish survives a crash. Returns `None` if the transfer is not cancelled.
    fn discard_cancelled(
        &self,
        id: TransferId,
        outcome: &RunOutcome,
    ) -> Option<Result<(), Problem>> {
        let mut table = self.lock();
        let live = table.live.get_mut(&id)?;
        let failed = matches!(outcome, RunOutcome::Failed(_)) && live.record.wish == Wish::Cancel;
        if !failed && *outcome != RunOutcome::Cancelled {
            return None;
        }
        "removing what is temporary".clone_into(&mut live.record.reason);
        let record = live.record.clone();
        drop(table);
        Some(self.discard(&record))
    }
}

/// Returns source and target in the form that a plan shows.
pub(super) fn places_of(request: &TransferRequest) -> (PathText, PathText) {
    (location_text(&request.source), location_text(&request.target))
}

/// Returns the reason shown for a cancelled transfer whose target could not be asked.
fn still_there(problem: Problem) -> String {
    format!(
        "its temporary files are still at the target: {problem}; that is tried again until they \
         are removed"
    )
}

fn reason_of_failure(problem: &Problem) -> String {
    let hint = if problem.hint.is_empty() { String::new() } else { format!("; {}", problem.hint) };
    format!("{problem}{hint}")
}

fn reason_of_retry(problem: &Problem, delay: std::time::Duration) -> String {
    let at = penstock_cluster::clock::now_seconds() + delay.as_secs();
    format!(
        "{}; next attempt in {:.0} s, at {} UTC",
        reason_of_failure(problem),
        delay.as_secs_f64().max(1.0),
        clock(at)
    )
}

/// Time of day of seconds since 1970.
fn clock(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

impl Live {
    /// Adds the remark of its last run to the reason of a transfer, if that run was its end.
    fn remark(&mut self, remark: &str) {
        if remark.is_empty() || !self.record.state.is_ended() {
            return;
        }
        if !self.record.reason.is_empty() {
            self.record.reason.push_str("; ");
        }
        self.record.reason.push_str(remark);
    }

    /// Moves to the state that follows from the result of a run and from the wishes of users
    /// meanwhile. Returns the problem, if that is the reason and new. `room` is the free room of a
    /// full target.
    fn end_with(
        &mut self,
        outcome: RunOutcome,
        room: Option<Room>,
        config: &ManagerConfig,
    ) -> Option<Problem> {
        let wish = self.record.wish;
        let mut problem = None;
        let full = self.full.take();
        let reason = std::mem::take(&mut self.record.reason);
        self.record.exit = None;
        self.record.state = match (outcome, wish) {
            (RunOutcome::Done, _) => {
                self.record.exit = Some(Exit::Done);
                TransferState::Done
            }
            (RunOutcome::Cancelled, _) | (RunOutcome::Failed(_), Wish::Cancel) => {
                self.record.exit = Some(Exit::Interrupted);
                CANCELLED.clone_into(&mut self.record.reason);
                TransferState::Cancelled
            }
            // The daemon ends, or a cancel came after: the queue sees to it.
            (RunOutcome::Paused, Wish::None | Wish::Cancel) => TransferState::Queued,
            (RunOutcome::Paused, Wish::Pause) => {
                "paused by a user".clone_into(&mut self.record.reason);
                TransferState::Paused
            }
            (RunOutcome::Failed(found), Wish::Pause) if found.exit == Exit::Temporary => {
                self.record.reason = format!("paused by a user; before that, {found}");
                TransferState::Paused
            }
            (RunOutcome::Failed(found), _) if found.code == ProblemCode::TargetFull => {
                self.record.reason = reason;
                problem = self.wait_for_room(found, full, room, config);
                TransferState::Queued
            }
            (RunOutcome::Failed(found), _) if found.exit == Exit::Temporary => {
                let delay = self.backoff.next(&mut rand::rng());
                self.not_before = Some(Instant::now() + delay);
                self.record.reason = reason_of_retry(&found, delay);
                problem = Some(found);
                TransferState::Queued
            }
            (RunOutcome::Failed(found), _) => {
                self.record.exit = Some(found.exit);
                self.record.reason = reason_of_failure(&found);
                problem = Some(found);
                TransferState::Failed
            }
        };
        problem
    }
}
