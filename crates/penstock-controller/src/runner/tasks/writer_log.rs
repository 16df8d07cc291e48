//! The record of a run's writers for later runs and controllers (B1, B3).
//!
//! `penstock_engine::writers` decides which writers hold no grant. The record has them too, but
//! never too early: it leaves a writer out before that gets work, and names it again only together
//! with the files that it may write late.

use std::collections::BTreeSet;
use std::path::Path;

use penstock_api::fence::Fence;
use penstock_api::problem::Problem;
use penstock_engine::writers::{Followed, PresentPeer, WriterRegistry};
use penstock_proto::id::WriterId;
use penstock_proto::journal::{LateFile, WriterLine, WriterStanding};

use super::peer_failures::PeerFailure;
use crate::runner::journal::WriterRecord;

/// The record of writers, as the run of one controller keeps it.
#[derive(Debug)]
pub(super) struct WriterLog {
    record: WriterRecord,
    /// The right of this controller to settle writers.
    fence: Fence,
    /// False where one peer is the whole site: no run waits for its writers.
    has_standing: bool,
}

impl WriterLog {
    /// Opens the record of a journal. `has_grants` is false where one peer is the whole site.
    ///
    /// # Errors
    /// The journal store cannot be read, or the record is damaged.
    pub(super) fn open(journal: &Path, fence: Fence, has_grants: bool) -> Result<Self, Problem> {
        let record = WriterRecord::open(journal, fence.epoch())?;
        Ok(Self { record, fence, has_standing: has_grants })
    }

    /// Determines the possible writes, past and future, of the ledger's writers for an earlier run,
    /// and records that this controller leads now. Without grants the run waits for no writer.
    ///
    /// # Errors
    /// The journal store cannot be written, or this controller is deposed.
    pub(super) fn follow(
        &mut self,
        known: &BTreeSet<WriterId>,
        present: &[PresentPeer],
    ) -> Result<(WriterRegistry<PeerFailure>, Followed), Problem> {
        let mut registry = WriterRegistry::default();
        let mut followed = Followed::default();
        if self.has_standing {
            let (standing, epoch) = (self.record.standing(), self.fence.epoch());
            (registry, followed) = WriterRegistry::follow(standing, epoch, known, present);
            self.fence.check()?;
            self.record.add(line_of(registry.record()))?;
        }
        for (writer, page) in self.record.left() {
            registry.handle_left_pages(*writer, [*page]);
        }
        Ok((registry, followed))
    }

    /// Records that `writer` is about to get work: no later run may call it settled until it is.
    ///
    /// # Errors
    /// The journal store cannot be written, or this controller is deposed.
    pub(super) fn keep_joined(
        &mut self,
        writer: WriterId,
        standing: &WriterStanding,
    ) -> Result<(), Problem> {
        assert!(!standing.settled.contains(&writer), "B3: {writer} gets work, and is settled");
        if !self.has_standing || *standing == self.record.standing() {
            return Ok(());
        }
        self.fence.check()?;
        self.record.add(line_of(standing))
    }

    /// Records the writers that no longer hold a grant, if there are new ones, with all files that
    /// may be written late. Later runs do not wait for such writers, and nothing else would record
    /// these files.
    ///
    /// # Errors
    /// The journal store cannot be written, or this controller is deposed.
    pub(super) fn keep_settled(
        &mut self,
        registry: &mut WriterRegistry<PeerFailure>,
        late: impl FnOnce() -> BTreeSet<LateFile>,
    ) -> Result<(), Problem> {
        if !self.has_standing {
            return Ok(());
        }
        let Some(standing) = registry.take_record() else { return Ok(()) };
        let line = WriterLine { late: late(), ..line_of(standing) };
        self.fence.check()?;
        self.record.add(line)
    }

