//! The ledger of one page: the state of each piece, and the log that state is rebuilt from.
//!
//! ```text
//! pack:    missing → granted → written → published → durable
//! extent:  missing → granted → written → durable
//! finish:  missing → granted → published → durable        (once all extents are durable)
//! any:     → excepted (failed for good)      → missing (failed sync, lost file, new generation)
//! ```
//! *Granted* and *published* are not in the log: after a restart a granted piece is missing, a
//! published one is written. Everything else is, as [`JournalRecord`]s appended in the order in
//! which it happened (hard case A2).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::journal::{
    Amendment, DigestForm, EntryDigest, EntryFailure, FailurePhase, Incarnation, JournalRecord,
};
use penstock_proto::manifest::{EntryKind, Page};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;
use penstock_proto::units::FileTime;

use crate::slice::{Piece, slice_without};

/// Where a piece stands; see the module's story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceState {
    /// To be fetched.
    Missing,
    /// A peer has been told to fetch, check or finish it.
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
    /// Whether an extent was handed out or found in this generation.
    started: bool,
    failed: bool,
    durable: u32,
    digests: Vec<Option<EntryDigest>>,
    /// Change time in the page.
    ctime: FileTime,
    /// The change time under which the extents that are there were read.
    seen: Option<FileTime>,
}

impl LargeFile {
    fn extents(&self) -> std::ops::Range<u32> {
        self.first..self.finish
    }

    /// Notes the change time under which an extent was read; gives whether it is that of the
    /// others: all extents of a file carry one identity (C1).
    fn note_seen(&mut self, digest: Option<&EntryDigest>) -> bool {
        let Some(digest) = digest else { return true };
        let seen = digest.seen.unwrap_or(self.ctime);
        *self.seen.get_or_insert(seen) == seen
    }
}

/// A piece that a log says is written.
struct Found {
    doubt: bool,
    digests: Vec<EntryDigest>,
    failures: Vec<EntryFailure>,
}

/// What [`PageLedger::handle_written`] made of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It counts.
    Accepted,
    /// It is late or stands already: nothing changed.
    Ignored,
    /// The file failed: its temporary file is to be discarded.
    Discard { entry: u32, generation: u32 },
}

/// The failure of a file whose extents are not all of one version (C1).
fn changed(entry: u32) -> EntryFailure {
    EntryFailure { entry, phase: FailurePhase::Changed, errno: 0 }
}

/// Files among what stays as it is, and their bytes.
fn kept_of(page: &Page, compared: &Comparison) -> (u64, u64) {
    let entries = compared.kept.iter().filter_map(|index| page.entry(index).ok());
    let files = entries.filter(|entry| entry.kind == EntryKind::File);
    files.fold((0, 0), |(files, bytes), entry| (files + 1, bytes + entry.size))
}

/// One page's part of the ledger.
#[derive(Debug)]
pub struct PageLedger {
    number: u32,
    digest: Digest,
    kind: DigestKind,
    pieces: Vec<Piece>,
    states: Vec<PieceState>,
    large: BTreeMap<u32, LargeFile>,
    /// Entries that are no files, ascending: they are in no piece.
    others: Vec<u32>,
    /// Failed entries of written pieces: what [`PageLedger::uncount_written`] takes back.
    failed: BTreeMap<u32, u64>,
    unsettled: u32,
    granted: u32,
    log: Vec<u8>,
    log_bytes: u64,
    incarnation: Incarnation,
    incarnation_logged: bool,
    files: u64,
    bytes: u64,
    bytes_durable: u64,
    failures: u64,
    kept: (u64, u64),
    /// Whether the source is to be asked about entries that have changed, or may have.
    asks: bool,
    amended: Amendment,
}

