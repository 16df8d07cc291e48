//! The end of a run whose data is all durable: proof, late writes, the source of a move, cleanup,
//! and the lists.

use penstock_api::heads::LedgerHead;
use penstock_api::problem::Problem;
use penstock_api::scan::ScanSummary;

use super::deletion::Deleting;
use super::late_writes;
use super::outcome::{Tally, write_lists};
use super::readback::{ProofTotals, Proved, read_back, write_checksums};
use super::receipt_facts::keep_facts;
use super::source_removal::remove_source;
use crate::runner::context::RunContext;
use crate::runner::earlier;
use crate::runner::input::RunOutcome;
use crate::runner::state::RunState;
use crate::runner::temp_cleanup::clean_left_overs;

/// The result of finishing.
pub(crate) enum Finished {
    /// The run has ended.
    Ended(RunOutcome),
    /// Some data is missing again: the run must begin another round.
    Again,
    /// A user wishes to stop.
    Stopped,
}

/// Finishes a run: proves, removes at the source, cleans up, writes the lists. Blocks for as long
/// as all of that takes, and looks at the wish of a user meanwhile.
///
/// # Errors
/// A peer, the source or the ledger fails; this controller is deposed.
pub(crate) fn finish(
    context: &RunContext,
    state: &mut RunState,
    deleting: &Deleting,
) -> Result<Finished, Problem> {
    state.tasks.stop(false);
    state.commit(context)?;
    let proved = match read_back(context, state)? {
        Proved::All(totals) => totals,
        Proved::Again => return Ok(Finished::Again),
        Proved::Stopped => return Ok(Finished::Stopped),
    };
    context.check_fence()?;
    // Before any removal at the source, each item is looked for as it was made here (C6).
    late_writes::mend(context, &mut state.tasks)?;
    context.check_fence()?;
    // If a guard has refused to delete, no item is removed at the source either.
    let removes = context.options.remove_source && deleting.refused().is_none();
    if removes && !remove_source(context, state)? {
        return Ok(Finished::Stopped);
    }
    context.check_fence()?;
    clean_left_overs(context, &state.tasks, state.scan.pages())?;
    let tally = report(context, state, deleting, &proved)?;
    let refused = deleting.refused().cloned();
    Ok(Finished::Ended(match refused.or_else(|| tally.problem()) {
        Some(problem) => RunOutcome::Failed(problem),
        None => RunOutcome::Done,
    }))
}

/// Writes the lists and the facts of a receipt, and shows the last figures. The run counts as ended
/// in its journal then.
fn report(
    context: &RunContext,
    state: &mut RunState,
    deleting: &Deleting,
    proved: &ProofTotals,
) -> Result<Tally, Problem> {
    let head = context.heads.load(context.id)?;
    let scan = state.scan.summary().cloned().unwrap_or_default();
    let tally = write_all_lists(context, &head, &scan, deleting)?;
    state.progress.not_listed = tally.not_listed;
    state.progress.is_whole = true;
    state.progress.show_failures(&context.shared);
    state.show(context);
    let proof = &context.options.proof;
    if proof.receipt {
        keep_facts(context, (&mut state.tasks, proved), &head, &scan)?;
    }
    context.files().remove_others(&proof.also_digests);
    late_writes::report_silent(context, &state.tasks);
    earlier::note_end(&context.journal, context.spec.fence.epoch())?;
    Ok(tally)
}

fn write_all_lists(
    context: &RunContext,
    head: &LedgerHead,
    scan: &ScanSummary,
    deleting: &Deleting,
) -> Result<Tally, Problem> {
    let (shared, options, root) = (&context.shared, &context.options, &context.spec.root);
    let tally = write_lists(shared, head, scan, root, options.digest_list, deleting.undeleted())?;
    for kind in &options.proof.also_digests {
        write_checksums(shared, &head.pages, root, &options.proof, *kind)?;
    }
    Ok(tally)
}
