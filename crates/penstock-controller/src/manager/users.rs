//! The requests that users and paired sites may make to the manager.

use std::fs::File;
use std::io::{Seek as _, Write};

use penstock_api::limits::{LimitRequest, Limits};
use penstock_api::plan::PlanUse;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::rest::{Action, Event, LIST_MAX, TransferList};
use penstock_api::transfer::{
    LANES_MAX, Location, PathText, Progress, TransferRequest, TransferState, TransferView,
};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::{Listed, Listing, TransferRecord, Wish};
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name;

use super::plans::journal_failed;
use super::{Inner, Live, Manager, Table, journal_of, place, unknown};
use crate::runner::{RunFiles, removal_has_begun};

/// Transfers that may wait at a time; more are refused until some have ended.
pub const LIVE_MAX: usize = 10_000;

/// The same of those that read from one other site, where that site submits one.
const LIVE_OF_SITE_MAX: usize = 1000;

/// Bytes that a list of another site may have, some 10 million entries, and its receipt.
const FAR_LIST_BYTES_MAX: u64 = 4 << 30;
const FAR_RECEIPT_BYTES_MAX: u64 = 64 << 20;

/// The origin of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user of this site.
    User,
    /// A paired site, by its certificate. It sees and steers only transfers that read from it.
    Site(Name),
}

impl Caller {
    fn may_see(&self, record: &TransferRecord) -> bool {
        match self {
            Self::User => true,
            Self::Site(site) => record.request.source.site == *site,
        }
    }
}

impl Manager {
    /// Accepts a transfer, durably, or forwards it to the site that owns it; the same request again
    /// is the same transfer. Also returns whether it is new.
    ///
    /// # Errors
    /// The request is invalid, a guard rejects it (codes `overlap`, `same-place`), or the owner
    /// does.
    pub fn submit(
        &self,
        request: &TransferRequest,
        caller: &Caller,
    ) -> Result<(TransferView, bool), Problem> {
        check(request)?;
        let inner = &self.inner;
        let own = &inner.config.site;
        inner.check_caller(request, caller)?;
        if request.options.plan == Some(PlanUse::Make) {
            let title = "a transfer cannot only make a plan";
            return Err(Problem::new(ProblemCode::Request, title));
        }
        if request.target.site != *own {
            return inner.forward(request);
        }
        if request.source.site != *own && !inner.parts.sites.is_paired(&request.source.site) {
            return Err(not_paired(&request.source.site));
        }
        let submitter = match caller {
            Caller::User => own.clone(),
            Caller::Site(site) => site.clone(),
        };
        inner.admit(request, submitter, caller)
    }

    /// Returns one transfer, own or of another site.
    ///
    /// # Errors
    /// Status 404: it is not known, or does not concern the caller.
    pub fn show(&self, id: TransferId, caller: &Caller) -> Result<TransferView, Problem> {
        let inner = &self.inner;
        if let Some(live) = inner.lock().live.get(&id)
            && caller.may_see(&live.record)
        {
            return Ok(live.view());
        }
        let stored = inner.parts.state.transfer(id)?;
        if let Some(record) = stored.filter(|record| caller.may_see(record)) {
            return Ok(record.view());
        }
        match (caller, inner.parts.state.stub(id)?) {
            (Caller::User, Some(stub)) => Ok(inner.refresh(stub, &mut Vec::new())),
            _ => Err(unknown(id)),
        }
    }

