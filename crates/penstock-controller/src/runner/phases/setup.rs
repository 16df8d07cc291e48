//! The setup of a round: reads the ledger, checks the store, and starts tasks and threads.

use std::fs;
use std::sync::Arc;

use penstock_api::heads::{HeadCommit, LedgerHead};
use penstock_api::peers::Member;
use penstock_api::problem::Problem;
use penstock_api::task::{TaskSpec, TaskStart};
use penstock_api::transfer::{Progress, TransferOptions};
use penstock_engine::transfer::{PageStanding, TransferMachine, WindowLimits};
use penstock_proto::id::TransferId;

use super::content_compare;
use super::deletion::clearing;
use super::moving::Moving;
use crate::runner::any_peer::{in_order, nobody};
use crate::runner::context::RunContext;
use crate::runner::earlier;
use crate::runner::input::{FAILURES_SHOWN, RunInput};
use crate::runner::journal::{Journal, RunFiles, began};
use crate::runner::pages::puller::{Puller, Treatment};
use crate::runner::pages::scan_end::ScanEnd;
use crate::runner::pages::shared_source::SharedSource;
use crate::runner::pages::unlisted;
use crate::runner::plan::Followed;
use crate::runner::progress::RunProgress;
use crate::runner::shared::RunShared;
use crate::runner::state::RunState;
use crate::runner::tasks::{TaskParts, TaskSet, TaskSpecs};
use crate::runner::temp_cleanup::touched_pages::in_work;

/// The inputs of one round of a run, besides those of the run.
pub(crate) struct Round {
    pub(crate) number: u32,
    /// The source of all rounds.
    pub(crate) source: SharedSource,
    /// Progress of earlier rounds.
    pub(crate) carried: Progress,
    /// The plan that is followed, if one is.
    pub(crate) followed: Option<Arc<Followed>>,
}

/// The result of a setup.
pub(crate) struct Prepared {
    pub(crate) context: Arc<RunContext>,
    pub(crate) state: RunState,
    pub(crate) moving: Moving,
}

/// Loads the ledger, asks a peer about the store, opens the pages of an earlier run, and starts the
/// first task and the puller. Blocks for as long as these take.
///
/// # Errors
/// The ledger cannot be read; no peer can take part; a thread cannot be started. No task is left at
/// work then.
pub(crate) fn set_up(input: &RunInput, round: Round) -> Result<Prepared, Problem> {
    let earlier = earlier::begin(input)?;
    let head = unlisted::checked(input.heads.load(input.id)?, &input.journal)?;
    // The facts of an earlier run do not hold for this one.
    let epoch = input.fence.epoch();
    let _ = fs::remove_file(RunFiles::own(&input.journal, epoch).facts);
    let journal = Journal::open(&input.journal, epoch, &head.pages)?;
    let in_work = in_work(&*input.peers, &journal, &head)?;
    let (spec, first, start) = prepared(input, &head)?;
    let mut machine = machine_of(&input.options, &head, spec.doubt, input.id);
    if spec.update.delete {
        machine.wait_for_deletion();
    }
    let compares = spec.update.compares() || round.followed.is_some();
    let shared = Arc::new(RunShared::new(machine, journal, compares || earlier.is_some()));
    input.control.update(|view| view.durable_by.clone_from(&start.durable_by));
    input.control.map_maker().begin(&shared, &input.root);
    let (moving, found) = Moving::resume(&shared, head.pages, spec.doubt)?;
    let followed = round.followed.as_ref();
    let compare =
        content_compare::compare_of(input, &spec, &shared, round.source.clone(), followed);
    let compare = earlier::carrying(earlier.as_ref(), input.peer(), &spec, compares, compare);
    let parts = TaskParts::of(input, &shared, &spec, head.epochs, in_work);
    let context = Arc::new(RunContext {
        id: input.id,
        options: input.options.clone(),
        spec,
        peer: input.peer(),
        heads: Arc::clone(&input.heads),
        control: Arc::clone(&input.control),
        shared,
        compare,
        earlier,
        followed: round.followed,
        journal: input.journal.clone(),
        source: round.source,
        round: round.number,
    });
    let mut tasks = TaskSet::begin(parts, first, start)?;
    let puller = start_puller(&context).inspect_err(|_| tasks.stop(false))?;
    let mut progress = RunProgress::new(round.carried, found);
    if let Some(scan) = &head.scan {
        context.shared.machine().handle_scan_end(scan.pages);
        progress.add_failures(unlisted::first(Some(scan), &input.journal, FAILURES_SHOWN));
    }
    let state = RunState::new((tasks, puller), ScanEnd::committed(head.scan), progress);
    Ok(Prepared { context, state, moving })
}

