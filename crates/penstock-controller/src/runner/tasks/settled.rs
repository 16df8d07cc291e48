//! Writers that may still write work of this controller or an earlier one (B3).
//!
//! A new controller does not know which grants its predecessor issued. It waits one grant period
//! for every writer in the ledger, except writers recorded as writing no more ([`Led::settled`]).
//! The same holds for an earlier attempt of its own. A writer is removed from that record, durably,
//! before it gets work. It is added when it has ended in order, when its process is known to have
//! ended, or when its grant is over.

use std::collections::BTreeSet;
use std::time::Duration;

use penstock_api::peers::Member;
use penstock_api::problem::Problem;
use penstock_engine::grant::lapse_after;
use penstock_proto::id::WriterId;

use super::{ADOPTION_WAIT, TaskParts, Tasks};
use crate::runner::journal::leadership_record::{self as own, LeadershipRecord as Led};

/// The limit that a run shows while it waits for writers of an earlier run.
const FORMER: &str = "the grant of a peer that took part before";

/// Writers that write no more, and the record of them.
#[derive(Debug, Default)]
pub(super) struct Settled {
    writers: BTreeSet<WriterId>,
    /// The record in the journal.
    noted: Led,
    /// Writers of an earlier run that the run waits for.
    former: BTreeSet<WriterId>,
    /// Epoch of the controller that led this transfer before.
    follows: u64,
}

impl Settled {
    /// Determines what peers may still do, or have done, for the previous controller, and records
    /// that this controller leads now.
    pub(super) fn follow(parts: &TaskParts, grant: Duration) -> Result<Self, Problem> {
        let now = parts.peers.now();
        let led = own::last(&parts.journal)?;
        let members = parts.peers.present();
        let present: BTreeSet<WriterId> = members.iter().map(|member| member.writer).collect();
        // The own peer of the last controller stopped writing with the tenure. If it did not end in
        // order, it may still be in a call (B1). That does not apply to the peer of this host: its
        // process is this one, or has ended.
        let is_own = |writer| members.iter().any(|it| it.is_own && it.writer == writer);
        let ended = |writer: &WriterId| led.settled.contains(writer) || is_own(*writer);
        let stopped = led.writer.filter(|writer| !ended(writer));
        let mut writers = led.settled;
        writers.extend(led.writer);
        // Writes of a site of one peer, before it had others, ended with its process.
        writers.insert(WriterId::SOLE);
        let known = parts.epochs.keys().copied();
        let former: BTreeSet<_> = known.clone().filter(|it| !writers.contains(it)).collect();
        {
            let mut machine = parts.shared.machine();
            // The last controller may have handed them extents that they still write (B3).
            machine.wait_for_writers(former.iter().copied(), now.plus(lapse_after(grant)));
            let there = known.filter(|writer| present.contains(writer));
            machine.wait_for_reports(there, now.plus(ADOPTION_WAIT));
            stopped.into_iter().for_each(|writer| machine.note_last_own(writer));
        }
        // Peers that are present are about to join: one record covers all of them. A writer that
        // may write late is recorded after the files that it may write: see `keep_settled`.
        let known = |writer: &WriterId| !present.contains(writer) && Some(*writer) != stopped;
        let settled = writers.iter().copied().filter(known).collect();
        let noted = Led { writer: None, epoch: parts.spec.fence.epoch(), settled };
        let settled = Self { writers, noted, former, follows: led.epoch };
        settled.write(parts)?;
        Ok(settled)
    }

    fn write(&self, parts: &TaskParts) -> Result<(), Problem> {
        parts.spec.fence.check()?;
        own::note(&parts.journal, &self.noted)
    }

    /// Epoch of the controller that led this transfer before.
    pub(super) fn follows(&self) -> u64 {
        self.follows
    }

    /// Removes a peer that is about to get work; its earlier work is over.
    pub(super) fn handle_joined(
        &mut self,
        parts: &TaskParts,
        member: &Member,
    ) -> Result<(), Problem> {
        self.former.remove(&member.writer);
        self.writers.remove(&member.writer);
        let mut news = self.noted.settled.remove(&member.writer);
        if member.is_own {
            news |= self.noted.writer.replace(member.writer) != Some(member.writer);
        }
        if news { self.write(parts) } else { Ok(()) }
    }

    /// Records that a writer has ended, or may write no more.
    pub(super) fn handle_over(&mut self, writer: WriterId) {
        self.writers.insert(writer);
    }

    /// Checks whether writers of an earlier run are still waited for.
    pub(super) fn look(&mut self, parts: &TaskParts) {
        if !self.former.is_empty() && parts.shared.machine().waits_until().is_none() {
            self.writers.append(&mut self.former);
        }
    }
}

impl Tasks {
    /// Returns whether a writer that writes no more is not in the record yet.
    pub(crate) fn has_news_of_settled(&self) -> bool {
        self.grant().is_some() && self.settled.writers != self.settled.noted.settled
    }

    /// Records the writers that write no more.
    pub(crate) fn keep_settled(&mut self) -> Result<(), Problem> {
        self.settled.noted.settled.clone_from(&self.settled.writers);
        self.settled.write(&self.parts)
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
