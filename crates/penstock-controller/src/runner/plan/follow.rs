//! Follows a plan. No work begins before the whole plan was found to match, and only items of the
//! plan are transferred.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use penstock_api::plan::{PlanItem, PlanUse};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{TargetPeer, TaskSpec};
use penstock_api::transfer::{FailedItem, PathText, TransferOptions};
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::manifest::Page;

use super::index::{Index, Side};
use super::look::Looker;
use crate::runner::input::{FAILURES_SHOWN, RunInput, RunOutcome};
use crate::runner::journal::{RunFiles, checked_path, failed, plan_path};

fn stale(title: String) -> Problem {
    Problem::new(ProblemCode::PlanStale, title).hint("make another plan, and compare the two")
}

/// A plan that is followed.
pub(crate) struct Followed {
    index: Index,
}

impl Followed {
    /// Opens the plan that a run is to follow, if it is to, and compares all of it with the world,
    /// unless an earlier run has done that.
    ///
    /// # Errors
    /// How the run ends instead.
    pub(crate) fn begin(input: &mut RunInput) -> Result<Option<Arc<Self>>, RunOutcome> {
        let Some(PlanUse::Follow { digest }) = input.options.plan.clone() else { return Ok(None) };
        let followed = Self::open(input, &digest).map_err(RunOutcome::Failed)?;
        let checked = checked_path(&input.journal);
        if fs::read_to_string(&checked).is_ok_and(|known| known == digest) {
            return Ok(Some(Arc::new(followed)));
        }
        match followed.check(input) {
            Ok(true) => {}
            Ok(false) => return Err(RunOutcome::Paused),
            Err(problem) => return Err(RunOutcome::Failed(problem)),
        }
        let kept = fs::write(&checked, &digest)
            .and_then(|()| File::open(&checked)?.sync_all())
            .map_err(|cause| RunOutcome::Failed(failed("write", &checked, &cause)));
        kept.map(|()| Some(Arc::new(followed)))
    }

    fn open(input: &RunInput, digest: &str) -> Result<Self, Problem> {
        let path = plan_path(&input.journal);
        if !path.exists() {
            let title = "the plan that is to be followed is not here";
            return Err(Problem::new(ProblemCode::PlanMissing, title)
                .hint("submit it with `penstock transfer submit --plan FILE`"));
        }
        let (index, head) = Index::build(&path, digest, input.fence.epoch())?;
        if !decides_alike(&head.options, &input.options) {
            let title = "the options are not those that the plan was made with";
            return Err(Problem::new(ProblemCode::PlanOptions, title));
        }
        if head.root != input.root {
            let title = format!(
                "the data set would become `{}` at the target, but the plan says `{}`",
                input.root, head.root
            );
            return Err(stale(title));
        }
        let store = input.peer().store_id(&input.store)?.map(|id| format!("{id:016x}"));
        if head.store.is_some() && head.store != store {
            return Err(stale(format!("store `{}` is not the store of the plan", input.store)));
        }
        Ok(Self { index })
    }

    /// Compares all of the plan with the world; `false` if it was asked to stop meanwhile.
    fn check(&self, input: &mut RunInput) -> Result<bool, Problem> {
        let store = input.peer().store_id(&input.store)?;
        let files = RunFiles::own(&input.journal, input.fence.epoch());
        let mut failures = Failures::create(files.failures)?;
        let mut looker = Looker::new(input, store)?;
        let meet = |side, item: &PlanItem, failures: &mut Failures| {
            let Some((record, planned)) = self.index.find(side, &item.path.0)? else {
                return Ok(());
            };
            self.index.meet(record)?;
            planned.check(item).map_or_else(|why| failures.add(&item.path, why), Ok)
        };
        let looked = looker.entries(&mut |item| meet(Side::Source, &item, &mut failures))?;
        let Some(scan) = looked else { return Ok(false) };
        if looker.spec.update.delete {
            looker.surplus(&scan, &mut |item| {
                meet(Side::Target, &item, &mut failures).map(|()| false)
            })?;
        }
        self.index.unmet(&mut |item| {
            let why = match Side::of(&item) {
                Side::Source => "vanished from the source since the plan was made",
                Side::Target => "vanished from the target since the plan was made",
            };
            failures.add(&item.path, why)
        })?;
        failures.end(looker.input).map(|()| true)
    }

    /// Compares a page with the target as a run does, except entries that the plan does not name:
    /// those stay as they are.
    ///
    /// # Errors
    /// Code [`ProblemCode::PlanStale`]; the error of the peer.
    pub(crate) fn compare(
        &self,
        peer: &dyn TargetPeer,
        spec: &TaskSpec,
        page: &Page,
    ) -> Result<Comparison, Problem> {
        let mut unplanned = Vec::new();
        for (index, item) in peer.look(spec, page)?.iter().enumerate() {
            match self.index.find(Side::Source, &item.path.0)? {
                Some((_, planned)) => planned.check(item).map_err(|why| changed(item, why))?,
                None => unplanned.push(index as u32),
            }
        }
        let unplanned: EntrySet = unplanned.into_iter().collect();
        peer.compare(spec, page, &unplanned)
    }

    /// Returns whether the plan deletes an item that exists only at the target.
    ///
    /// # Errors
    /// Code [`ProblemCode::PlanStale`].
    pub(crate) fn deletes(&self, item: &PlanItem) -> Result<bool, Problem> {
        let Some((_, planned)) = self.index.find(Side::Target, &item.path.0)? else {
            return Ok(false);
        };
        planned.check(item).map_err(|why| changed(item, why)).map(|()| true)
    }
}

fn changed(item: &PlanItem, why: &str) -> Problem {
    stale(format!("`{}` {why}: the transfer stops", item.path))
}

/// Returns whether two transfers make the same decision for every item.
fn decides_alike(planned: &TransferOptions, options: &TransferOptions) -> bool {
    planned.files_from == options.files_from
        && planned.update == options.update
        && planned.select == options.select
        && planned.preserve == options.preserve
}

/// Items that differ from a plan.
struct Failures {
    path: PathBuf,
    out: BufWriter<File>,
    count: u64,
    first: Vec<FailedItem>,
}

impl Failures {
    fn create(path: PathBuf) -> Result<Self, Problem> {
        let make = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create(&path)
        };
        let file = make().map_err(|cause: io::Error| failed("write", &path, &cause))?;
        Ok(Self { path, out: BufWriter::new(file), count: 0, first: Vec::new() })
    }

    fn add(&mut self, path: &PathText, why: &str) -> Result<(), Problem> {
        let (code, message) = ("planned".to_owned(), why.to_owned());
        let item = FailedItem { path: path.clone(), code, message };
        let line = serde_json::to_string(&item).unwrap_or_default();
        writeln!(self.out, "{line}").map_err(|cause| failed("write", &self.path, &cause))?;
        self.count += 1;
        if self.first.len() < FAILURES_SHOWN {
            self.first.push(item);
        }
        Ok(())
    }

    fn end(mut self, input: &RunInput) -> Result<(), Problem> {
        self.out.flush().map_err(|cause| failed("write", &self.path, &cause))?;
        let Some(first) = self.first.first() else {
            return fs::remove_file(&self.path)
                .map_err(|cause| failed("remove", &self.path, &cause));
        };
        let title = match self.count {
            1 => format!("nothing was done: `{}` {}", first.path, first.message),
            count => format!("nothing was done: {count} items differ from the plan"),
        };
        input.control.update(|view| {
            view.progress.errors = self.count;
            view.failures = self.first;
        });
        Err(stale(title))
    }
}
