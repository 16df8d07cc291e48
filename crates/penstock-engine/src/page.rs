//! The ledger of one page: the state of each piece, and the log from which the state is rebuilt.
//!
//! ```text
//! pack:    missing → granted → written → published → durable
//! extent:  missing → granted → written → durable
//! finish:  missing → granted → published → durable        (once all extents are durable)
//! any:     → excepted (failed for good)      → missing (failed sync, lost file, new generation)
//! ```
//! *Granted* and *published* are not in the log: after a restart a granted piece is missing, a
//! published one is written. All other states are, as [`JournalRecord`]s appended in the order of
//! events (hard case A2).
//!
//! From granted to published a piece has an owner: the peer that works on it, or whose sync it
//! waits for. Reports of other peers on it do not count (B3, A9).

mod owners;
mod replay;
pub mod shares;

use std::collections::{BTreeMap, BTreeSet};

use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::PeerNumber;
use penstock_proto::journal::{
    Amendment, DigestForm, EntryDigest, EntryFailure, FailurePhase, Incarnation, JournalRecord,
};
use penstock_proto::manifest::{EntryKind, Page};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;
use penstock_proto::units::FileTime;

use crate::slice::{Piece, slice_without};

/// State of a piece; see the module's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceState {
    /// To be fetched.
    Missing,
    /// A peer is to fetch, check or finish it.
    Granted,
    /// Written under temporary names.
    Written,
    /// Renamed, but that is not durable yet.
    Published,
    /// On stable storage.
    Durable,
    /// Failed for good.
    Excepted,
}

/// A file that travels as extents.
#[derive(Clone, Debug)]
struct LargeFile {
    first: u32,
    finish: u32,
    bytes: u64,
    extent_bytes: u64,
    generation: u32,
    /// True if an extent was handed out or found in this generation.
    started: bool,
    failed: bool,
    durable: u32,
    digests: Vec<Option<EntryDigest>>,
    /// Change time in the page.
    ctime: FileTime,
    /// The change time under which the extents that exist were read.
    seen: Option<FileTime>,
    /// The peer that makes the temporary file, until a part of it is written: others cannot open
    /// the file before (B1).
    maker: Option<PeerNumber>,
}

impl LargeFile {
    fn extents(&self) -> std::ops::Range<u32> {
        self.first..self.finish
    }

    /// Records the change time under which an extent was read; returns whether it is that of the
    /// others: all extents of a file have one identity (C1).
    fn note_seen(&mut self, digest: Option<&EntryDigest>) -> bool {
        let Some(digest) = digest else { return true };
        let seen = digest.seen.unwrap_or(self.ctime);
        *self.seen.get_or_insert(seen) == seen
    }
}

/// Result of [`PageLedger::handle_written`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The report counts.
    Accepted,
    /// The report is late or a repetition: nothing changed.
    Ignored,
    /// The file failed: its temporary file is to be discarded.
    Discard { entry: u32, generation: u32 },
}

/// Result of [`PageLedger::handle_returned`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    /// The report changed nothing.
    Ignored,
    /// The piece is missing, as in the log: it may be handed out at once.
    Free,
    /// The pieces that are missing, and may be handed out once the log records that.
    Logged(Vec<u32>),
}

/// Number for pieces without an owner.
const NOBODY: PeerNumber = PeerNumber(u16::MAX);

/// Change in the work that a peer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    pub(crate) peer: PeerNumber,
    pub(crate) bytes: u64,
    /// True if it has got the bytes, false if it has lost them.
    pub(crate) taken: bool,
}

/// A peer that holds extents of an attempt that is over, and is to forget them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    pub(crate) peer: PeerNumber,
    pub(crate) entry: u32,
    pub(crate) generation: u32,
}

/// Returns whether nothing more happens to a piece in this state, if all goes well.
fn is_settled(state: PieceState) -> bool {
    matches!(state, PieceState::Durable | PieceState::Excepted)
}

