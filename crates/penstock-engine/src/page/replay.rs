//! Rebuilding of a page's state from its log: after a restart, or for some pieces after a peer was
//! lost.

use std::collections::{BTreeMap, BTreeSet};

use penstock_proto::journal::{EntryDigest, EntryFailure, Incarnation, JournalRecord};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;

use super::{PageLedger, PieceState};
use crate::slice::Piece;

/// A piece that is written in a log.
struct Found {
    under: Incarnation,
    digests: Vec<EntryDigest>,
    failures: Vec<EntryFailure>,
}

impl PageLedger {
    /// Rebuilds the state from the committed part of the page's log, `log_bytes` long. Returns the
    /// pieces that must be checked again before they count (A2, A5): those that were written and
    /// are not durable, or, with `doubt_all`, everything that was written. Where there is an
    /// incarnation, a peer that still writes under it need not doubt them.
    pub fn replay(
        &mut self,
        records: impl IntoIterator<Item = JournalRecord>,
        log_bytes: u64,
        doubt_all: bool,
    ) -> Vec<(Option<Incarnation>, Work)> {
        let mut under = Incarnation::default();
        let mut found: BTreeMap<u32, Found> = BTreeMap::new();
        let mut asked = false;
        for record in records {
            match record {
                JournalRecord::Incarnation(incarnation) => under = incarnation,
                JournalRecord::Written { piece, digests, failures, .. } => {
                    self.note_asks(&digests, &failures);
                    if self.states.get(piece as usize).is_some() {
                        found.insert(piece, Found { under, digests, failures });
                        self.put(piece, PieceState::Written);
                    }
                }
                JournalRecord::Durable { pieces } => {
                    self.replay_state(&pieces, PieceState::Durable);
                }
                JournalRecord::Missing { pieces } => {
                    self.replay_state(&pieces, PieceState::Missing);
                }
                JournalRecord::Failed(failure) => self.replay_failure(failure, &mut found),
                JournalRecord::Generation { entry, generation } => {
                    self.replay_generation(entry, generation);
                }
                // The page was cut by it.
                JournalRecord::Compared(_) => {}
                JournalRecord::Asked => asked = true,
                JournalRecord::Amended(amendment) => self.amended.add(amendment),
            }
        }
        self.log_bytes = log_bytes;
        self.asks &= !asked;
        self.drop_amended(&mut found);
        self.settle_replay(&found, doubt_all)
    }

    /// Drops the entries that a later page has replaced.
    fn drop_amended(&self, found: &mut BTreeMap<u32, Found>) {
        for found in found.values_mut() {
            let amended = &self.amended.entries;
            found.digests.retain(|digest| !amended.contains(&digest.entry));
        }
    }

    fn replay_state(&mut self, pieces: &[u32], state: PieceState) {
        for piece in pieces {
            self.put(*piece, state);
        }
    }

    /// Replays a failure. A large file has failed as a whole. A file of a pack that could not get
    /// its name belongs to its pack, which must not try again. Links and directories are tried
    /// again, and report again.
    fn replay_failure(&mut self, failure: EntryFailure, found: &mut BTreeMap<u32, Found>) {
        self.note_asks(&[], &[failure]);
        if let Some(file) = self.large.get_mut(&failure.entry) {
            self.failures += u64::from(!std::mem::replace(&mut file.failed, true));
            for piece in file.first..=file.finish {
                self.put(piece, PieceState::Excepted);
            }
            return;
        }
        if self.others.binary_search(&failure.entry).is_ok() {
            return;
        }
        self.add_failure(failure, found);
    }

    /// Adds a file that could not get its name to its pack.
    fn add_failure(&self, failure: EntryFailure, found: &mut BTreeMap<u32, Found>) {
        let pack = self.pieces.iter().position(|piece| {
            matches!(piece, Piece::Pack { first, end, .. }
                if (*first..*end).contains(&failure.entry))
        });
        if let Some(found) = pack.and_then(|pack| found.get_mut(&(pack as u32)))
            && found.failures.iter().all(|known| known.entry != failure.entry)
        {
            found.failures.push(failure);
        }
    }