    /// Returns the transfer whose id begins with these hexadecimal digits.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn resolve(&self, prefix: &str) -> Result<TransferId, Problem> {
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits || prefix.len() > 32 {
            return Err(unknown(prefix));
        }
        match *self.inner.parts.state.ids_with_prefix(prefix)? {
            [] => Err(unknown(prefix)),
            [id] => Ok(id),
            _ => {
                let title = format!("more than one transfer begins with `{prefix}`");
                Err(Problem::new(ProblemCode::TransferAmbiguous, title).hint("give more digits"))
            }
        }
    }

    /// Transfers and stubs, newest first, at most [`LIST_MAX`] at a time. Waits for the owners of
    /// stubs for a moment only; a stub whose owner has not answered then is as it was last seen.
    ///
    /// # Errors
    /// The cursor is not one of ours; the database cannot be read.
    pub fn list(&self, cursor: Option<&str>, limit: usize) -> Result<TransferList, Problem> {
        let inner = &self.inner;
        let before = cursor.map(parse_cursor).transpose()?;
        let limit = limit.clamp(1, LIST_MAX);
        let listed = inner.parts.state.list(before, limit)?;
        let next = (listed.len() == limit).then(|| listed.last().map(Listed::key)).flatten();
        let stubs = listed.iter().filter_map(|line| match line {
            Listed::Stub(stub) => Some(stub.as_ref().clone()),
            Listed::Own(_) => None,
        });
        let mut shown = inner.refresh_all(stubs.collect());
        let views = listed.into_iter().map(|line| match line {
            Listed::Own(record) => {
                inner.lock().live.get(&record.id()).map_or_else(|| record.view(), Live::view)
            }
            Listed::Stub(stub) => shown.remove(&stub.view.id).unwrap_or(stub.view),
        });
        Ok(TransferList {
            transfers: views.collect(),
            next: next.map(|(created, id)| format!("{created}-{id}")),
        })
    }

    /// Pauses, resumes, cancels or retries a transfer, here or at the site that owns it. The wish
    /// is stored durably when this returns; a run takes a moment to follow.
    ///
    /// # Errors
    /// It is not known, or the action does not fit its state.
    pub fn act(
        &self,
        id: TransferId,
        action: Action,
        caller: &Caller,
    ) -> Result<TransferView, Problem> {
        let inner = &self.inner;
        let known = inner.parts.state.transfer(id)?.filter(|record| caller.may_see(record));
        if known.is_some() {
            let view = inner.act(id, action, caller)?;
            inner.changed.notify_all();
            inner.tell(Event::of(&view));
            return Ok(view);
        }
        match (caller, inner.parts.state.stub(id)?) {
            (Caller::User, Some(stub)) => {
                let view = inner.parts.sites.act(&stub.owner, id, action)?;
                inner.remember(&stub.owner, id, &view)?;
                Ok(view)
            }
            _ => Err(unknown(id)),
        }
    }

    /// Sets another limit of a transfer's rate, here or at the site that owns it. The limit is
    /// stored durably when this returns. A running transfer follows it within a fraction of a
    /// second.
    ///
    /// # Errors
    /// It is not known, or has ended; the limit is too low.
    pub fn limit(
        &self,
        id: TransferId,
        limit: LimitRequest,
        caller: &Caller,
    ) -> Result<TransferView, Problem> {
        let inner = &self.inner;
        let known = inner.parts.state.transfer(id)?.filter(|record| caller.may_see(record));
        if known.is_some() {
            let view = inner.limit(id, limit)?;
            inner.tell(Event::of(&view));
            return Ok(view);
        }
        match (caller, inner.parts.state.stub(id)?) {
            (Caller::User, Some(stub)) => {
                let view = inner.parts.sites.limit(&stub.owner, id, limit)?;
                inner.remember(&stub.owner, id, &view)?;
                Ok(view)
            }
            _ => Err(unknown(id)),
        }
    }

    /// Returns a list or the receipt of a transfer that has ended; that of another site's is
    /// fetched into a file without a name.
    ///
    /// # Errors
    /// The transfer is not known, has not ended, or was not asked for this document; another site
    /// fails to send it.
    pub fn document(
        &self,
        id: TransferId,
        document: Document,
        caller: &Caller,
    ) -> Result<File, Problem> {
        let view = self.show(id, caller)?;
        let inner = &self.inner;
        if view.target.site != inner.config.site {
            return inner.fetch_document(&view.target.site, id, document);
        }
        let files = RunFiles::of(&journal_of(&inner.config.journal, id));
        if document == Document::Failures {
            return File::open(&files.failures).or_else(|_| inner.first_failures(&view));
        }
        let (path, code, what, option) = match document {
            Document::Digests => {
                (files.digests, ProblemCode::NoDigestList, "digest list", "--write-digests FILE")
            }
            Document::Checksums(kind) => {
                (files.checksums(kind), ProblemCode::NoChecksums, "such list", "--also-digest LIST")
            }
            Document::Receipt | Document::Failures => {
                (inner.receipt_path(id), ProblemCode::NoReceipt, "receipt", "--receipt")
            }
        };
        File::open(&path).map_err(|error| {
            let title = format!("transfer {} has no {what}", id.short());
            Problem::new(code, title)
                .because(error)
                .hint(format!("submit with `{option}`, and wait for its end"))
                .status(404)
        })
    }
}