    /// Records files that must be checked again at the end.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(super) fn keep_late(&mut self, late: BTreeSet<LateFile>) -> Result<(), Problem> {
        self.record.add(WriterLine { late, ..WriterLine::default() })
    }

    /// Records complete pages in which writers may have left temporary files.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(super) fn keep_left(&mut self, left: BTreeSet<(WriterId, u32)>) -> Result<(), Problem> {
        self.record.add(WriterLine { left, ..WriterLine::default() })
    }

    /// Returns the files that must be checked again at the end.
    pub(super) fn late(&self) -> &BTreeSet<LateFile> {
        self.record.late()
    }

    /// Returns the writers of these files.
    pub(super) fn late_writers(&self) -> BTreeSet<WriterId> {
        self.late().iter().map(|(writer, ..)| *writer).collect()
    }
}

fn line_of(standing: &WriterStanding) -> WriterLine {
    WriterLine { standing: Some(standing.clone()), ..WriterLine::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::task_set::seen;
    use super::super::tests::member;
    use super::*;

    const A: WriterId = WriterId(1);
    const B: WriterId = WriterId(2);

    fn fence(epoch: u64, holds: bool) -> Fence {
        Fence::new(epoch, Arc::new(move || holds))
    }

    fn awaited(journal: &Path, epoch: u64) -> BTreeSet<WriterId> {
        let mut log = WriterLog::open(journal, fence(epoch, true), true).unwrap();
        log.follow(&BTreeSet::from([A, B]), &[]).unwrap().1.awaited
    }

    /// Promise: a later run waits for each writer that has received work, and no longer than that
    /// writer holds a grant. The run knows the files that such a writer may write late (B1, B3).
    #[test]
    fn b3_a_writer_is_waited_for_from_its_first_work_until_it_is_settled() {
        let journal = tempfile::tempdir().unwrap();
        let mut log = WriterLog::open(journal.path(), fence(3, true), true).unwrap();
        let (mut registry, followed) = log.follow(&BTreeSet::from([A]), &[]).unwrap();
        assert_eq!(followed.awaited, BTreeSet::from([A]));
        registry.handle_wait_over();
        let late = BTreeSet::from([(A, 4, 0)]);
        log.keep_settled(&mut registry, || late.clone()).unwrap();
        assert_eq!((log.late(), log.late_writers()), (&late, BTreeSet::from([A])));
        // `B` is new in the ledger of the later run.
        assert_eq!(awaited(journal.path(), 3), BTreeSet::from([B]));
        let number = registry.handle_invited(&seen(&member(1)));
        registry.handle_joined(number, false);
        log.keep_joined(A, registry.record()).unwrap();
        assert_eq!(awaited(journal.path(), 3), BTreeSet::from([A, B]), "it has work");
        registry.handle_stopping(number, None);
        registry.handle_left(number, None);
        log.keep_settled(&mut registry, BTreeSet::new).unwrap();
        assert_eq!(awaited(journal.path(), 3), BTreeSet::from([B]), "it has ended in order");
    }

    /// Promise: a deposed controller settles no writer (B4).
    #[test]
    fn b4_a_deposed_controller_records_nothing() {
        let journal = tempfile::tempdir().unwrap();
        let mut log = WriterLog::open(journal.path(), fence(3, true), true).unwrap();
        let (mut registry, _) = log.follow(&BTreeSet::from([A]), &[]).unwrap();
        registry.handle_wait_over();
        log.fence = fence(3, false);
        assert!(log.keep_settled(&mut registry, BTreeSet::new).is_err());
        assert_eq!(awaited(journal.path(), 4), BTreeSet::from([A, B]));
    }

    /// Promise: a site of one peer waits for no writer, and writes no standing.
    #[test]
    fn one_peer_has_no_standing() {
        let journal = tempfile::tempdir().unwrap();
        let mut log = WriterLog::open(journal.path(), Fence::default(), false).unwrap();
        let (mut registry, followed) = log.follow(&BTreeSet::from([WriterId::SOLE]), &[]).unwrap();
        assert_eq!(followed, Followed::default());
        let number = registry.handle_invited(&seen(&member(1)));
        registry.handle_joined(number, true);
        log.keep_joined(A, registry.record()).unwrap();
        log.keep_settled(&mut registry, BTreeSet::new).unwrap();
        assert_eq!(journal.path().read_dir().unwrap().count(), 0);
    }
}
