//! Plans of transfers to this site: made on request, and received in parts before a transfer that
//! follows one is submitted.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_api::plan::PlanUse;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::{TransferRequest, TransferState};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::{ListOrder, Listed, TransferRecord};
use penstock_proto::id::{Name, TransferId};

use super::caller::Caller;
use super::config::{ManagerConfig, ManagerParts};
use super::journal_directory::{JournalDirectory, journal_failed};
use super::place;
use super::queue::Admission;
use super::record::{places_of, record_of};
use super::request_check::not_paired;
use super::sources::Sources;
use crate::runner::{RunControl, RunInput, RunOutcome, plan_path};

/// Plans that are made at a time; further requests are refused for a while.
const PLANS_MAX: usize = 4;
/// Longest plan that is taken.
const PLAN_BYTES_MAX: u64 = 64 << 30;
/// Transfers that are looked through for a rate.
const RATES_LOOKED_AT: usize = 200;
/// Bytes below which a transfer is no evidence of a rate.
const RATE_BYTES_MIN: u64 = 16 << 20;

/// Makes and receives plans.
pub(super) struct Planner {
    parts: ManagerParts,
    /// The own site.
    site: Name,
    journal: JournalDirectory,
    sources: Arc<Sources>,
    admission: Arc<Admission>,
    /// Plans that are being made.
    making: AtomicUsize,
}

/// A plan that is being made, until this is dropped.
struct Making<'a>(&'a AtomicUsize);

impl<'a> Making<'a> {
    /// Counts one more plan.
    ///
    /// # Errors
    /// Code `plans-full`.
    fn begin(making: &'a AtomicUsize) -> Result<Self, Problem> {
        let made = Self(making);
        if making.fetch_add(1, Ordering::AcqRel) >= PLANS_MAX {
            let title = format!("{PLANS_MAX} plans are being made already");
            return Err(Problem::new(ProblemCode::PlansFull, title));
        }
        Ok(made)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a plan ends that was not counted");
    }
}

impl Planner {
    pub(super) fn new(
        (config, parts): (&ManagerConfig, &ManagerParts),
        sources: Arc<Sources>,
        admission: Arc<Admission>,
    ) -> Self {
        let (site, parts) = (config.site.clone(), parts.clone());
        let journal = JournalDirectory::new(config.journal.clone());
        Self { parts, site, journal, sources, admission, making: AtomicUsize::new(0) }
    }

    /// Makes the plan of a transfer, here or at the site that would own it. The target is not
    /// changed. Blocks until both sides are walked.
    ///
    /// # Errors
    /// A side cannot be looked at, or too many plans are being made.
    pub(super) fn plan(&self, request: &TransferRequest, caller: &Caller) -> Result<File, Problem> {
        if request.target.site != self.site {
            let owner = &request.target.site;
            if !self.parts.sites.is_paired(owner) {
                return Err(not_paired(owner));
            }
            let mut file = self.journal.nameless()?;
            self.parts.sites.plan(owner, request, caller.owner().as_ref(), &mut file)?;
            file.rewind().map_err(journal_failed)?;
            return Ok(file);
        }
        let _making = Making::begin(&self.making)?;
        self.make(request, caller)
    }