    fn replay_generation(&mut self, entry: u32, generation: u32) {
        if let Some(file) = self.large.get_mut(&entry) {
            file.generation = generation;
            for piece in file.first..=file.finish {
                self.put(piece, PieceState::Missing);
            }
        }
    }

    fn settle_replay(
        &mut self,
        found: &BTreeMap<u32, Found>,
        doubt_all: bool,
    ) -> Vec<(Option<Incarnation>, Work)> {
        let mut rechecks = Vec::new();
        for index in 0..self.pieces.len() {
            let piece = self.pieces[index];
            let state = self.states[index];
            let standing = matches!(state, PieceState::Written | PieceState::Durable);
            if !standing {
                continue;
            }
            if let Piece::Finish { .. } = piece {
                // Finishing is idempotent and cheap: it is repeated unless it is durable.
                if state == PieceState::Written || doubt_all {
                    self.put(index as u32, PieceState::Missing);
                } else {
                    self.count_written(index as u32, &[]);
                }
                continue;
            }
            let Some(known) = found.get(&(index as u32)) else {
                self.put(index as u32, PieceState::Missing);
                continue;
            };
            if state == PieceState::Durable && !doubt_all {
                self.replay_durable(index as u32, &known.digests, &known.failures);
                continue;
            }
            self.put(index as u32, PieceState::Granted);
            self.rechecking.insert(index as u32);
            let under = (!doubt_all).then_some(known.under);
            rechecks.push((under, self.recheck_of(index as u32, known)));
        }
        self.note_started();
        rechecks
    }

    /// Returns the work to check a piece; in doubt, unless the peer that does it knows better.
    fn recheck_of(&self, piece: u32, known: &Found) -> Work {
        Work::Recheck {
            piece: PieceRef { page: self.number, piece },
            generation: self.generation_of(piece),
            doubt: true,
            digests: known.digests.clone(),
            failures: known.failures.clone(),
        }
    }

    fn replay_durable(&mut self, piece: u32, digests: &[EntryDigest], failures: &[EntryFailure]) {
        self.count_written(piece, failures);
        self.bytes_durable += self.pieces[piece as usize].bytes();
        if let Piece::Extent { entry, .. } = self.pieces[piece as usize]
            && let Some(file) = self.large.get_mut(&entry)
        {
            file.durable += 1;
            file.digests[(piece - file.first) as usize] = digests.first().copied();
            file.note_seen(digests.first());
        }
    }

    /// Returns the committed records of `pieces`, which a lost peer wrote or was checking: for each
    /// the incarnation and the work to check it. Pieces without a record are returned separately.
    pub(crate) fn read_again(
        &self,
        pieces: &BTreeSet<u32>,
        records: impl IntoIterator<Item = JournalRecord>,
    ) -> (Vec<(u32, Incarnation, Work)>, Vec<u32>) {
        let mut under = Incarnation::default();
        let mut found: BTreeMap<u32, Found> = BTreeMap::new();
        for record in records {
            match record {
                JournalRecord::Incarnation(incarnation) => under = incarnation,
                JournalRecord::Written { piece, generation, digests, failures, .. }
                    if pieces.contains(&piece) && generation == self.generation_of(piece) =>
                {
                    found.insert(piece, Found { under, digests, failures });
                }
                JournalRecord::Missing { pieces } => {
                    found.retain(|piece, _| !pieces.contains(piece));
                }
                JournalRecord::Failed(failure) => self.add_failure(failure, &mut found),
                _ => {}
            }
        }
        self.drop_amended(&mut found);
        let unknown = pieces.iter().filter(|piece| !found.contains_key(piece)).copied().collect();
        let work = found.iter().map(|(piece, it)| (*piece, it.under, self.recheck_of(*piece, it)));
        (work.collect(), unknown)
    }
}
