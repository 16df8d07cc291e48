//! Sync epochs: data, sync, rename, sync of directories, durable (hard case A1).
//!
//! A peer's writes belong to the open epoch. The epoch is sealed when enough has gathered, when it
//! is old enough, or when the controller asks to flush. The edge then syncs the store, while new
//! writes belong to the next epoch. After the sync, the packs written in the sealed epoch may be
//! given their final names. These renames belong to the epoch open *then*, and the next sync makes
//! them durable. An epoch covers exactly the writes that returned before its sync began (A9).
//!
//! After a failed sync, only data that was durable before can be trusted. The machine forgets
//! everything else and reports that; the ledger makes the pieces missing (A4).

use std::collections::VecDeque;
use std::time::Duration;

use penstock_proto::slicing::PieceRef;
use penstock_proto::units::{GIB, Instant};

/// Limits at which an epoch is sealed. The first limit that is reached counts.
#[derive(Clone, Copy, Debug)]
pub struct EpochLimits {
    /// Bytes written in it.
    pub bytes: u64,
    /// Files written or renamed in it.
    pub files: u64,
    /// Age of the first epoch, from its first write. Each further one may be twice as old as the
    /// one before, up to `age`, so that the writes of a process that is killed young count.
    pub first_age: Duration,
    /// Age of a later epoch, from its first write.
    pub age: Duration,
}

impl EpochLimits {
    /// Returns the limits of a peer whose controller is elected: its first epoch is not short, and
    /// its epochs have four times as many files. A sync that is refused at the end of a tenure
    /// costs the reports that the peer keeps for the next controller (A7). The controller commits
    /// each sync to etcd, which has a limited rate for all transfers of the site.
    pub fn for_elected_controller() -> Self {
        let limits = Self::default();
        Self { first_age: limits.age, files: 4 * limits.files, ..limits }
    }
}

impl Default for EpochLimits {
    fn default() -> Self {
        // Epochs of a second cost nothing measurable against one sync at the end (docs/design/0001,
        // X8); two seconds bound the data that a power cut can make doubtful. After the last file,
        // the last epoch is synced and named while the lanes have no work. With four times as many
        // files in it, 100,000 small files in one directory took 5 % longer on ext4, and perhaps on
        // XFS (docs/design/0018).
        Self {
            bytes: 4 * GIB,
            files: 8_192,
            first_age: Duration::from_millis(125),
            age: Duration::from_secs(2),
        }
    }
}

/// A written piece that waits for its name: a pack after the next sync, or a finish at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The piece.
    pub piece: PieceRef,
    /// Attempt at the file.
    pub generation: u32,
}

/// Next action for the edge. One action at a time; its end is reported before the next is polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EpochAction {
    /// Sync the store, then call [`EpochMachine::handle_synced`].
    Sync {
        /// The sealed epoch.
        epoch: u64,
    },
    /// Rename the files of these pieces, then call [`EpochMachine::handle_renamed`].
    Publish {
        /// Large files first, then packs, each in the order in which they became publishable.
        pieces: Vec<Publication>,
    },
}

/// Bytes and pieces that wait in an epoch machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCounts {
    /// Bytes that were written since the last sync began.
    pub unsynced_bytes: u64,
    /// Pieces that wait for their names.
    pub nameless: usize,
}

/// Most pieces that one publish action names.
pub const PUBLISH_BATCH: usize = 32;

/// Decides when a peer syncs and which files it may rename.
#[derive(Debug)]
pub struct EpochMachine {
    limits: EpochLimits,
    /// Age up to which the open epoch may grow.
    age: Duration,
    open: u64,
    bytes: u64,
    files: u64,
    dirty_since: Option<Instant>,
    written: Vec<Publication>,
    sealed: Option<Vec<Publication>>,
    /// Packs that are synced and wait for their names.
    publishable: VecDeque<Publication>,
    /// Large files, all durable, that wait for their names, each with the earliest time for it.
    finishes: VecDeque<(Instant, Publication)>,
    publishing: usize,
    flush: bool,
}

impl EpochMachine {
    /// Returns a machine whose first epoch follows `last`, the last that succeeded before.
    pub fn new(last: u64, limits: EpochLimits) -> Self {
        Self {
            limits,
            age: limits.first_age.min(limits.age),
            open: last + 1,
            bytes: 0,
            files: 0,
            dirty_since: None,
            written: Vec::new(),
            sealed: None,
            publishable: VecDeque::new(),
            finishes: VecDeque::new(),
            publishing: 0,
            flush: false,
        }
    }