/// A file of which another site fills so much and no more.
struct Bounded {
    file: File,
    left: u64,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if part.len() as u64 > self.left {
            return Err(std::io::Error::other("it is longer than any list or receipt may be"));
        }
        let written = self.file.write(part)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Inner {
    /// Checks the request of a caller: another site may submit and plan only transfers that read
    /// from it and write here.
    pub(super) fn check_caller(
        &self,
        request: &TransferRequest,
        caller: &Caller,
    ) -> Result<(), Problem> {
        let own = &self.config.site;
        if let Caller::Site(site) = caller
            && (request.target.site != *own || request.source.site != *site)
        {
            let title = format!("site `{site}` may only submit transfers from itself to `{own}`");
            let hint = format!("submit it at site `{own}`");
            return Err(Problem::new(ProblemCode::NotAuthorised, title).hint(hint));
        }
        Ok(())
    }

    fn admit(
        &self,
        request: &TransferRequest,
        submitter: Name,
        caller: &Caller,
    ) -> Result<(TransferView, bool), Problem> {
        if let Some(known) = self.known(request)? {
            return Ok((known, false));
        }
        let target = &request.target;
        place::check_not_own(target)?;
        // Before the lock: a store that hangs, or that another host has, delays no other caller.
        let there = match self.parts.target.root_kind(&target.store, &target.path) {
            Ok(there) => there,
            // It waits in the queue until the store is back.
            Err(problem) if problem.exit == Exit::Temporary => None,
            Err(problem) => return Err(problem),
        };
        let claim = place::claim(&request.source, target, there);
        let _admission = self.admission.lock();
        if let Some(known) = self.known(request)? {
            return Ok((known, false));
        }
        self.check_idle(request.id)?;
        self.check_same_place(request, &claim)?;
        self.check_overlap(request, &claim, caller)?;
        if matches!(request.options.plan, Some(PlanUse::Follow { .. }))
            && !RunFiles::of(&journal_of(&self.config.journal, request.id)).plan.exists()
        {
            let title = "the plan that the transfer is to follow was not sent";
            return Err(Problem::new(ProblemCode::PlanMissing, title)
                .hint("submit it with `penstock transfer submit --plan FILE`"));
        }
        let record = record_of(request, submitter, claim);
        self.parts.state.put_transfer(&record)?;
        let view = self.enqueue(record);
        self.tell(Event::of(&view));
        Ok((view, true))
    }

    /// The transfer that a request has been taken for before.
    fn known(&self, request: &TransferRequest) -> Result<Option<TransferView>, Problem> {
        let Some(known) = self.parts.state.transfer(request.id)? else { return Ok(None) };
        if !is_same_wish(&known.request, request) {
            let title = format!("the id {} is of another transfer", request.id);
            return Err(Problem::new(ProblemCode::IdTaken, title));
        }
        let live = self.lock().live.get(&request.id).map(Live::view);
        Ok(Some(live.unwrap_or_else(|| known.view())))
    }

    fn fetch_document(
        &self,
        site: &Name,
        id: TransferId,
        document: Document,
    ) -> Result<File, Problem> {
        let left = match document {
            Document::Receipt => FAR_RECEIPT_BYTES_MAX,
            _ => FAR_LIST_BYTES_MAX,
        };
        let mut out = Bounded { file: self.nameless()?, left };
        self.parts.sites.document(site, id, document, &mut out)?;
        let mut file = out.file;
        file.rewind().map_err(journal_failed)?;
        Ok(file)
    }

    /// The failed items of a transfer that has written no list of them: those that are shown.
    fn first_failures(&self, view: &TransferView) -> Result<File, Problem> {
        let mut file = self.nameless()?;
        for item in &view.failures {
            let line = serde_json::to_string(item).unwrap_or_default();
            writeln!(file, "{line}").map_err(journal_failed)?;
        }
        file.rewind().map_err(journal_failed)?;
        Ok(file)
    }

    /// Returns the path of the receipt of an own transfer. The receipt outlives the ledger.
    pub(super) fn receipt_path(&self, id: TransferId) -> std::path::PathBuf {
        self.config.journal.with_file_name("receipts").join(format!("{id}.json"))
    }

    /// Puts a stored record into the queue.
    fn enqueue(&self, record: TransferRecord) -> TransferView {
        let view = record.view();
        let live = Live::new(record, &self.config);
        self.lock().live.insert(view.id, live);
        self.changed.notify_all();
        view
    }

    fn absolute(&self, store: &Name, path: &PathText) -> Vec<u8> {
        place::absolute((self.parts.directory)(store).as_deref(), store.as_str(), path)
    }

    /// Checks that a data set is never moved into itself, or over its source (B8).
    pub(super) fn check_same_place(
        &self,
        request: &TransferRequest,
        claim: &PathText,
    ) -> Result<(), Problem> {
        let source = &request.source;
        if source.site != request.target.site {
            return Ok(());
        }
        let from = self.absolute(&source.store, &source.path);
        if !place::overlap(&from, &self.absolute(&request.target.store, claim)) {
            return Ok(());
        }
        let title = format!("source `{source}` and target `{}` overlap", request.target);
        Err(Problem::new(ProblemCode::SamePlace, title)
            .hint("choose a target that is neither inside the source nor contains it"))
    }

    /// Checks that two transfers never write to one place (B8). A caller that may not see the other
    /// transfer learns only that there is one.
    pub(super) fn check_overlap(
        &self,
        request: &TransferRequest,
        claim: &PathText,
        caller: &Caller,
    ) -> Result<(), Problem> {
        let place = self.absolute(&request.target.store, claim);
        let table = self.lock();
        if table.live.len() >= LIVE_MAX {
            let title = format!("{LIVE_MAX} transfers wait already");
            return Err(Problem::new(ProblemCode::QueueFull, title));
        }
        if let Caller::Site(site) = caller {
            let from = table.live.values().filter(|live| live.record.request.source.site == *site);
            if from.count() >= LIVE_OF_SITE_MAX {
                let title = format!("{LIVE_OF_SITE_MAX} transfers from `{site}` wait already");
                return Err(Problem::new(ProblemCode::QueueFull, title));
            }
        }
        let live = table.live.values().map(|live| &live.record);
        let live = live.filter(|record| !record.state.is_ended());
        let other = live.chain(table.busy.values().flatten()).find(|record| {
            let store = &record.request.target.store;
            record.id() != request.id
                && place::overlap(&place, &self.absolute(store, &record.claim))
        });
        let Some(other) = other else { return Ok(()) };
        if !caller.may_see(other) {
            let title = format!("target `{}` overlaps with another transfer", request.target);
            return Err(Problem::new(ProblemCode::Overlap, title)
                .hint("wait until that has ended, or choose another target"));
        }
        let (id, to) = (other.id(), &other.request.target);
        let title = format!("target `{}` overlaps with transfer {id} to `{to}`", request.target);
        Err(Problem::new(ProblemCode::Overlap, title)
            .because(format!(
                "that transfer has not ended: `penstock transfer show {}`",
                id.short()
            ))
            .hint("wait until it has ended, cancel it, or choose another target"))
    }

    fn act(
        &self,
        id: TransferId,
        action: Action,
        caller: &Caller,
    ) -> Result<TransferView, Problem> {
        let admission = self.admission.lock();
        let mut table = self.lock();
        if let Some(live) = table.live.get_mut(&id)
            && !live.record.state.is_ended()
        {
            return self.act_on_live(live, action);
        }
        drop(table);
        self.check_idle(id)?;
        let record = self.parts.state.transfer(id)?.ok_or_else(|| unknown(id))?;
        match (action, record.state) {
            (Action::Retry, TransferState::Failed) => {
                let claim = record.root.clone().unwrap_or_else(|| record.claim.clone());
                self.check_overlap(&record.request, &claim, caller)?;
                let _busy = self.occupy(id, Some(TransferRecord { claim, ..record.clone() }))?;
                // The source's site is informed and may not answer: no other caller waits for that.
                drop(admission);
                self.prepare_retry(&record)?;
                let _admission = self.admission.lock();
                self.requeue(record, Wish::None)
            }
            (Action::Cancel, TransferState::Failed) => self.requeue(record, Wish::Cancel),
            (Action::Cancel, TransferState::Cancelled) => Ok(record.view()),
            (_, state) => Err(wrong_state(id, action, state)),
        }
    }

    fn limit(&self, id: TransferId, limit: LimitRequest) -> Result<TransferView, Problem> {
        let limits = Limits { rate_bits_per_s: limit.rate_bits_per_s, ..Limits::default() };
        limits.check().map_err(|title| Problem::new(ProblemCode::Request, title))?;
        let _admission = self.admission.lock();
        let mut table = self.lock();
        let live = table.live.get_mut(&id).filter(|live| !live.record.state.is_ended());
        let Some(live) = live else {
            let title = format!("cannot limit transfer {}: it has ended", id.short());
            return Err(Problem::new(ProblemCode::WrongState, title));
        };
        let mut record = live.record.clone();
        record.request.options.limits.rate_bits_per_s = limit.rate_bits_per_s;
        self.parts.state.put_transfer(&record)?;
        live.record = record;
        if let Some(run) = &live.run {
            run.set_rate(limit.rate_bits_per_s);
        }
        Ok(live.view())
    }

    fn act_on_live(&self, live: &mut Live, action: Action) -> Result<TransferView, Problem> {
        let state = live.record.state;
        let mut record = live.record.clone();
        match (action, state) {
            (Action::Pause, TransferState::Paused) | (Action::Resume, TransferState::Queued) => {}
            (Action::Pause, TransferState::Queued) if record.wish != Wish::Cancel => {
                record.wish = Wish::Pause;
                record.state = TransferState::Paused;
                "paused by a user".clone_into(&mut record.reason);
            }
            (Action::Pause, TransferState::Running) if record.wish != Wish::Cancel => {
                record.wish = Wish::Pause;
            }
            (Action::Resume, TransferState::Paused) => {
                record.wish = Wish::None;
                record.state = TransferState::Queued;
                record.reason.clear();
                self.list_anew(&mut record);
            }
            (Action::Resume, TransferState::Running) if record.wish == Wish::None => {}
            (Action::Cancel, TransferState::Running) => record.wish = Wish::Cancel,
            (Action::Cancel, _) => {
                record.wish = Wish::Cancel;
                record.state = TransferState::Queued;
                "cancelling".clone_into(&mut record.reason);
            }
            (Action::Retry, TransferState::Queued) => {}
            (_, state) => return Err(wrong_state(record.id(), action, state)),
        }
        self.parts.state.put_transfer(&record)?;
        live.record = record;
        live.not_before = None;
        match (action, &mut live.full) {
            (Action::Pause | Action::Cancel, full) => *full = None,
            (_, Some(full)) => full.try_now(),
            (_, None) => {}
        }
        match (live.record.wish, &live.run) {
            (Wish::Pause, Some(run)) => run.pause(),
            (Wish::Cancel, Some(run)) => run.cancel(),
            _ => {}
        }
        Ok(live.view())
    }

    /// Makes a failed transfer ready for a retry. The retry lists the source anew, and its ledger
    /// proves what is done. A move that came to its end with failed items begins without a ledger:
    /// its source holds only items that are still to be moved.
    fn prepare_retry(&self, record: &TransferRecord) -> Result<(), Problem> {
        let id = record.id();
        let journal = journal_of(&self.config.journal, id);
        let failures = RunFiles::of(&journal).failures;
        if std::fs::metadata(failures).map_or(0, |meta| meta.len()) == 0 {
            return Ok(());
        }
        if record.request.options.plan.is_some() {
            let title = format!(
                "cannot retry transfer {}: its plan no longer matches the source or the \
                         target",
                id.short()
            );
            return Err(Problem::new(ProblemCode::PlanUsed, title)
                .hint("make another plan, and submit that"));
        }
        if !record.request.options.remove_source {
            return Ok(());
        }
        self.release(record);
        self.parts.state.remove(id)?;
        std::fs::remove_dir_all(&journal).map_err(|cause| {
            let title = format!("cannot remove {}", journal.display());
            penstock_api::io_problem::failed(ProblemCode::Journal, title, &cause)
        })
    }

    /// Has the next attempt list the source anew, so that it ends as one submitted now would. A
    /// plan is a list of its own, and what is being removed at the source is on the present list.
    pub(super) fn list_anew(&self, record: &mut TransferRecord) {
        let journal = journal_of(&self.config.journal, record.id());
        if record.request.options.plan.is_none() && !removal_has_begun(&journal) {
            let number = record.listing.number.saturating_add(1);
            record.listing = Listing { number, at: now_seconds(), instance: 0 };
        }
    }

    fn requeue(&self, mut record: TransferRecord, wish: Wish) -> Result<TransferView, Problem> {
        record.wish = wish;
        record.state = TransferState::Queued;
        record.exit = None;
        record.reason.clear();
        record.failures.clear();
        if wish == Wish::None {
            self.list_anew(&mut record);
        }
        self.parts.state.put_transfer(&record)?;
        Ok(self.enqueue(record))
    }
}

impl Table {
    /// Returns whether a transfer has not ended.
    pub(super) fn is_live(&self, id: TransferId) -> bool {
        self.live.contains_key(&id)
    }
}

/// A transfer as it is when it is accepted.
pub(super) fn record_of(
    request: &TransferRequest,
    submitter: Name,
    claim: PathText,
) -> TransferRecord {
    TransferRecord {
        request: request.clone(),
        submitter,
        created: now_seconds(),
        listing: Listing::default(),
        state: TransferState::Queued,
        wish: Wish::None,
        reason: String::new(),
        claim,
        root: None,
        progress: Progress::default(),
        exit: None,
        failures: Vec::new(),
        durable_by: String::new(),
    }
}

/// Returns whether a request means the same transfer. Its limits may have been changed since.
fn is_same_wish(known: &TransferRequest, request: &TransferRequest) -> bool {
    let mut known = known.clone();
    known.options.limits = request.options.limits;
    known == *request
}

/// A request that came over the network is not trusted to be one that our own types would make.
pub(super) fn check(request: &TransferRequest) -> Result<(), Problem> {
    let usage = |title: String| Problem::new(ProblemCode::Request, title);
    let relative = |path: &PathText| {
        name::check_relative(&path.0)
            .map_err(|_| usage(format!("`{path}` is not a path within a store")))
    };
    let Location { path: from, .. } = &request.source;
    relative(from)?;
    relative(&request.target.path)?;
    request.options.files_from.iter().try_for_each(relative)?;
    let select = &request.options.select;
    select
        .settled(0)
        .compile()
        .map_err(|cause| usage("a filter cannot be read".to_owned()).because(cause))?;
    if request.options.digest_list && request.options.digest == DigestKind::Xxh3 {
        return Err(usage("XXH3 gives no digests of files: no digest list".to_owned())
            .hint("leave out `--digest xxh3-128`, or the digest list"));
    }
    request.options.limits.check().map_err(usage)?;
    if request.options.lanes > LANES_MAX {
        return Err(usage(format!("a transfer has at most {LANES_MAX} lanes")));
    }
    let options = &request.options;
    let partial = !options.files_from.is_empty() || options.select.leaves_unknown();
    request.options.update.check(partial).map_err(|why| usage(why.to_owned()))?;
    request.options.check_removal().map_err(|why| usage(why.to_owned()))?;
    if request.options.slicing().is_err() {
        let title = "the piece size is no power of two from 1 MiB to 1 GiB";
        return Err(usage(title.to_owned()));
    }
    Ok(())
}

pub(super) fn not_paired(site: &Name) -> Problem {
    let title = format!("site `{site}` is not paired with this one");
    Problem::new(ProblemCode::NotPaired, title)
        .hint("`penstock site pair` there, `penstock site pair TOKEN` here")
}

fn wrong_state(id: TransferId, action: Action, state: TransferState) -> Problem {
    let state = serde_json::to_value(state).unwrap_or_default();
    let title = format!(
        "transfer {} is {}: cannot {} it",
        id.short(),
        state.as_str().unwrap_or_default(),
        action.as_str()
    );
    Problem::new(ProblemCode::WrongState, title)
}

fn parse_cursor(text: &str) -> Result<(u64, TransferId), Problem> {
    text.split_once('-')
        .and_then(|(created, id)| Some((created.parse().ok()?, id.parse().ok()?)))
        .ok_or_else(|| Problem::new(ProblemCode::Cursor, format!("`{text}` is not a cursor")))
}
