//! Which writers may still write what they were given, by this controller or an earlier one (B3).
//!
//! A controller that begins does not know what its predecessor handed out last, and waits for a
//! grant of each writer that the ledger knows; or, what is the same to it, of an earlier attempt of
//! its own. But for those that are noted to write nothing any more ([`Led::settled`]). A writer is
//! taken off that note, durably, before it gets work, and put on it when it has ended in order,
//! when its process is known to be gone, or when its grant is over.

use std::collections::BTreeSet;
use std::time::Duration;

use penstock_api::peers::Member;
use penstock_api::problem::Problem;
use penstock_engine::grant::lapse_after;
use penstock_proto::id::WriterId;

use super::super::own::{self, Led};
use super::{ADOPTION_WAIT, TaskParts, Tasks};

/// What limits a run that waits for writers of an earlier one.
const FORMER: &str = "the grant of a peer that took part before";

/// Who writes nothing any more, and what is noted of that.
#[derive(Debug, Default)]
pub(super) struct Settled {
    writers: BTreeSet<WriterId>,
    /// As it is in the journal.
    noted: Led,
    /// Who is waited for.
    former: BTreeSet<WriterId>,
    /// Epoch of the controller that led this transfer before.
    follows: u64,
}

impl Settled {
    /// Sees to what peers may still do, or have done, for the controller before, and notes that
    /// this one leads now.
    pub(super) fn follow(parts: &TaskParts, grant: Duration) -> Result<Self, Problem> {
        let now = parts.peers.now();
        let led = own::last(&parts.journal)?;
        let members = parts.peers.present();
        let present: BTreeSet<WriterId> = members.iter().map(|member| member.writer).collect();
        // What it wrote for itself ended with its tenure; if it did not end in order, but for a
        // call that it was stopped in (B1). Not that of this host: its process is this, or gone.
        let is_own = |writer| members.iter().any(|it| it.is_own && it.writer == writer);
        let ended = |writer: &WriterId| led.settled.contains(writer) || is_own(*writer);
        let stopped = led.writer.filter(|writer| !ended(writer));
        let mut writers = led.settled;
        writers.extend(led.writer);
        // And what a site of one peer wrote, before it had others, with its process.
        writers.insert(WriterId::SOLE);
        let known = parts.epochs.keys().copied();
        let former: BTreeSet<_> = known.clone().filter(|it| !writers.contains(it)).collect();
        {
            let mut machine = parts.shared.machine();
            // It may have given them extents that they still write (B3).
            machine.wait_for_writers(former.iter().copied(), now.plus(lapse_after(grant)));
            let there = known.filter(|writer| present.contains(writer));
            machine.wait_for_reports(there, now.plus(ADOPTION_WAIT));
            stopped.into_iter().for_each(|writer| machine.note_last_own(writer));
        }
        // Those that are there are about to join: one note for all of them. Of one that may write
        // late it is noted after the files to which it may: see `keep_settled`.
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

    /// A peer is about to get work; what it did before it joined is over.
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

    /// A writer has ended, or may write no more.
    pub(super) fn handle_over(&mut self, writer: WriterId) {
        self.writers.insert(writer);
    }

    /// Looks whether writers of an earlier run are still waited for.
    pub(super) fn look(&mut self, parts: &TaskParts) {
        if !self.former.is_empty() && parts.shared.machine().waits_until().is_none() {
            self.writers.append(&mut self.former);
        }
    }
}

impl Tasks {
    /// Whether it is not noted yet that somebody writes nothing any more.
    pub(in crate::runner) fn has_news_of_settled(&self) -> bool {
        self.grant().is_some() && self.settled.writers != self.settled.noted.settled
    }

    /// Notes it.
    pub(in crate::runner) fn keep_settled(&mut self) -> Result<(), Problem> {
        self.settled.noted.settled.clone_from(&self.settled.writers);
        self.settled.write(&self.parts)
    }

    /// What limits the run, and what it waits for, if that is a writer of an earlier one.
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