    /// Handles returned writes of a piece, and returns the epoch that covers them. With `publish`,
    /// the piece gets its name after that epoch's sync.
    pub fn handle_written(
        &mut self,
        now: Instant,
        bytes: u64,
        files: u64,
        publish: Option<Publication>,
    ) -> u64 {
        self.touch(now, bytes, files);
        self.written.extend(publish);
        self.open
    }

    /// Allows a large file, all durable, to get its name now.
    pub fn handle_finish(&mut self, publication: Publication) {
        self.handle_finish_from(publication, Instant(0));
    }

    /// Allows a large file, all durable, to get its name from `from` on; not before those allowed
    /// earlier.
    pub fn handle_finish_from(&mut self, publication: Publication, from: Instant) {
        self.finishes.push_back((from, publication));
    }

    /// Returns the number of large files that may get their names.
    fn finishes_due(&self, now: Instant) -> usize {
        let due = self.finishes.iter().take(PUBLISH_BATCH).take_while(|(from, _)| *from <= now);
        due.count()
    }

    /// Handles returned renames, links or attributes of `files` entries, of `pieces` pieces handed
    /// out by [`EpochAction::Publish`]. Returns the epoch that covers them.
    pub fn handle_renamed(&mut self, now: Instant, pieces: usize, files: u64) -> u64 {
        self.touch(now, 0, files);
        debug_assert!(pieces <= self.publishing, "{pieces} of {} named", self.publishing);
        self.publishing = self.publishing.saturating_sub(pieces);
        self.open
    }

    /// Handles that no further work is possible until the written data is durable.
    pub fn handle_flush(&mut self) {
        self.flush = true;
    }

    /// Handles the end of the sync of the sealed epoch. After a failure, everything that was
    /// written and is not durable is forgotten here: the ledger will have it fetched again. Large
    /// files that wait for their names are durable already, and remain.
    pub fn handle_synced(&mut self, succeeded: bool) {
        debug_assert!(self.sealed.is_some(), "a sync that was not asked for has ended");
        debug_assert_eq!(self.publishing, 0, "names are given while the store syncs");
        if succeeded {
            self.publishable.extend(self.sealed.take().unwrap_or_default());
        } else {
            self.forget_undurable();
        }
    }

    /// Handles that the names of a publish action could not be made durable, which has ended
    /// ([`EpochMachine::handle_renamed`]). As after a failed sync, all that is not durable is
    /// forgotten, and large files that wait for their names remain.
    pub fn handle_names_lost(&mut self) {
        debug_assert_eq!(self.publishing, 0, "names are given while others count as lost");
        debug_assert!(self.sealed.is_none(), "names were given while the store synced");
        self.forget_undurable();
    }

    fn forget_undurable(&mut self) {
        self.sealed = None;
        self.written.clear();
        self.publishable.clear();
    }

    /// Returns the next action for the edge, if any.
    pub fn poll_action(&mut self, now: Instant) -> Option<EpochAction> {
        if self.sealed.is_some() || self.publishing > 0 {
            return None;
        }
        let finishes = self.finishes_due(now);
        if !self.publishable.is_empty() || finishes > 0 {
            let packs = self.publishable.len().min(PUBLISH_BATCH - finishes);
            let mut pieces: Vec<_> = self.finishes.drain(..finishes).map(|(_, p)| p).collect();
            pieces.extend(self.publishable.drain(..packs));
            debug_assert!((1..=PUBLISH_BATCH).contains(&pieces.len()));
            self.publishing = pieces.len();
            return Some(EpochAction::Publish { pieces });
        }
        let dirty_since = self.dirty_since?;
        let due = self.flush
            || self.bytes >= self.limits.bytes
            || self.files >= self.limits.files
            || now.since(dirty_since) >= self.age;
        if !due {
            return None;
        }
        debug_assert!(self.publishable.is_empty(), "an epoch is sealed with packs unnamed (A1)");
        let epoch = self.open;
        self.open += 1;
        self.age = (self.age * 2).min(self.limits.age);
        self.bytes = 0;
        self.files = 0;
        self.dirty_since = None;
        self.flush = false;
        self.sealed = Some(std::mem::take(&mut self.written));
        Some(EpochAction::Sync { epoch })
    }

