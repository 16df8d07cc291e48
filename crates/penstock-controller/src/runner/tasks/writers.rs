//! The record of writers for later runs and controllers (B3).
//!
//! `penstock_engine::writers` says which writers hold no grant. It is written down before a writer
//! gets work, and with the files that it may write late when it gets none any more.

use std::collections::BTreeSet;
use std::time::Duration;

use penstock_api::problem::Problem;
use penstock_engine::lease::lapse_after;
use penstock_engine::writers::{PresentPeer, WriterRegistry};
use penstock_proto::journal::{LateFile, WriterLine, WriterStanding};

use super::task_set::{Met, TaskParts, TaskSet, seen};
use crate::runner::journal::WriterRecord;

/// Time for which pieces that peers may have written for an earlier controller are not handed out.
/// Pieces that they do not report in that time are fetched again. Peers join within a fraction of a
/// second.
const ADOPTION_WAIT: Duration = Duration::from_secs(3);
/// The limit that a run shows while it waits for writers of an earlier run.
const FORMER: &str = "the grant of a peer that took part before";

/// Determines what peers may still do, or have done, for the previous controller, and records that
/// this controller leads now.
pub(super) fn follow(
    parts: &TaskParts,
    record: &mut WriterRecord,
    grant: Duration,
) -> Result<WriterRegistry<Met>, Problem> {
    let now = parts.peers.now();
    let known = parts.epochs.keys().copied().collect();
    let present: Vec<PresentPeer> = parts.peers.present().iter().map(seen).collect();
    let (registry, followed) =
        WriterRegistry::follow(record.standing(), parts.spec.fence.epoch(), &known, &present);
    {
        let mut machine = parts.shared.machine();
        // The last controller may have handed them extents that they still write (B3).
        machine.wait_for_writers(followed.awaited, now.plus(lapse_after(grant)));
        machine.wait_for_reports(followed.reporting, now.plus(ADOPTION_WAIT));
        followed.stopped.into_iter().for_each(|writer| machine.note_last_own(writer));
    }
    parts.spec.fence.check()?;
    record.add(line_of(registry.record().clone()))?;
    Ok(registry)
}

fn line_of(standing: WriterStanding) -> WriterLine {
    WriterLine { standing: Some(standing), ..WriterLine::default() }
}

impl TaskSet {
    /// Writes the standing of the writers, because one is about to get work.
    pub(super) fn write_standing(&mut self) -> Result<(), Problem> {
        self.parts.spec.fence.check()?;
        self.record.add(line_of(self.registry.record().clone()))
    }

    /// Records the writers that hold no grant any more, if there are new ones, with the files that
    /// these may write late. Later runs do not wait for such writers, and nothing else would record
    /// these files.
    ///
    /// # Errors
    /// The journal store cannot be written, or this controller is deposed.
    pub(crate) fn keep_settled(&mut self) -> Result<(), Problem> {
        if self.grant().is_none() {
            return Ok(());
        }
        let Some(standing) = self.registry.take_record().cloned() else { return Ok(()) };
        let late = self.parts.shared.machine().late_files().collect();
        self.parts.spec.fence.check()?;
        self.record.add(WriterLine { late, ..line_of(standing) })
    }

    /// Records the files that must be checked again at the end.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(crate) fn keep_late(&mut self) -> Result<(), Problem> {
        let late = self.parts.shared.machine().late_files().collect();
        self.record.add(WriterLine { late, ..WriterLine::default() })
    }

    /// Returns the files that must be checked again at the end.
    pub(crate) fn late(&self) -> &BTreeSet<LateFile> {
        self.record.late()
    }

    /// Ends the wait for writers of an earlier run, when the machine has ended it. The machine then
    /// knows the files that these may write late.
    pub(super) fn end_wait_for_writers(&mut self) {
        let waits = self.registry.awaited().next().is_some();
        if waits && self.parts.shared.machine().waits_until().is_none() {
            self.registry.handle_wait_over();
        }
    }

    /// Returns the limit of the run, and what it waits for, if that is a writer of an earlier run.
    pub(super) fn waits_for_former(&self) -> Option<(String, String)> {
        let (until, held) = self.parts.shared.machine().waits_until()?;
        let seconds = until.since(self.parts.peers.now()).as_secs();
        let waiting = format!(
            "a peer that took part before has not been heard of and may still write to large \
             files: they go on in {seconds} s, or when it has joined"
        );
        held.then(|| (FORMER.to_owned(), waiting))
    }
}