fn start_puller(context: &Arc<RunContext>) -> Result<Puller, Problem> {
    let treatment = Treatment { compare: Arc::clone(&context.compare), clear: clearing(context) };
    let (source, shared) = (Box::new(context.source.clone()), Arc::clone(&context.shared));
    Puller::start(source, shared, treatment)
}

/// Returns the task for the peers of a run, the first peer that can look at the store, and the
/// state of the store that this peer reports.
fn prepared(input: &RunInput, head: &LedgerHead) -> Result<(TaskSpec, Member, TaskStart), Problem> {
    let mut spec = input.task_spec(head);
    if spec.update.backup_dir.is_some() {
        spec.began = began(&input.journal, input.fence.epoch())?;
    }
    let (first, start) = prepare(input, head, &mut spec)?;
    Ok((spec, first, start))
}

/// Asks the first peer that can look at the store, before any data is written, and records its
/// answer about the store.
fn prepare(
    input: &RunInput,
    head: &LedgerHead,
    spec: &mut TaskSpec,
) -> Result<(Member, TaskStart), Problem> {
    if head.store == 0 {
        spec.store_id = input.peers.store_id().unwrap_or(0);
    }
    let (member, start) = first_prepared(input, head, spec)?;
    if head.store == 0 {
        let (store, mounts) = (Some(start.store), Some(start.mounts.clone()));
        let commit = HeadCommit { store, mounts, ..HeadCommit::default() };
        input.heads.commit(input.id, &commit)?;
    }
    // All earlier mounts are present, or the peer would have reported that. A newer mount hides
    // data written beneath it. Until all of it is found or written again, the ledger keeps the
    // earlier mounts.
    let hidden = head.store != 0 && start.mounts != head.mounts;
    spec.doubt = is_older(head, spec, &member, &start)? || hidden;
    if spec.doubt {
        tracing::warn!(
            transfer = %input.id, hidden,
            "the store is older than the ledger, or more is mounted in it: everything is checked \
             again"
        );
    }
    spec.mounts.clone_from(&start.mounts);
    spec.store_id = start.store;
    Ok((member, start))
}

fn first_prepared(
    input: &RunInput,
    head: &LedgerHead,
    spec: &TaskSpec,
) -> Result<(Member, TaskStart), Problem> {
    let mut said = None;
    // No peer writes yet, so no peer needs a grant.
    let specs = TaskSpecs::new(spec.clone(), head.epochs.clone(), None);
    for member in in_order(&*input.peers) {
        match member.peer.prepare(&specs.of(&member)) {
            Ok(start) => return Ok((member, start)),
            Err(problem) => {
                tracing::info!(peer = member.name, %problem, "a peer cannot take part");
                said.get_or_insert(problem);
            }
        }
    }
    Err(said.unwrap_or_else(nobody))
}

/// Returns whether the store is older than the ledger: behind the last sync of any writer (A5).
fn is_older(
    head: &LedgerHead,
    spec: &TaskSpec,
    member: &Member,
    start: &TaskStart,
) -> Result<bool, Problem> {
    for (writer, epoch) in &head.epochs {
        let marker = if *writer == member.writer {
            start.marker
        } else {
            let told = TaskSpec { writer: *writer, ..spec.clone() };
            member.peer.prepare(&told)?.marker
        };
        if marker < *epoch {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the machine of a run, with the pages that are complete.
pub(crate) fn machine_of(
    options: &TransferOptions,
    head: &LedgerHead,
    doubt_all: bool,
    id: TransferId,
) -> TransferMachine {
    let complete = head.pages.iter().filter(|page| page.complete && !doubt_all).map(|page| {
        let standing = PageStanding {
            digest: page.digest,
            log_bytes: page.log_bytes,
            files: page.files,
            bytes: page.bytes,
            failures: page.failures,
            kept: page.kept,
            kept_bytes: page.kept_bytes,
            asks: page.asks,
        };
        (page.page, standing)
    });
    let [a, b, c, d, e, f, g, h, ..] = id.0;
    let seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let limits = WindowLimits::default();
    let mut machine = TransferMachine::new(options.digest, complete, limits, seed);
    machine.wait_for_answers();
    machine
}