    /// Returns when [`EpochMachine::poll_action`] may return an action without a further event.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.sealed.is_some() || self.publishing > 0 {
            return None;
        }
        let sync = self.dirty_since.map(|since| since.plus(self.age));
        let finish = self.finishes.front().map(|(from, _)| *from);
        sync.into_iter().chain(finish).min()
    }

    /// Returns the counts of bytes and pieces that wait now.
    pub fn counts(&self) -> EpochCounts {
        let sealed = self.sealed.as_ref().map_or(0, Vec::len);
        let named = self.publishable.len() + self.finishes.len() + self.publishing;
        EpochCounts { unsynced_bytes: self.bytes, nameless: self.written.len() + sealed + named }
    }

    /// Returns whether nothing is written, sealed or waiting for a name.
    pub fn is_clean(&self) -> bool {
        self.dirty_since.is_none()
            && self.sealed.is_none()
            && self.publishable.is_empty()
            && self.finishes.is_empty()
            && self.publishing == 0
    }

    fn touch(&mut self, now: Instant, bytes: u64, files: u64) {
        self.bytes += bytes;
        self.files += files;
        self.dirty_since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(piece: u32) -> Publication {
        Publication { piece: PieceRef { page: 0, piece }, generation: 0 }
    }

    /// Promise (d): the first epochs are short and each may be twice as old as the one before, so
    /// that a process that is killed in its first second has durable files.
    #[test]
    fn d_the_first_epochs_are_short() {
        let limits = EpochLimits::default();
        let mut machine = EpochMachine::new(0, limits);
        let (mut now, mut age) = (Instant(5), limits.first_age);
        for epoch in 1..8 {
            machine.handle_written(now, 10, 1, None);
            assert_eq!(machine.poll_timeout(), Some(now.plus(age)));
            now = now.plus(age);
            assert_eq!(machine.poll_action(now), Some(EpochAction::Sync { epoch }));
            machine.handle_synced(true);
            age = (age * 2).min(limits.age);
        }
        assert_eq!(age, limits.age);
    }

    /// An epoch is sealed when it is full of written and renamed files, before it is old. Where the
    /// controller is elected it may have four times as many, and the first one is not short.
    #[test]
    fn a_full_epoch_is_sealed() {
        let (sole, elected) = (EpochLimits::default(), EpochLimits::for_elected_controller());
        assert_eq!((elected.files, elected.first_age), (4 * sole.files, sole.age));
        let now = Instant(5);
        for limits in [sole, elected] {
            let mut machine = EpochMachine::new(0, limits);
            machine.handle_written(now, 10, limits.files / 2, None);
            machine.handle_renamed(now, 0, limits.files / 2 - 1);
            assert_eq!(machine.poll_action(now), None);
            machine.handle_written(now, 10, 1, None);
            assert_eq!(machine.poll_action(now), Some(EpochAction::Sync { epoch: 1 }));
        }
    }

    /// B2: a large file whose writers may still move its time is finished when they can no longer
    /// do so. Neither packs nor syncs wait for it.
    #[test]
    fn b2_a_file_that_must_settle_is_finished_later() {
        let mut machine = EpochMachine::new(0, EpochLimits::default());
        let (now, due) = (Instant(5), Instant(5).plus(Duration::from_secs(1)));
        machine.handle_finish_from(publication(7), due);
        assert_eq!((machine.poll_action(now), machine.poll_timeout()), (None, Some(due)));
        machine.handle_written(now, 10, 1, Some(publication(1)));
        machine.handle_flush();
        assert_eq!(machine.poll_action(now), Some(EpochAction::Sync { epoch: 1 }));
        machine.handle_synced(true);
        let pack = EpochAction::Publish { pieces: vec![publication(1)] };
        assert_eq!(machine.poll_action(now), Some(pack));
        machine.handle_renamed(now, 1, 1);
        assert!(!machine.is_clean());
        let large = EpochAction::Publish { pieces: vec![publication(7)] };
        assert_eq!(machine.poll_action(due), Some(large));
    }

    /// A1: a pack is renamed only after a sync that began after its last write returned, and the
    /// rename is covered by a later sync still.
    #[test]
    fn a1_data_is_synced_before_its_name_and_the_name_after() {
        let mut machine = EpochMachine::new(6, EpochLimits::default());
        let now = Instant(0);
        assert_eq!(machine.handle_written(now, 10, 1, Some(publication(1))), 7);
        assert_eq!(machine.poll_action(now), None, "nothing is due yet");
        let later = now.plus(Duration::from_secs(2));
        assert_eq!(machine.poll_action(later), Some(EpochAction::Sync { epoch: 7 }));
        assert_eq!(
            machine.handle_written(later, 10, 1, Some(publication(2))),
            8,
            "A9: a write during the sync belongs to the next epoch"
        );
        assert_eq!(machine.poll_action(later), None, "one action at a time");
        machine.handle_synced(true);
        let action = machine.poll_action(later);
        assert_eq!(action, Some(EpochAction::Publish { pieces: vec![publication(1)] }));
        assert_eq!(machine.handle_renamed(later, 1, 1), 8);
        machine.handle_flush();
        assert_eq!(machine.poll_action(later), Some(EpochAction::Sync { epoch: 8 }));
        machine.handle_synced(true);
        let action = machine.poll_action(later);
        assert_eq!(action, Some(EpochAction::Publish { pieces: vec![publication(2)] }));
    }

    /// A4: after a failed sync nothing written before it is given a name.
    #[test]
    fn a4_a_failed_sync_publishes_nothing() {
        let mut machine = EpochMachine::new(0, EpochLimits::default());
        machine.handle_written(Instant(0), 10, 1, Some(publication(1)));
        machine.handle_flush();
        assert!(matches!(machine.poll_action(Instant(0)), Some(EpochAction::Sync { .. })));
        machine.handle_written(Instant(0), 10, 1, Some(publication(2)));
        machine.handle_synced(false);
        machine.handle_flush();
        assert!(matches!(machine.poll_action(Instant(0)), Some(EpochAction::Sync { .. })));
        machine.handle_synced(true);
        assert_eq!(machine.poll_action(Instant(0)), None);
        assert!(machine.is_clean());
    }

    /// A4: where each directory has a sync of its own, that may fail while no epoch is sealed.
    /// Packs that are synced and wait for their names are forgotten too, large files are not.
    #[test]
    fn a4_names_that_are_not_durable_take_all_with_them() {
        let mut machine = EpochMachine::new(0, EpochLimits::default());
        let now = Instant(0);
        let batch = u32::try_from(PUBLISH_BATCH).unwrap();
        for piece in 0..=batch {
            machine.handle_written(now, 10, 1, Some(publication(piece)));
        }
        machine.handle_flush();
        assert!(matches!(machine.poll_action(now), Some(EpochAction::Sync { .. })));
        machine.handle_synced(true);
        let Some(EpochAction::Publish { pieces }) = machine.poll_action(now) else {
            panic!("nothing gets its name");
        };
        machine.handle_written(now, 10, 1, Some(publication(100)));
        machine.handle_finish(publication(200));
        machine.handle_renamed(now, pieces.len(), 0);
        machine.handle_names_lost();
        machine.handle_flush();
        let large = EpochAction::Publish { pieces: vec![publication(200)] };
        assert_eq!(machine.poll_action(now), Some(large));
        machine.handle_renamed(now, 1, 1);
        assert!(matches!(machine.poll_action(now), Some(EpochAction::Sync { .. })));
        machine.handle_synced(true);
        assert_eq!(machine.poll_action(now), None, "all packs are to be fetched again");
        assert!(machine.is_clean());
    }

    /// A4, A6: a large file that waits for its name is durable. It keeps its turn after a failed
    /// sync, as the ledger would otherwise wait for the file for ever.
    #[test]
    fn a4_a_failed_sync_keeps_what_is_durable() {
        let mut machine = EpochMachine::new(0, EpochLimits::default());
        machine.handle_written(Instant(0), 10, 1, None);
        machine.handle_flush();
        assert!(matches!(machine.poll_action(Instant(0)), Some(EpochAction::Sync { .. })));
        machine.handle_finish(publication(7));
        machine.handle_synced(false);
        let action = machine.poll_action(Instant(0));
        assert_eq!(action, Some(EpochAction::Publish { pieces: vec![publication(7)] }));
    }
}
