//! Plans of transfers to this site: made on request, and received in parts before a transfer that
//! follows one is submitted.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_api::fence::Fence;
use penstock_api::plan::PlanUse;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::{TransferRequest, TransferState};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::{Listed, TransferRecord};
use penstock_proto::id::{Name, TransferId};

use super::attempt::places_of;
use super::users::{check, not_paired, record_of};
use super::{Caller, Inner, Manager, journal_of, place};
use crate::runner::{RunControl, RunFiles, RunInput, RunOutcome};

/// Plans that are made at a time; further requests are refused for a while.
const PLANS_MAX: usize = 4;
/// Longest plan that is taken.
const PLAN_BYTES_MAX: u64 = 64 << 30;
/// Transfers that are looked through for a rate.
const RATES_LOOKED_AT: usize = 200;
/// Bytes below which a transfer is no evidence of a rate.
const RATE_BYTES_MIN: u64 = 16 << 20;

impl Manager {
    /// The own site.
    pub fn site(&self) -> &Name {
        &self.inner.config.site
    }

    /// Returns the check whether this process is still the controller of the site.
    pub fn fence(&self) -> &Fence {
        &self.inner.parts.fence
    }

    /// Makes the plan of a transfer, here or at the site that would own it. Nothing is written at
    /// the target. Blocks for as long as both sides take to be walked.
    ///
    /// # Errors
    /// As [`Manager::submit`]; a side cannot be looked at.
    pub fn plan(&self, request: &TransferRequest, caller: &Caller) -> Result<File, Problem> {
        let inner = &self.inner;
        check(request)?;
        inner.check_caller(request, caller)?;
        if request.target.site != inner.config.site {
            let owner = &request.target.site;
            if !inner.parts.sites.is_paired(owner) {
                return Err(not_paired(owner));
            }
            let mut file = inner.nameless()?;
            inner.parts.sites.plan(owner, request, &mut file)?;
            file.rewind().map_err(journal_failed)?;
            return Ok(file);
        }
        if inner.plans.fetch_add(1, Ordering::AcqRel) >= PLANS_MAX {
            inner.plans.fetch_sub(1, Ordering::AcqRel);
            let title = format!("{PLANS_MAX} plans are being made already");
            return Err(Problem::new(ProblemCode::PlansFull, title));
        }
        let made = inner.make_plan(request, caller);
        inner.plans.fetch_sub(1, Ordering::AcqRel);
        made
    }

    /// Takes a part of the plan that a transfer is to follow which is submitted next, for `site`,
    /// which will own that. Parts come in order; the first begins anew.
    ///
    /// # Errors
    /// The transfer is known already; a part is missing; the plan is too long.
    pub fn put_plan(
        &self,
        site: &Name,
        store: &Name,
        id: TransferId,
        offset: u64,
        part: &[u8],
    ) -> Result<(), Problem> {
        let inner = &self.inner;
        if *site != inner.config.site {
            return inner.parts.sites.put_plan(site, store, id, offset, part);
        }
        let known = inner.parts.state.transfer(id)?.map(|record| record.request.options.plan);
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
        let journal = journal_of(&inner.config.journal, id);
        fs::create_dir_all(&journal).map_err(journal_failed)?;
        let path = RunFiles::of(&journal).plan;
        let mut options = File::options();
        let mut file = options.create(true).append(true).open(path).map_err(journal_failed)?;
        if file.metadata().map_err(journal_failed)?.len() < offset {
            let title = format!("the plan of transfer {id} lacks a part");
            return Err(Problem::new(ProblemCode::PlanPart, title));
        }
        file.set_len(offset).and_then(|()| file.write_all(part)).map_err(journal_failed)
    }
}

pub(super) fn journal_failed(cause: std::io::Error) -> Problem {
    penstock_api::io_problem::failed(
        ProblemCode::Journal,
        "the journal store cannot be written",
        &cause,
    )
}

impl Inner {
    /// A file in the journal store that is gone when it is closed.
    pub(super) fn nameless(&self) -> Result<File, Problem> {
        let path = self.config.journal.join(format!("fetched-{:016x}", rand::random::<u64>()));
        fs::create_dir_all(&self.config.journal).map_err(journal_failed)?;
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(journal_failed)?;
        fs::remove_file(&path).map_err(journal_failed)?;
        Ok(file)
    }

    fn make_plan(&self, request: &TransferRequest, caller: &Caller) -> Result<File, Problem> {
        if request.source.site != self.config.site
            && !self.parts.sites.is_paired(&request.source.site)
        {
            return Err(not_paired(&request.source.site));
        }
        let mut request = request.clone();
        // An id of its own: it is no transfer, and shares nothing with one.
        request.id = TransferId(rand::random());
        request.options.plan = Some(PlanUse::Make);
        request.options.select = request.options.select.settled(now_seconds());
        let submitter = match caller {
            Caller::User => self.config.site.clone(),
            Caller::Site(site) => site.clone(),
        };
        let record = record_of(&request, submitter, request.target.path.clone());
        let made = self.run_plan(&record);
        self.release(&record);
        let journal = journal_of(&self.config.journal, request.id);
        if let Err(error) = fs::remove_dir_all(&journal)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %journal.display(), %error, "a plan's journal is left");
        }
        made
    }

    fn run_plan(&self, record: &TransferRecord) -> Result<File, Problem> {
        let (request, id) = (&record.request, record.id());
        let target = &request.target;
        let opened = self.open_source(record)?;
        let there = self.parts.target.root_kind(&target.store, &target.path)?;
        let root = place::root(&request.source, opened.kind, target, there)?;
        self.check_same_place(request, &root)?;
        let journal = journal_of(&self.config.journal, id);
        let input = RunInput {
            fence: self.parts.fence.clone(),
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
            RunOutcome::Done => File::open(RunFiles::of(&journal).plan).map_err(journal_failed),
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
        let listed = self.parts.state.list(None, RATES_LOOKED_AT).ok()?;
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
