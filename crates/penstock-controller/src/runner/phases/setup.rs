//! The setup of a run: the task that its peers receive, and their answers about the store.

use penstock_api::heads::{HeadCommit, LedgerHead};
use penstock_api::peers::Member;
use penstock_api::problem::Problem;
use penstock_api::task::{TaskSpec, TaskStart};
use penstock_api::transfer::TransferOptions;
use penstock_engine::transfer::{PageStanding, TransferMachine, WindowLimits};
use penstock_proto::id::TransferId;

use crate::runner::any_peer::{in_order, nobody};
use crate::runner::input::RunInput;
use crate::runner::journal::began;
use crate::runner::tasks::spec_for;

/// Returns the task for the peers of a run, the first peer that can look at the store, and the
/// state of the store that this peer reports.
pub(crate) fn prepared(
    input: &RunInput,
    head: &LedgerHead,
) -> Result<(TaskSpec, Member, TaskStart), Problem> {
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
    for member in in_order(&*input.peers) {
        let told = spec_for(spec, &head.epochs, &member, None);
        match member.peer.prepare(&told) {
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

/// The machine of a run, with the pages that are complete.
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