/// Returns whether a piece may pass from one state to the other: see the module's description.
fn follows(was: PieceState, state: PieceState) -> bool {
    use PieceState::{Durable, Excepted, Granted, Missing, Published, Written};
    match (was, state) {
        (_, Missing | Excepted) | (Missing, Granted | Written | Published | Durable) => true,
        (Granted, Written | Published | Durable) | (Written, Granted | Published | Durable) => true,
        // Files that a lost peer has named are checked again.
        (Published, Granted | Durable) => true,
        // All pieces of a doubted log are checked too; the log then records once more that they are
        // written.
        (Durable, Granted | Written) => true,
        (was, state) => was == state,
    }
}

/// Returns the failure of a file whose extents are not all of one version (C1).
fn changed(entry: u32) -> EntryFailure {
    EntryFailure { entry, phase: FailurePhase::Changed, errno: 0 }
}

/// Returns the files among the entries that stay as they are, and their bytes.
fn kept_of(page: &Page, compared: &Comparison) -> (u64, u64) {
    let entries = compared.kept.iter().filter_map(|index| page.entry(index).ok());
    let files = entries.filter(|entry| entry.kind == EntryKind::File);
    files.fold((0, 0), |(files, bytes), entry| (files + 1, bytes + entry.size))
}

/// Returns the files that an earlier attempt has moved, and their bytes.
fn carried_of(page: &Page, compared: &Comparison) -> (u64, u64) {
    let entries = compared.carried.iter().filter_map(|digest| page.entry(digest.entry).ok());
    entries.fold((0, 0), |(files, bytes), entry| (files + 1, bytes + entry.size))
}

/// Returns the files that failed when the page was compared, with their sizes.
fn refused_of(page: &Page, compared: &Comparison) -> Vec<(u32, u64)> {
    let size = |of: u32| {
        page.entry(of).ok().filter(|entry| entry.kind == EntryKind::File).map(|entry| entry.size)
    };
    let failed = compared.failed.iter().map(|failure| failure.entry);
    failed.filter_map(|entry| Some((entry, size(entry)?))).collect()
}

/// Ledger of one page.
#[derive(Debug)]
pub struct PageLedger {
    number: u32,
    digest: Digest,
    kind: DigestKind,
    pieces: Vec<Piece>,
    states: Vec<PieceState>,
    /// Owner of each piece that is granted, written or published.
    owners: Vec<PeerNumber>,
    /// Granted pieces that are written in the log: they are checked again.
    rechecking: BTreeSet<u32>,
    /// True for extents that were handed out since this controller began: an extent written for an
    /// earlier controller may then have been overwritten (B3).
    given: Vec<bool>,
    /// True for pieces that a peer held, or had written, and that became missing again.
    again: Vec<bool>,
    /// Bytes of files that are in no piece: they stay at the target, or an earlier attempt moved
    /// them.
    left_bytes: u64,
    /// Files that failed when the page was compared, with their sizes: they are in no piece,
    /// either.
    refused: Vec<(u32, u64)>,
    large: BTreeMap<u32, LargeFile>,
    /// Entries that are no files, ascending: they are in no piece.
    others: Vec<u32>,
    /// Failed entries of written pieces, for [`PageLedger::uncount_written`].
    failed: BTreeMap<u32, u64>,
    unsettled: u32,
    /// Weight of the missing pieces, without finishes.
    missing_bytes: u64,
    handed: Vec<Handed>,
    stale: Vec<Stale>,
    log: Vec<u8>,
    log_bytes: u64,
    /// Incarnation under which the next `Written` of the log would be read.
    logged_under: Option<Incarnation>,
    files: u64,
    bytes: u64,
    bytes_durable: u64,
    failures: u64,
    kept: (u64, u64),
    /// True if the source is to be asked about entries that have changed, or may have.
    asks: bool,
    amended: Amendment,
}