    /// Takes a part of the plan that a transfer of this site is to follow. Parts come in order; the
    /// first starts again.
    ///
    /// # Errors
    /// The transfer is known already; a part is missing; the plan is too long.
    pub(super) fn put(&self, id: TransferId, offset: u64, part: &[u8]) -> Result<(), Problem> {
        let known = self.parts.state.transfer(id)?.map(|record| record.request.options.plan);
        if let Some(Some(PlanUse::Follow { .. })) = known {
            // A repeated submit: the later check decides whether it is the same transfer.
            return Ok(());
        }
        if known.is_some() {
            let title = format!("transfer {id} is submitted already");
            return Err(Problem::new(ProblemCode::IdTaken, title));
        }
        if offset.saturating_add(part.len() as u64) > PLAN_BYTES_MAX {
            let title = format!("the plan is longer than {PLAN_BYTES_MAX} bytes");
            return Err(Problem::new(ProblemCode::PlanTooLong, title));
        }
        let path = self.journal.plan(id);
        let kept = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(journal_failed(error)),
        };
        if kept < offset {
            let title = format!("the plan of transfer {id} lacks a part");
            return Err(Problem::new(ProblemCode::PlanPart, title)
                .because(format!("{kept} bytes are here, and this part begins at byte {offset}"))
                .hint("send the parts in order, from the first one on"));
        }
        fs::create_dir_all(self.journal.of(id)).map_err(journal_failed)?;
        let mut options = File::options();
        let mut file = options.create(true).append(true).open(path).map_err(journal_failed)?;
        file.set_len(offset).and_then(|()| file.write_all(part)).map_err(journal_failed)
    }

    fn make(&self, request: &TransferRequest, caller: &Caller) -> Result<File, Problem> {
        if request.source.site != self.site && !self.parts.sites.is_paired(&request.source.site) {
            return Err(not_paired(&request.source.site));
        }
        let mut request = request.clone();
        // An id of its own: it is no transfer, and shares nothing with one.
        request.id = TransferId(rand::random());
        request.options.plan = Some(PlanUse::Make);
        request.options.select = request.options.select.settled(now_seconds());
        let submitter = caller.submitter(&self.site);
        let record = record_of(&request, submitter, request.target.path.clone());
        let (owner, account) = (caller.owner(), caller.account().cloned());
        let record = TransferRecord { owner, account, ..record };
        let made = self.run(&record);
        self.sources.release(&record);
        if let Err(error) = self.journal.remove(request.id) {
            let path = self.journal.of(request.id);
            tracing::warn!(path = %path.display(), %error, "a plan's journal is left");
        }
        made
    }

    fn run(&self, record: &TransferRecord) -> Result<File, Problem> {
        let (request, id) = (&record.request, record.id());
        let target = &request.target;
        let opened = self.sources.open(record)?;
        let there =
            self.parts.target.root_kind(&target.store, &target.path, record.account.as_ref())?;
        let root = place::root(&request.source, opened.kind, target, there)?;
        self.admission.check_same_place(request, &root)?;
        let journal = self.journal.of(id);
        let input = RunInput {
            fence: self.parts.fence.clone(),
            account: record.account.clone(),
            id,
            listing: record.listing.number,
            is_new_target: false,
            options: request.options.clone(),
            store: target.store.clone(),
            root,
            pages: opened.pages,
            peers: (self.parts.peers)(&target.store, opened.access.own_store()),
            source: opened.access,
            find_source: None,
            heads: Arc::clone(&self.parts.state) as _,
            journal: journal.clone(),
            control: Arc::new(RunControl::default()),
            places: places_of(request),
            known_rate: self.known_rate(request),
        };
        match (self.parts.run)(input) {
            RunOutcome::Done => File::open(plan_path(&journal)).map_err(journal_failed),
            RunOutcome::Failed(problem) => Err(problem),
            RunOutcome::Paused | RunOutcome::Cancelled => {
                Err(Problem::new(ProblemCode::Stopped, "stopped while making the plan"))
            }
        }
    }

    /// Returns the rate of the last transfer between the same stores that moved enough bytes.
    fn known_rate(&self, request: &TransferRequest) -> Option<f64> {
        let places = |request: &TransferRequest| {
            let (from, to) = (&request.source, &request.target);
            (from.site.clone(), from.store.clone(), to.site.clone(), to.store.clone())
        };
        let wanted = places(request);
        let listed =
            self.parts.state.overview(ListOrder::NewestFirst, None, RATES_LOOKED_AT).ok()?;
        listed.into_iter().find_map(|listed| match listed {
            Listed::Own(record) if record.state == TransferState::Done => {
                let progress = &record.progress;
                let tells = progress.bytes_verified >= RATE_BYTES_MIN && progress.seconds > 0.0;
                let same = places(&record.request) == wanted;
                (tells && same).then(|| progress.mean_bits_per_s())
            }
            _ => None,
        })
    }
}
