//! Writers of an earlier controller: the data that they may still write, or may have written.
//!
//! A writer that received work from an earlier controller may write until its grant is over (B3).
//! Until then, or until it joins, no extent of a file with several writers is handed out, and no
//! other peer checks one. Packs are handed out, as each writer has its own.
//!
//! A new controller begins with the committed logs. Peers that continue the transfer report data
//! that they wrote and no commit has recorded (A7). It is put into the logs as if it had always
//! been there, and checked again like everything written before a restart. The writer itself checks
//! it without doubt, if its circumstances are the same.
//!
//! The names of packs contain their writer. An extent is different: another peer may have received
//! it since (B3). An extent is therefore adopted only if this controller has never handed it out;
//! the previous one had it from the writer itself. For a moment no work at all is handed out, so
//! that no other peer receives a reported extent.

use std::collections::{BTreeMap, BTreeSet};

use penstock_proto::id::WriterId;
use penstock_proto::journal::Incarnation;
use penstock_proto::task::Report;
use penstock_proto::units::Instant;

/// The writers of earlier controllers of a transfer.
#[derive(Debug, Default)]
pub(super) struct EarlierWriters {
    /// Writers that may write work of an earlier controller, and the time until which they may.
    writing: BTreeSet<WriterId>,
    writing_until: Instant,
    /// Writers that may have written data that no log knows, and the time until which the machine
    /// waits for their reports.
    reporting: BTreeSet<WriterId>,
    reporting_until: Instant,
    /// Reports of these on pages that are not open yet.
    early: BTreeMap<u32, Vec<(Incarnation, Report)>>,
    /// The previous controller's own peer, which may have been stopped in the middle of a write.
    stopped: Option<WriterId>,
}

impl EarlierWriters {
    /// Waits for writers that may write until `until`.
    pub(super) fn wait_for_writing(&mut self, writers: BTreeSet<WriterId>, until: Instant) {
        (self.writing, self.writing_until) = (writers, until);
    }

    /// Waits for reports of writers until `until`.
    pub(super) fn wait_for_reports(&mut self, writers: BTreeSet<WriterId>, until: Instant) {
        (self.reporting, self.reporting_until) = (writers, until);
    }

    /// Handles the previous controller's own peer, which did not end in order.
    pub(super) fn handle_stopped(&mut self, writer: WriterId) {
        self.stopped = Some(writer);
    }

    /// Returns the previous controller's own peer, if it did not end in order.
    pub(super) fn stopped(&self) -> Option<WriterId> {
        self.stopped
    }

    /// Handles a writer that joins, which ends its earlier work and the wait for it. Returns
    /// whether there was a wait.
    pub(super) fn handle_joined(&mut self, writer: WriterId) -> bool {
        let (wrote, reports) = (self.writing.remove(&writer), self.reporting.remove(&writer));
        wrote || reports
    }

    /// Returns whether a writer may write work of an earlier controller.
    pub(super) fn may_write(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Returns the time until which a writer may write work of an earlier controller; `None` if
    /// none may.
    pub(super) fn writing_until(&self) -> Option<Instant> {
        self.may_write().then_some(self.writing_until)
    }

    /// Returns the writers that have not joined in the time for which they might write; empty
    /// before that time is over, and after they were returned.
    pub(super) fn poll_silent(&mut self, now: Instant) -> BTreeSet<WriterId> {
        match now >= self.writing_until {
            true => std::mem::take(&mut self.writing),
            false => BTreeSet::new(),
        }
    }

    /// Returns whether a writer may still report its work.
    pub(super) fn may_report(&self) -> bool {
        !self.reporting.is_empty()
    }

    /// Ends the wait for reports when its time is over. Returns whether it ends now.
    pub(super) fn poll_reports_over(&mut self, now: Instant) -> bool {
        let is_over = self.may_report() && now >= self.reporting_until;
        if is_over {
            self.reporting.clear();
        }
        is_over
    }

    /// Keeps a report on a page that is not open yet.
    pub(super) fn keep_early(&mut self, page: u32, incarnation: Incarnation, report: Report) {
        self.early.entry(page).or_default().push((incarnation, report));
    }

    /// Takes the reports on a page that is opened.
    pub(super) fn take_early(&mut self, page: u32) -> Vec<(Incarnation, Report)> {
        self.early.remove(&page).unwrap_or_default()
    }

    /// Asserts that there is no wait for a writer that has joined (B3).
    pub(super) fn check(&self, joined: &BTreeSet<WriterId>) {
        assert!(joined.is_disjoint(&self.writing), "a writer that has joined is waited for (B3)");
        assert!(joined.is_disjoint(&self.reporting), "a writer that has joined is to report");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WriterId = WriterId(1);
    const B: WriterId = WriterId(2);

    /// Promise: no peer gets work that an earlier writer may write before that writer has joined or
    /// its time is over. Silent writers are named once (B1, B3).
    #[test]
    fn b3_an_earlier_writer_is_waited_for_until_it_joins_or_its_time_is_over() {
        let mut earlier = EarlierWriters::default();
        assert!(!earlier.may_write() && earlier.writing_until().is_none());
        earlier.wait_for_writing(BTreeSet::from([A, B]), Instant(100));
        assert_eq!(earlier.writing_until(), Some(Instant(100)));
        assert!(earlier.handle_joined(A) && !earlier.handle_joined(A));
        earlier.check(&BTreeSet::from([A]));
        assert!(earlier.poll_silent(Instant(99)).is_empty() && earlier.may_write());
        assert_eq!(earlier.poll_silent(Instant(100)), BTreeSet::from([B]));
        assert!(!earlier.may_write() && earlier.poll_silent(Instant(101)).is_empty());
    }

    /// Promise: the wait for reports ends by itself, and a report that comes before its page is
    /// opened is not lost (A7).
    #[test]
    fn a7_reports_are_waited_for_a_moment_and_kept() {
        let mut earlier = EarlierWriters::default();
        assert!(!earlier.poll_reports_over(Instant(1000)));
        earlier.wait_for_reports(BTreeSet::from([A]), Instant(3));
        assert!(earlier.may_report() && !earlier.poll_reports_over(Instant(2)));
        assert!(earlier.poll_reports_over(Instant(3)) && !earlier.may_report());
        assert!(!earlier.poll_reports_over(Instant(4)), "it ends once");
        earlier.keep_early(7, Incarnation::default(), Report::Synced { epoch: 1 });
        assert_eq!(earlier.take_early(6).len(), 0);
        assert_eq!((earlier.take_early(7).len(), earlier.take_early(7).len()), (1, 0));
    }
}