impl PageLedger {
    /// Returns the ledger of a page with nothing known but the entries that stay as they are at the
    /// target.
    pub fn new(page: &Page, digest: Digest, kind: DigestKind, compared: &Comparison) -> Self {
        let pieces = slice_without(page, &compared.left());
        let is_other = |at: &u32| page.entries()[*at as usize].kind != EntryKind::File;
        let others = (0..page.entries().len() as u32).filter(is_other).collect();
        let mut large = BTreeMap::new();
        let mut first = None;
        for (index, piece) in pieces.iter().enumerate() {
            match *piece {
                Piece::Extent { .. } => {
                    first.get_or_insert(index as u32);
                }
                Piece::Finish { entry } => {
                    let start = first.take().unwrap_or(index as u32);
                    let bytes = page.entries()[entry as usize].size;
                    let count = index - start as usize;
                    let file = LargeFile {
                        first: start,
                        finish: index as u32,
                        bytes,
                        extent_bytes: page.slicing.extent_bytes_of(bytes),
                        generation: 0,
                        started: false,
                        failed: false,
                        durable: 0,
                        digests: vec![None; count],
                        ctime: page.entries()[entry as usize].identity.ctime,
                        seen: None,
                        maker: None,
                    };
                    large.insert(entry, file);
                }
                Piece::Pack { .. } => {}
            }
        }
        let (files, bytes) = carried_of(page, compared);
        // A newer version that stays as it is was moved, and counts, as the older one.
        let kept = if page.round == 0 { kept_of(page, compared) } else { (0, 0) };
        Self {
            number: page.number,
            digest,
            kind,
            states: vec![PieceState::Missing; pieces.len()],
            owners: vec![NOBODY; pieces.len()],
            rechecking: BTreeSet::new(),
            given: vec![false; pieces.len()],
            again: vec![false; pieces.len()],
            left_bytes: bytes + kept.1,
            refused: refused_of(page, compared),
            unsettled: pieces.len() as u32,
            missing_bytes: pieces.iter().map(Piece::worth).sum(),
            handed: Vec::new(),
            stale: Vec::new(),
            pieces,
            large,
            others,
            failed: BTreeMap::new(),
            log: Vec::new(),
            log_bytes: 0,
            logged_under: None,
            files,
            bytes,
            bytes_durable: bytes,
            failures: compared.failed.len() as u64,
            kept,
            asks: compared.carried.iter().any(|digest| digest.seen.is_some()),
            amended: Amendment::default(),
        }
    }

    /// Logs the decisions on a new page, before anything else.
    pub(crate) fn log_compared(&mut self, compared: Comparison) {
        self.append(JournalRecord::Compared(compared));
    }

    /// Takes over the large files that an earlier attempt has written, as records of this page's
    /// log. Returns the pieces that must be checked again, as [`PageLedger::replay`] does.
    pub(crate) fn take_earlier(
        &mut self,
        earlier: Vec<JournalRecord>,
        doubt_all: bool,
    ) -> Vec<(Option<Incarnation>, Work)> {
        earlier.iter().for_each(|record| record.append_to(&mut self.log));
        self.replay(earlier, 0, doubt_all)
    }

    /// Records whether the source is to be asked about anything.
    fn note_asks(&mut self, digests: &[EntryDigest], failures: &[EntryFailure]) {
        self.asks |= digests.iter().any(|digest| digest.seen.is_some())
            || failures.iter().any(EntryFailure::may_be_mended);
    }

    /// Returns whether the source is to be asked about entries that have changed, or may have.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Records that later pages have newer versions of entries.
    pub(crate) fn amend(&mut self, amendment: Amendment) {
        self.append(JournalRecord::Amended(amendment.clone()));
        self.amended.add(amendment);
    }