impl PageLedger {
    /// The ledger of a page of which nothing is known but what stays as it is at the target.
    pub fn new(
        page: &Page,
        digest: Digest,
        kind: DigestKind,
        incarnation: Incarnation,
        compared: &Comparison,
    ) -> Self {
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
                    };
                    large.insert(entry, file);
                }
                Piece::Pack { .. } => {}
            }
        }
        Self {
            number: page.number,
            digest,
            kind,
            states: vec![PieceState::Missing; pieces.len()],
            unsettled: pieces.len() as u32,
            granted: 0,
            pieces,
            large,
            others,
            failed: BTreeMap::new(),
            log: Vec::new(),
            log_bytes: 0,
            incarnation,
            incarnation_logged: false,
            files: 0,
            bytes: 0,
            bytes_durable: 0,
            failures: compared.failed.len() as u64,
            kept: if page.round == 0 { kept_of(page, compared) } else { (0, 0) },
            asks: false,
            amended: Amendment::default(),
        }
    }

    /// Notes in the log what was decided of a new page, before anything else.
    pub(crate) fn log_compared(&mut self, compared: Comparison) {
        self.append(JournalRecord::Compared(compared));
    }

    /// Rebuilds the state from the committed part of the page's log, `log_bytes` long. Gives the
    /// pieces that must be looked at again before they count (A2, A5): those that were written and
    /// not durable, or, with `doubt_all`, everything that was written.
    pub fn replay(
        &mut self,
        records: impl IntoIterator<Item = JournalRecord>,
        log_bytes: u64,
        doubt_all: bool,
    ) -> VecDeque<Work> {
        let mut written_under = Incarnation::default();
        let mut found: BTreeMap<u32, Found> = BTreeMap::new();
        let mut asked = false;
        for record in records {
            match record {
                JournalRecord::Incarnation(incarnation) => written_under = incarnation,
                JournalRecord::Written { piece, digests, failures, .. } => {
                    self.note_asks(&digests, &failures);
                    if self.states.get(piece as usize).is_some() {
                        let doubt = doubt_all || written_under != self.incarnation;
                        found.insert(piece, Found { doubt, digests, failures });
                        self.set(piece, PieceState::Written);
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
        // What a later page has taken the place of is not to be found here any more.
        for found in found.values_mut() {
            let amended = &self.amended.entries;
            found.digests.retain(|digest| !amended.contains(&digest.entry));
        }
        self.settle_replay(&found, doubt_all)
    }

    /// Whether something is to be asked about at the source.
    fn note_asks(&mut self, digests: &[EntryDigest], failures: &[EntryFailure]) {
        self.asks |= digests.iter().any(|digest| digest.seen.is_some())
            || failures.iter().any(EntryFailure::may_be_mended);
    }

    /// Whether the source is to be asked about entries that have changed, or may have.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Later pages have newer versions of entries.
    pub(crate) fn amend(&mut self, amendment: Amendment) {
        self.append(JournalRecord::Amended(amendment.clone()));
        self.amended.add(amendment);
    }

    fn replay_state(&mut self, pieces: &[u32], state: PieceState) {
        for piece in pieces {
            self.set(*piece, state);
        }
    }

    /// A large file has failed as a whole; a file of a pack that could not get its name belongs to
    /// its pack, which must not try again. Links and directories are tried again, and tell again.
    fn replay_failure(&mut self, failure: EntryFailure, found: &mut BTreeMap<u32, Found>) {
        self.note_asks(&[], &[failure]);
        if let Some(file) = self.large.get_mut(&failure.entry) {
            self.failures += u64::from(!std::mem::replace(&mut file.failed, true));
            for piece in file.first..=file.finish {
                self.set(piece, PieceState::Excepted);
            }
            return;
        }
        if self.others.binary_search(&failure.entry).is_ok() {
            return;
        }
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
                self.set(piece, PieceState::Missing);
            }
        }
    }

    fn settle_replay(&mut self, found: &BTreeMap<u32, Found>, doubt_all: bool) -> VecDeque<Work> {
        let mut rechecks = VecDeque::new();
        for index in 0..self.pieces.len() {
            let piece = self.pieces[index];
            let state = self.states[index];
            let standing = matches!(state, PieceState::Written | PieceState::Durable);
            if !standing {
                continue;
            }
            if let Piece::Finish { .. } = piece {
                // Finishing is idempotent and cheap: it is done again unless it is durable.
                if state == PieceState::Written || doubt_all {
                    self.set(index as u32, PieceState::Missing);
                } else {
                    self.count_written(index as u32, &[]);
                }
                continue;
            }
            let Some(Found { doubt, digests, failures }) = found.get(&(index as u32)) else {
                self.set(index as u32, PieceState::Missing);
                continue;
            };
            if state == PieceState::Durable && !doubt_all {
                self.replay_durable(index as u32, digests, failures);
                continue;
            }
            self.set(index as u32, PieceState::Granted);
            let generation = self.generation_of(index as u32);
            rechecks.push_back(Work::Recheck {
                piece: PieceRef { page: self.number, piece: index as u32 },
                generation,
                doubt: *doubt,
                digests: digests.clone(),
                failures: failures.clone(),
            });
        }
        self.note_started();
        rechecks
    }

    /// What is left of large files that failed before a restart.
    pub(crate) fn discards(&self) -> impl Iterator<Item = Work> + '_ {
        let failed = self.large.iter().filter(|(_, file)| file.failed);
        failed.map(|(entry, file)| Work::Discard {
            page: self.number,
            entry: *entry,
            generation: file.generation,
        })
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

    /// Number of the page.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Digest of the encoded page.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// All pieces, by index.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Where a piece stands; pieces that do not exist are excepted.
    pub fn state(&self, piece: u32) -> PieceState {
        self.states.get(piece as usize).copied().unwrap_or(PieceState::Excepted)
    }

    /// Whether every piece is durable or excepted.
    pub fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Files that stay as they are at the target, and their bytes.
    pub fn kept(&self) -> (u64, u64) {
        self.kept
    }

    /// Files written, their bytes, the durable ones of these, and failed entries.
    pub fn counts(&self) -> (u64, u64, u64, u64) {
        let amended = &self.amended;
        (
            self.files.saturating_sub(amended.files.into()),
            self.bytes.saturating_sub(amended.bytes),
            self.bytes_durable,
            self.failures.saturating_sub(amended.failures.into()),
        )
    }

    /// Whether a peer has something of this page in hand.
    pub(crate) fn is_in_hand(&self) -> bool {
        self.granted > 0
    }

    /// The only place where a state changes: keeps the counts that depend on it.
    fn set(&mut self, piece: u32, state: PieceState) {
        let Some(slot) = self.states.get_mut(piece as usize) else { return };
        let was = std::mem::replace(slot, state);
        let settled = |state| matches!(state, PieceState::Durable | PieceState::Excepted);
        self.unsettled += u32::from(settled(was));
        self.unsettled -= u32::from(settled(state));
        self.granted += u32::from(state == PieceState::Granted);
        self.granted -= u32::from(was == PieceState::Granted);
    }

    /// The pieces that can be fetched now, in order.
    pub(crate) fn fetchable(&self) -> Vec<u32> {
        let fetchable = |index: &u32| {
            self.states[*index as usize] == PieceState::Missing
                && !matches!(self.pieces[*index as usize], Piece::Finish { .. })
        };
        (0..self.pieces.len() as u32).filter(fetchable).collect()
    }

    /// Large files whose extents are all durable and that have no name yet.
    pub(crate) fn finishable(&self) -> Vec<u32> {
        let ready = |file: &&LargeFile| {
            self.states[file.finish as usize] == PieceState::Missing
                && file.durable as usize == file.digests.len()
        };
        self.large.values().filter(ready).map(|file| file.finish).collect()
    }

    /// The attempt at the file that `piece` is a part of; 0 for packs.
    pub(crate) fn generation_of(&self, piece: u32) -> u32 {
        self.large_of(piece).map_or(0, |file| file.generation)
    }

    pub(crate) fn generation_max(&self) -> u32 {
        self.large.values().map(|file| file.generation).max().unwrap_or(0)
    }

    /// Size of the large file that `piece` belongs to, and whether it was begun; `None` for packs.
    pub(crate) fn large_file(&self, piece: u32) -> Option<(u64, bool)> {
        self.large_of(piece).map(|file| (file.bytes, file.started))
    }

    fn large_of(&self, piece: u32) -> Option<&LargeFile> {
        match self.pieces.get(piece as usize)? {
            Piece::Pack { .. } => None,
            Piece::Extent { entry, .. } | Piece::Finish { entry } => self.large.get(entry),
        }
    }

    /// Hands out a missing piece: a fetch, or the finish of a file.
    pub(crate) fn grant(&mut self, piece: u32) -> Option<Work> {
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
                let file = self.large.get_mut(&entry)?;
                let fresh = !file.started;
                file.started = true;
                Work::Fetch { piece: reference, generation, fresh }
            }
        })
    }

    /// The peer is gone: nothing that it was told to do or that it wrote and did not make durable
    /// counts, except the pieces `kept`. Gives what is missing again.
    pub(crate) fn handle_peer_lost(&mut self, kept: &BTreeSet<u32>) -> Vec<u32> {
        let undone = |piece: &u32| {
            let state = self.state(*piece);
            matches!(state, PieceState::Granted | PieceState::Written | PieceState::Published)
                && !kept.contains(piece)
        };
        let lost: Vec<u32> = (0..self.states.len() as u32).filter(undone).collect();
        let lost = self.lose(lost);
        self.note_started();
        lost
    }

    /// A large file is begun if anything of it stands, or may: else its next attempt starts anew.
    fn note_started(&mut self) {
        for file in self.large.values_mut() {
            let standing = |state| matches!(state, PieceState::Granted | PieceState::Durable);
            file.started = file.extents().any(|piece| standing(self.states[piece as usize]));
        }
    }

    pub(crate) fn handle_written(
        &mut self,
        piece: u32,
        generation: u32,
        epoch: u64,
        digests: Vec<EntryDigest>,
        failures: Vec<EntryFailure>,
    ) -> Outcome {
        let late = !matches!(self.state(piece), PieceState::Granted | PieceState::Missing);
        if late || generation != self.generation_of(piece) {
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
            }
        }
        self.note_asks(&digests, &failures);
        self.set(piece, PieceState::Written);
        self.count_written(piece, &failures);
        self.append(JournalRecord::Written { piece, generation, epoch, digests, failures });
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

    /// Takes a piece out of the counts that its state put it into.
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
        let (range, generation) = (file.first..=file.finish, file.generation);
        for piece in range {
            self.uncount(piece);
            self.set(piece, PieceState::Excepted);
        }
        self.failures += 1;
        self.note_asks(&[], &[failure]);
        self.append(JournalRecord::Failed(failure));
        Outcome::Discard { entry, generation }
    }

    /// A pack or a finished file has its names. Gives whether the report counts.
    pub(crate) fn handle_published(
        &mut self,
        piece: u32,
        generation: u32,
        epoch: u64,
        failures: &[EntryFailure],
    ) -> Outcome {
        if generation != self.generation_of(piece) {
            return Outcome::Ignored;
        }
        match (self.pieces.get(piece as usize), self.state(piece)) {
            (Some(Piece::Pack { .. }), PieceState::Written) => {
                self.count_failed(piece, failures);
                for failure in failures {
                    self.append(JournalRecord::Failed(*failure));
                }
            }
            (Some(Piece::Finish { entry }), PieceState::Granted | PieceState::Missing) => {
                let entry = *entry;
                if let Some(failure) = failures.first() {
                    return self.except_file(entry, *failure);
                }
                let digests: Vec<_> = self.file_digest(entry).into_iter().collect();
                self.count_written(piece, &[]);
                self.append(JournalRecord::Written {
                    piece,
                    generation,
                    epoch,
                    digests,
                    failures: Vec::new(),
                });
            }
            _ => return Outcome::Ignored,
        }
        self.set(piece, PieceState::Published);
        Outcome::Accepted
    }

    /// The digest of a whole large file, merged from its extents; `None` while one is missing.
    fn file_digest(&self, entry: u32) -> Option<EntryDigest> {
        let file = self.large.get(&entry)?;
        let parts: Vec<EntryDigest> = file.digests.iter().copied().collect::<Option<_>>()?;
        let values: Vec<Digest> = parts.iter().map(|part| part.digest).collect();
        let standard = parts.iter().all(|part| part.form == DigestForm::Standard);
        let form = if standard { DigestForm::Standard } else { DigestForm::Sparse };
        let digest = self.kind.merge(&values, file.extent_bytes, file.bytes, standard);
        // That of each extent is in the log already, if they are to be looked at again.
        Some(EntryDigest { entry, form, digest, seen: None })
    }

    /// Pieces have become durable by a sync. Gives whether that changed anything.
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

    /// Appends that pieces are durable to the log; they are given in one record per sync.
    pub(crate) fn log_durable(&mut self, pieces: Vec<u32>) {
        self.append(JournalRecord::Durable { pieces });
    }

    /// A piece is not there and could not be had. Gives the pieces that are missing again.
    pub(crate) fn handle_returned(&mut self, piece: u32, generation: u32) -> Vec<u32> {
        if generation != self.generation_of(piece) {
            return Vec::new();
        }
        match (self.pieces.get(piece as usize), self.state(piece)) {
            (Some(Piece::Finish { entry }), PieceState::Granted) => {
                let entry = *entry;
                self.begin_generation(entry)
            }
            (Some(_), PieceState::Granted | PieceState::Written) => self.lose(vec![piece]),
            _ => Vec::new(),
        }
    }

    /// The temporary file of a large file is gone. If all of it is durable, it may just have got
    /// its name; finishing it will tell (A6).
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
        let (generation, pieces) = (file.generation, (file.first..=file.finish));
        for piece in pieces.clone() {
            self.uncount(piece);
            self.set(piece, PieceState::Missing);
        }
        self.append(JournalRecord::Generation { entry, generation });
        pieces
            .filter(|piece| matches!(self.pieces[*piece as usize], Piece::Extent { .. }))
            .collect()
    }

    /// After a failed sync: nothing written or published counts, nor do the pieces `unseen` that
    /// an earlier run wrote (A4). Gives what is missing again.
    pub(crate) fn handle_sync_failed(&mut self, unseen: impl Iterator<Item = u32>) -> Vec<u32> {
        let doubtful =
            |piece: &u32| matches!(self.state(*piece), PieceState::Written | PieceState::Published);
        let mut lost: Vec<u32> = (0..self.states.len() as u32).filter(doubtful).collect();
        lost.extend(unseen.filter(|piece| self.state(*piece) == PieceState::Granted));
        self.lose(lost)
    }

    fn lose(&mut self, pieces: Vec<u32>) -> Vec<u32> {
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
        if !self.incarnation_logged {
            self.incarnation_logged = true;
            JournalRecord::Incarnation(self.incarnation).append_to(&mut self.log);
        }
        record.append_to(&mut self.log);
    }

    /// Takes what is to be appended to the page's log, and the log's length after that.
    pub(crate) fn take_log(&mut self) -> (Vec<u8>, u64) {
        let log = std::mem::take(&mut self.log);
        self.log_bytes += log.len() as u64;
        (log, self.log_bytes)
    }

    /// Whether something waits to be committed.
    pub(crate) fn has_log(&self) -> bool {
        !self.log.is_empty()
    }
}