    /// Returns the work to remove large files that failed before a restart.
    pub(crate) fn discards(&self) -> impl Iterator<Item = Work> + '_ {
        let failed = self.large.iter().filter(|(_, file)| file.failed);
        failed.map(|(entry, file)| Work::Discard {
            page: self.number,
            entry: *entry,
            generation: file.generation,
        })
    }

    /// Returns the number of the page.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the digest of the encoded page.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns all pieces, by index.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the state of a piece; pieces that do not exist are excepted.
    pub fn state(&self, piece: u32) -> PieceState {
        self.states.get(piece as usize).copied().unwrap_or(PieceState::Excepted)
    }

    /// Returns whether every piece is durable or excepted.
    pub fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Returns the files that stay as they are at the target, and their bytes.
    pub fn kept(&self) -> (u64, u64) {
        self.kept
    }

    /// Returns the files written, their bytes, the durable bytes of these, and the failed entries.
    pub fn counts(&self) -> (u64, u64, u64, u64) {
        let amended = &self.amended;
        (
            self.files.saturating_sub(amended.files.into()),
            self.bytes.saturating_sub(amended.bytes),
            self.bytes_durable,
            self.failures.saturating_sub(amended.failures.into()),
        )
    }

    /// Changes a state to one that may follow it.
    fn set(&mut self, piece: u32, state: PieceState) {
        if let Some(was) = self.states.get(piece as usize) {
            debug_assert!(follows(*was, state), "piece {piece}: {was:?} → {state:?}");
        }
        self.put(piece, state);
    }

    /// Puts a piece into a state, as the only function, and keeps the counts that depend on it. A
    /// granted piece loses its owner, unless it was written. A log that is replayed may hold any
    /// sequence of states: a disk is not trusted.
    fn put(&mut self, piece: u32, state: PieceState) {
        let Some(slot) = self.states.get_mut(piece as usize) else { return };
        let was = std::mem::replace(slot, state);
        self.unsettled += u32::from(is_settled(was));
        self.unsettled -= u32::from(is_settled(state));
        let worth = self.pieces[piece as usize].worth();
        if was == PieceState::Missing {
            self.missing_bytes -= worth;
        }
        if state == PieceState::Missing {
            self.missing_bytes += worth;
            self.again[piece as usize] |= was != PieceState::Missing;
        }
        if was == PieceState::Granted {
            self.rechecking.remove(&piece);
            self.note_handed(piece, false);
        }
        if !matches!(state, PieceState::Written | PieceState::Published) {
            self.owners[piece as usize] = NOBODY;
        }
    }

    /// Returns the pieces that can be fetched now, in order.
    pub(crate) fn fetchable(&self) -> Vec<u32> {
        let fetchable = |index: &u32| {
            self.states[*index as usize] == PieceState::Missing
                && !matches!(self.pieces[*index as usize], Piece::Finish { .. })
        };
        (0..self.pieces.len() as u32).filter(fetchable).collect()
    }

    /// Returns the large files whose extents are all durable and that have no name yet.
    pub(crate) fn finishable(&self) -> impl Iterator<Item = u32> + '_ {
        self.large.values().map(|file| file.finish).filter(|finish| self.is_finishable(*finish))
    }

    /// Returns whether a piece is the finish of such a file.
    pub(crate) fn is_finishable(&self, finish: u32) -> bool {
        self.large_of(finish).is_some_and(|file| {
            file.finish == finish
                && self.states[file.finish as usize] == PieceState::Missing
                && file.durable as usize == file.digests.len()
        })
    }

    /// Returns the attempt at the file of which `piece` is a part; 0 for packs.
    pub(crate) fn generation_of(&self, piece: u32) -> u32 {
        self.large_of(piece).map_or(0, |file| file.generation)
    }

    pub(crate) fn generation_max(&self) -> u32 {
        self.large.values().map(|file| file.generation).max().unwrap_or(0)
    }

    /// Returns the size of the large file of `piece`, and whether it was begun; `None` for packs.
    pub(crate) fn large_file(&self, piece: u32) -> Option<(u64, bool)> {
        self.large_of(piece).map(|file| (file.bytes, file.started))
    }

    fn large_of(&self, piece: u32) -> Option<&LargeFile> {
        match self.pieces.get(piece as usize)? {
            Piece::Pack { .. } => None,
            Piece::Extent { entry, .. } | Piece::Finish { entry } => self.large.get(entry),
        }
    }

    /// Hands out a missing piece, which is not a finish, to a peer.
    pub(crate) fn grant(&mut self, piece: u32, peer: PeerNumber) -> Option<Work> {
        let work = self.begin(piece, peer)?;
        self.own(piece, peer);
        Some(work)
    }

    /// Takes the finish of a file out of the missing pieces; the caller assigns it with
    /// [`PageLedger::own`].
    pub(crate) fn begin_finish(&mut self, piece: u32) -> Option<Work> {
        self.begin(piece, NOBODY)
    }

    fn begin(&mut self, piece: u32, peer: PeerNumber) -> Option<Work> {
        if self.state(piece) != PieceState::Missing {
            return None;
        }
        self.set(piece, PieceState::Granted);
        let reference = PieceRef { page: self.number, piece };
        let generation = self.generation_of(piece);
        Some(match self.pieces[piece as usize] {
            Piece::Finish { .. } => Work::Finish { piece: reference, generation },
            Piece::Pack { .. } => Work::Fetch { piece: reference, generation, fresh: true },
            Piece::Extent { entry, .. } => {
                self.given[piece as usize] = true;
                let file = self.large.get_mut(&entry)?;
                let fresh = !file.started;
                if fresh {
                    file.maker = Some(peer);
                }
                file.started = true;
                Work::Fetch { piece: reference, generation, fresh }
            }
        })
    }

    /// Records which large files are begun: any extent exists, or may. Otherwise the next attempt
    /// starts again.
    fn note_started(&mut self) {
        for file in self.large.values_mut() {
            let standing = |state| matches!(state, PieceState::Granted | PieceState::Durable);
            file.started = file.extents().any(|piece| standing(self.states[piece as usize]));
            file.maker = None;
        }
    }

    /// Handles a report that a peer has written a piece, under its incarnation.
    pub(crate) fn handle_written(
        &mut self,
        (peer, incarnation): (PeerNumber, Incarnation),
        piece: u32,
        generation: u32,
        epoch: u64,
        digests: Vec<EntryDigest>,
        failures: Vec<EntryFailure>,
    ) -> Outcome {
        // A piece without an owner may have been another's since (B3).
        let its = self.is_owned(piece, peer) && self.state(piece) == PieceState::Granted;
        if !its || generation != self.generation_of(piece) {
            return Outcome::Ignored;
        }
        if let Piece::Extent { entry, .. } = self.pieces[piece as usize] {
            if let Some(failure) = failures.first() {
                return self.except_file(entry, *failure);
            }
            if let Some(file) = self.large.get_mut(&entry) {
                if !file.note_seen(digests.first()) {
                    return self.except_file(entry, changed(entry));
                }
                let slot = (piece - file.first) as usize;
                file.digests[slot] = digests.first().copied();
                (file.started, file.maker) = (true, None);
            }
        }
        self.note_asks(&digests, &failures);
        self.set(piece, PieceState::Written);
        self.owners[piece as usize] = peer;
        self.count_written(piece, &failures);
        let record = JournalRecord::Written { piece, generation, epoch, digests, failures };
        self.append_written(incarnation, &record);
        Outcome::Accepted
    }

    fn count_written(&mut self, piece: u32, failures: &[EntryFailure]) {
        self.files += u64::from(self.pieces[piece as usize].files());
        self.bytes += self.pieces[piece as usize].bytes();
        self.count_failed(piece, failures);
    }

    fn count_failed(&mut self, piece: u32, failures: &[EntryFailure]) {
        let failed = failures.len() as u64;
        if failed > 0 {
            self.files = self.files.saturating_sub(failed);
            self.failures += failed;
            *self.failed.entry(piece).or_default() += failed;
        }
    }

    fn uncount_written(&mut self, piece: u32) {
        let failed = self.failed.remove(&piece).unwrap_or(0);
        let good = u64::from(self.pieces[piece as usize].files()).saturating_sub(failed);
        self.files = self.files.saturating_sub(good);
        self.bytes = self.bytes.saturating_sub(self.pieces[piece as usize].bytes());
        self.failures = self.failures.saturating_sub(failed);
    }

    /// Removes a piece from the counts to which its state belongs.
    fn uncount(&mut self, piece: u32) {
        match self.state(piece) {
            PieceState::Durable => {
                self.bytes_durable -= self.pieces[piece as usize].bytes();
                self.uncount_written(piece);
            }
            PieceState::Written | PieceState::Published => self.uncount_written(piece),
            _ => {}
        }
    }

    fn except_file(&mut self, entry: u32, failure: EntryFailure) -> Outcome {
        let Some(file) = self.large.get_mut(&entry) else { return Outcome::Ignored };
        if std::mem::replace(&mut file.failed, true) {
            return Outcome::Ignored;
        }
        file.maker = None;
        let (range, generation) = (file.first..=file.finish, file.generation);
        self.note_stale(range.clone(), entry, generation);
        for piece in range {
            self.uncount(piece);
            self.set(piece, PieceState::Excepted);
        }
        self.failures += 1;
        self.note_asks(&[], &[failure]);
        self.append(JournalRecord::Failed(failure));
        Outcome::Discard { entry, generation }
    }

    /// Handles a report that a pack or a finished file has its names. Returns whether the report
    /// counts.
    pub(crate) fn handle_published(
        &mut self,
        (peer, incarnation): (PeerNumber, Incarnation),
        piece: u32,
        generation: u32,
        epoch: u64,
        failures: &[EntryFailure],
    ) -> Outcome {
        if generation != self.generation_of(piece) {
            return Outcome::Ignored;
        }
        let its = self.is_owned(piece, peer);
        match (self.pieces.get(piece as usize), self.state(piece)) {
            (Some(Piece::Pack { .. }), PieceState::Written) if its => {
                self.count_failed(piece, failures);
                for failure in failures {
                    self.append(JournalRecord::Failed(*failure));
                }
            }
            (Some(Piece::Finish { entry }), PieceState::Granted) if its => {
                let entry = *entry;
                if let Some(failure) = failures.first() {
                    return self.except_file(entry, *failure);
                }
                let digests: Vec<_> = self.file_digest(entry).into_iter().collect();
                self.count_written(piece, &[]);
                let failures = Vec::new();
                let record = JournalRecord::Written { piece, generation, epoch, digests, failures };
                self.append_written(incarnation, &record);
            }
            _ => return Outcome::Ignored,
        }
        self.set(piece, PieceState::Published);
        self.owners[piece as usize] = peer;
        Outcome::Accepted
    }

    /// Returns the digest of a whole large file, merged from its extents; `None` while one is
    /// missing.
    fn file_digest(&self, entry: u32) -> Option<EntryDigest> {
        let file = self.large.get(&entry)?;
        let parts: Vec<EntryDigest> = file.digests.iter().copied().collect::<Option<_>>()?;
        let values: Vec<Digest> = parts.iter().map(|part| part.digest).collect();
        let standard = parts.iter().all(|part| part.form == DigestForm::Standard);
        let form = if standard { DigestForm::Standard } else { DigestForm::Sparse };
        let digest = self.kind.merge(&values, file.extent_bytes, file.bytes, standard);
        // The digest of each extent is in the log already, if the extents are to be examined again.
        Some(EntryDigest { entry, form, digest, seen: None })
    }

    /// Handles a piece that has become durable by a sync. Returns whether that changed anything.
    pub(crate) fn handle_durable(&mut self, piece: u32) -> bool {
        let settles = matches!(
            (self.pieces.get(piece as usize), self.state(piece)),
            (Some(Piece::Extent { .. }), PieceState::Written) | (Some(_), PieceState::Published)
        );
        if !settles {
            return false;
        }
        self.set(piece, PieceState::Durable);
        self.bytes_durable += self.pieces[piece as usize].bytes();
        if let Piece::Extent { entry, .. } = self.pieces[piece as usize]
            && let Some(file) = self.large.get_mut(&entry)
        {
            file.durable += 1;
        }
        true
    }

    /// Appends to the log that pieces are durable, in one record per sync.
    pub(crate) fn log_durable(&mut self, pieces: Vec<u32>) {
        self.append(JournalRecord::Durable { pieces });
    }

    /// Handles a piece that is missing and could not be fetched, or was returned. Returns the
    /// pieces that are missing again.
    pub(crate) fn handle_returned(
        &mut self,
        piece: u32,
        generation: u32,
        peer: PeerNumber,
    ) -> Returned {
        if generation != self.generation_of(piece) || !self.is_owned(piece, peer) {
            return Returned::Ignored;
        }
        let looked_at = self.rechecking.contains(&piece);
        match (self.pieces.get(piece as usize), self.state(piece)) {
            (Some(Piece::Finish { entry }), PieceState::Granted) => {
                let entry = *entry;
                Returned::Logged(self.begin_generation(entry))
            }
            (Some(_), PieceState::Granted) if !looked_at => {
                self.set(piece, PieceState::Missing);
                self.note_unmade(piece);
                Returned::Free
            }
            (Some(_), PieceState::Granted | PieceState::Written) => {
                Returned::Logged(self.lose(vec![piece]))
            }
            _ => Returned::Ignored,
        }
    }

    /// Handles a piece that a peer could not write or name, and that is to be retried: the peer no
    /// longer owns any of it. Returns the pieces that are missing again once the log records that,
    /// which it already does for pieces never written. Returns `None` if the report does not count.
    pub(crate) fn handle_untaken(
        &mut self,
        piece: u32,
        generation: u32,
        peer: PeerNumber,
    ) -> Option<Vec<u32>> {
        if generation != self.generation_of(piece) || !self.is_owned(piece, peer) {
            return None;
        }
        match (self.pieces.get(piece as usize)?, self.state(piece)) {
            (Piece::Pack { .. }, PieceState::Written) => Some(self.lose(vec![piece])),
            (Piece::Extent { .. } | Piece::Finish { .. }, PieceState::Granted)
                if !self.rechecking.contains(&piece) =>
            {
                self.set(piece, PieceState::Missing);
                self.note_unmade(piece);
                Some(Vec::new())
            }
            _ => None,
        }
    }

    /// Returns whether a piece is being checked again, rather than written.
    pub(crate) fn is_rechecking(&self, piece: u32) -> bool {
        self.rechecking.contains(&piece)
    }

    /// Handles the loss of a large file's temporary file. If all of the file is durable, it may
    /// just have got its name; its finish will show that (A6).
    pub(crate) fn handle_lost(&mut self, entry: u32, generation: u32) -> Vec<u32> {
        match self.large.get(&entry) {
            Some(file)
                if file.generation == generation
                    && !file.failed
                    && (file.durable as usize) < file.digests.len() =>
            {
                self.begin_generation(entry)
            }
            _ => Vec::new(),
        }
    }

    fn begin_generation(&mut self, entry: u32) -> Vec<u32> {
        let Some(file) = self.large.get_mut(&entry) else { return Vec::new() };
        file.generation += 1;
        file.started = false;
        file.durable = 0;
        file.digests.fill(None);
        file.seen = None;
        file.maker = None;
        let (generation, pieces) = (file.generation, (file.first..=file.finish));
        self.note_stale(pieces.clone(), entry, generation - 1);
        for piece in pieces.clone() {
            self.uncount(piece);
            self.set(piece, PieceState::Missing);
        }
        self.append(JournalRecord::Generation { entry, generation });
        pieces
            .filter(|piece| matches!(self.pieces[*piece as usize], Piece::Extent { .. }))
            .collect()
    }

    /// Handles a failed sync of a peer. Its writes and names do not count, nor do the pieces
    /// `unseen` that it wrote in an earlier run (A4). Returns the pieces that are missing again.
    pub(crate) fn handle_sync_failed(
        &mut self,
        peer: PeerNumber,
        unseen: impl Iterator<Item = u32>,
    ) -> Vec<u32> {
        let doubtful = |piece: &u32| {
            matches!(self.state(*piece), PieceState::Written | PieceState::Published)
                && self.is_owned(*piece, peer)
        };
        let mut lost: Vec<u32> = (0..self.states.len() as u32).filter(doubtful).collect();
        lost.extend(unseen.filter(|piece| self.state(*piece) == PieceState::Granted));
        self.lose(lost)
    }

    pub(crate) fn lose(&mut self, pieces: Vec<u32>) -> Vec<u32> {
        if pieces.is_empty() {
            return pieces;
        }
        let mut logged = Vec::new();
        for piece in &pieces {
            self.uncount(*piece);
            logged.push(*piece);
            self.set(*piece, PieceState::Missing);
        }
        self.append(JournalRecord::Missing { pieces: logged });
        pieces
    }

    fn append(&mut self, record: JournalRecord) {
        record.append_to(&mut self.log);
    }

    /// Appends a record of written data, and before it the incarnation, if that has changed.
    fn append_written(&mut self, under: Incarnation, record: &JournalRecord) {
        if self.logged_under.replace(under) != Some(under) {
            JournalRecord::Incarnation(under).append_to(&mut self.log);
        }
        record.append_to(&mut self.log);
    }

    /// Takes the bytes to be appended to the page's log, and the log's length after that.
    pub(crate) fn take_log(&mut self) -> (Vec<u8>, u64) {
        self.check();
        let log = std::mem::take(&mut self.log);
        self.log_bytes += log.len() as u64;
        (log, self.log_bytes)
    }

    /// Asserts the relations of states, owners and counts whenever a log is committed.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let (mut unsettled, mut missing) = (0, 0);
        for (at, (state, owner)) in self.states.iter().zip(&self.owners).enumerate() {
            unsettled += u32::from(!is_settled(*state));
            missing += if *state == PieceState::Missing { self.pieces[at].worth() } else { 0 };
            let is_idle = is_settled(*state) || *state == PieceState::Missing;
            assert!(*owner == NOBODY || !is_idle, "piece {at} is {state:?} and has an owner (B3)");
        }
        assert_eq!(unsettled, self.unsettled, "page {}: unsettled pieces", self.number);
        assert_eq!(missing, self.missing_bytes, "page {}: missing bytes", self.number);
        for piece in &self.rechecking {
            assert_eq!(self.state(*piece), PieceState::Granted, "{piece} is checked again");
        }
        for (entry, file) in &self.large {
            let durable = |piece: &u32| self.state(*piece) == PieceState::Durable;
            let count = file.extents().filter(durable).count();
            assert!(file.failed || count == file.durable as usize, "durable extents of {entry}");
            let named = matches!(
                self.state(file.finish),
                PieceState::Granted | PieceState::Published | PieceState::Durable
            );
            let is_whole = count == file.digests.len();
            assert!(!named || is_whole, "entry {entry} gets a name before it is durable (A6)");
        }
    }

    /// Returns the length of the log with everything that was taken of it.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Returns whether records wait to be committed.
    pub(crate) fn has_log(&self) -> bool {
        !self.log.is_empty()
    }
}
