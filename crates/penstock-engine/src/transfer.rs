//! The ledger of one transfer, and the order in which its work is handed out.
//!
//! The edge feeds pages (new ones, or pages with their logs after a restart), asks for work on
//! behalf of a peer, hands in the peer's reports, and commits what [`TransferMachine::take_commit`]
//! gives at least once a second. A transfer passes through five phases:
//!
//! 1. *moving*: pieces are fetched in random order within a window of open pages (E3); packs are
//!    renamed by their writer after its sync, large files once all their extents are durable *and
//!    committed* (A6);
//! 2. *links*: directories that are empty and symbolic links are made, page by page, when all files
//!    are final (C5: links come last, so that nothing is ever written through one);
//! 3. *deleting*, where it is asked for: what is not in the data set goes;
//! 4. *directories*: modes and times, children before parents (B5);
//! 5. *done*: after the last sync.
//!
//! Memory follows the open pages, whose number is bounded; a page that is durable and committed is
//! reduced to a few counts.

mod asking;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::journal::{EntryFailure, Incarnation, JournalRecord};
use penstock_proto::manifest::Page;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Report, Work, WorkReply};
use penstock_proto::units::{GIB, KIB, MIB};
use rand::{RngExt as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

use crate::page::{Outcome, PageLedger, PieceState};
use crate::slice::Piece;

/// Bounds of what is in progress at a time.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// Open pages; each costs some tens of KiB.
    pub pages: usize,
    /// Pieces of open pages that are not settled.
    pub pieces: usize,
    /// Bytes that can be handed out before another page is opened.
    pub ahead_bytes: u64,
    /// Large files begun and not finished (E3).
    pub files: usize,
    /// Bytes of large files begun and not finished (E3).
    pub file_bytes: u64,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self {
            pages: 1024,
            pieces: 256 * 1024,
            ahead_bytes: 256 * MIB,
            files: 256,
            file_bytes: 64 * GIB,
        }
    }
}

/// Failed syncs in one run after which the transfer gives up: the store is not fit to write to.
pub const SYNC_FAILURES_MAX: u32 = 3;
/// Pages handed out at a time while links are made and directories get their attributes.
const TAIL_PAGES: usize = 8;

/// What is committed of a page, beyond what is appended to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCommit {
    /// Number of the page.
    pub page: u32,
    /// Digest of the encoded page.
    pub digest: Digest,
    /// To be appended to the page's log; may be empty.
    pub append: Vec<u8>,
    /// Length of the log after that.
    pub log_bytes: u64,
    /// Whether the page is settled.
    pub complete: bool,
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Failed entries.
    pub failures: u64,
    /// Files that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// Whether the source is to be asked about entries that have changed, or may have.
    pub asks: bool,
}

/// One commit of the ledger: append to the logs, then commit the heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerCommit {
    /// Pages with news.
    pub pages: Vec<PageCommit>,
    /// The last epoch that was synced, if that is news. The logs are to be synced before the heads
    /// are committed, and the heads durably (A8).
    pub synced: Option<u64>,
}

/// What a restarted transfer knows of a page from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStanding {
    /// Digest of the encoded page.
    pub digest: Digest,
    /// Length of the log that counts.
    pub log_bytes: u64,
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Failed entries.
    pub failures: u64,
    /// Files that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// Whether the source is to be asked about entries that have changed, or may have.
    pub asks: bool,
}

/// Where a transfer stands as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Pieces are fetched.
    Moving,
    /// The edge asks the source about entries that have changed: see [`TransferMachine::asking`].
    Asking,
    /// Links are made.
    Links,
    /// The edge deletes at the target what is not in the data set.
    Deleting,
    /// Attributes of directories are set.
    Directories,
    /// Everything is durable.
    Done,
}

/// Totals of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Bytes durable.
    pub bytes_durable: u64,
    /// Bytes found in the ledger when the transfer was taken up again.
    pub bytes_resumed: u64,
    /// Failed entries.
    pub failures: u64,
    /// Files that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
}

#[derive(Debug)]
struct OpenPage {
    ledger: PageLedger,
    /// Missing pieces in random order; taken from the end.
    missing: Vec<u32>,
    /// Missing pieces that may not be handed out before the log says how the page was cut.
    held: Vec<u32>,
    /// Missing extents of files that may not be begun yet (E3).
    deferred: Vec<u32>,
    rechecks: VecDeque<Work>,
}

#[derive(Clone, Debug)]
struct ClosedPage {
    standing: PageStanding,
    log: Vec<u8>,
}

/// The ledger and the order of work of one transfer.
#[derive(Debug)]
pub struct TransferMachine {
    limits: WindowLimits,
    rng: ChaCha8Rng,
    kind: DigestKind,
    incarnation: Incarnation,
    open: BTreeMap<u32, OpenPage>,
    closed: BTreeMap<u32, ClosedPage>,
    next_page: u32,
    pages_total: Option<u32>,
    /// Pieces that the sync of an epoch, or of a later one, makes durable.
    settling: BTreeMap<u64, Vec<PieceRef>>,
    urgent: VecDeque<Work>,
    /// Large files begun and not finished: (page, finish piece) and their sizes.
    begun: BTreeMap<(u32, u32), u64>,
    begun_bytes: u64,
    /// Open pages with missing pieces; a scratch list of one call.
    candidates: Vec<u32>,
    /// Pieces that are missing again, and may be handed out once the log that says so is committed:
    /// else a log that still calls them written would outlive what the next attempt overwrites.
    again_next: Vec<PieceRef>,
    again_committing: Vec<PieceRef>,
    /// Failed large files whose temporary files may go once the log says that they failed: until
    /// then it calls their extents durable.
    discard_next: Vec<Work>,
    discard_committing: Vec<Work>,
    /// Files whose last extent became durable in the commit being built, or in flight.
    finish_next: Vec<PieceRef>,
    finish_committing: Vec<PieceRef>,
    phase: Phase,
    /// Pages handed out in the links or directories phase, and the next one.
    tail_next: u32,
    tail_out: BTreeSet<u32>,
    /// The epoch that must be synced before the phase ends.
    tail_epoch: u64,
    /// Links and directories that failed: (page, entry).
    tail_failed: BTreeSet<(u32, u32)>,
    synced: u64,
    synced_news: Option<u64>,
    sync_failures: u32,
    bytes_resumed: u64,
    failures_news: Vec<(u32, EntryFailure)>,
    /// Pages wait for what was decided of them to be committed.
    compared_news: bool,
    deletes: bool,
    asks: bool,
}

impl LedgerCommit {
    /// Whether the commit must survive a power cut, its logs being synced before (A8): data were
    /// made durable, or a page is never looked at again.
    pub fn is_durable(&self) -> bool {
        self.synced.is_some() || self.pages.iter().any(|page| page.complete)
    }
}

impl TransferMachine {
    /// A machine that begins after the synced epoch `epoch`, with the pages that are complete
    /// already. `seed` makes the order of work repeatable.
    pub fn new(
        kind: DigestKind,
        incarnation: Incarnation,
        epoch: u64,
        complete: impl IntoIterator<Item = (u32, PageStanding)>,
        limits: WindowLimits,
        seed: u64,
    ) -> Self {
        let closed: BTreeMap<_, _> = complete
            .into_iter()
            .map(|(page, standing)| (page, ClosedPage { standing, log: Vec::new() }))
            .collect();
        let bytes_resumed = closed.values().map(|page| page.standing.bytes).sum();
        Self {
            limits,
            rng: ChaCha8Rng::seed_from_u64(seed),
            kind,
            incarnation,
            open: BTreeMap::new(),
            closed,
            next_page: 0,
            pages_total: None,
            settling: BTreeMap::new(),
            urgent: VecDeque::new(),
            begun: BTreeMap::new(),
            begun_bytes: 0,
            candidates: Vec::new(),
            again_next: Vec::new(),
            again_committing: Vec::new(),
            discard_next: Vec::new(),
            discard_committing: Vec::new(),
            finish_next: Vec::new(),
            finish_committing: Vec::new(),
            phase: Phase::Moving,
            tail_next: 0,
            tail_out: BTreeSet::new(),
            tail_epoch: 0,
            tail_failed: BTreeSet::new(),
            synced: epoch,
            synced_news: None,
            sync_failures: 0,
            bytes_resumed,
            failures_news: Vec::new(),
            compared_news: false,
            deletes: false,
            asks: false,
        }
    }

    /// The page to be opened next, if the window has room for it: the edge reads it, and gives it
    /// to [`TransferMachine::handle_page`], or says that the scan is complete.
    pub fn wants_page(&mut self) -> Option<u32> {
        while self.is_known(self.next_page) {
            self.next_page += 1;
        }
        let more = self.pages_total.is_none_or(|total| self.next_page < total);
        let room = self.open.len() < self.limits.pages
            && self.open_pieces() < self.limits.pieces
            && self.ahead_bytes() < self.limits.ahead_bytes;
        (self.phase == Phase::Moving && more && room).then_some(self.next_page)
    }

    fn is_known(&self, page: u32) -> bool {
        self.closed.contains_key(&page) || self.open.contains_key(&page)
    }

    fn open_pieces(&self) -> usize {
        self.open.values().map(|page| page.ledger.pieces().len()).sum()
    }

    fn ahead_bytes(&self) -> u64 {
        let ahead = |page: &OpenPage| {
            let pieces = page.ledger.pieces();
            let missing = page.missing.iter().chain(&page.held);
            let bytes = missing.map(|piece| pieces[*piece as usize].bytes());
            bytes.map(|bytes| bytes.max(64 * KIB)).sum::<u64>()
        };
        self.open.values().map(ahead).sum()
    }

    /// Opens a page. `log` is what is committed of it, with its length in bytes; empty for a page
    /// that is new. With `doubt_all`, nothing that the log says is believed unseen (A5).
    ///
    /// After a restart all pages that have a log and are not complete are to be given before any
    /// work is asked for, wanted or not: they are no more than the window of the run before, and a
    /// sync that fails from now on must be told in the logs of all of them (A4). With `doubt_all`
    /// that is not needed, for then nothing is believed.
    pub fn handle_page(
        &mut self,
        page: &Page,
        digest: Digest,
        log: impl IntoIterator<Item = JournalRecord>,
        log_bytes: u64,
        doubt_all: bool,
    ) {
        let log: Vec<JournalRecord> = log.into_iter().collect();
        let compared = compared_of(&log).cloned().unwrap_or_default();
        let number = page.number;
        let mut ledger = PageLedger::new(page, digest, self.kind, self.incarnation, &compared);
        let rechecks = ledger.replay(log, log_bytes, doubt_all);
        self.urgent.extend(ledger.discards());
        let (_, bytes, _, _) = ledger.counts();
        let rechecked: u64 = rechecks
            .iter()
            .map(|work| match work {
                Work::Recheck { piece, .. } => ledger.pieces()[piece.piece as usize].bytes(),
                _ => 0,
            })
            .sum();
        self.bytes_resumed += bytes + rechecked;
        let mut missing = ledger.fetchable();
        missing.shuffle(&mut self.rng);
        for finish in ledger.finishable() {
            self.finish_next.push(PieceRef { page: number, piece: finish });
        }
        for (index, piece) in ledger.pieces().iter().enumerate() {
            if matches!(piece, Piece::Finish { .. })
                && let Some((bytes, true)) = ledger.large_file(index as u32)
                && ledger.state(index as u32) == PieceState::Missing
            {
                self.begun.insert((number, index as u32), bytes);
                self.begun_bytes += bytes;
            }
        }
        let (held, deferred) = (Vec::new(), Vec::new());
        self.insert_page(number, OpenPage { ledger, missing, held, deferred, rechecks });
    }

    /// Opens a new page of which `compared` says what stays as it is at the target. Its pieces are
    /// handed out once that is committed: a resume then cuts the page in the same way.
    pub fn handle_compared_page(&mut self, page: &Page, digest: Digest, compared: Comparison) {
        let mut ledger = PageLedger::new(page, digest, self.kind, self.incarnation, &compared);
        let number = page.number;
        let news = compared.failed.iter().map(|failure| (number, *failure));
        self.failures_news.extend(news);
        ledger.log_compared(compared);
        let mut held = ledger.fetchable();
        held.shuffle(&mut self.rng);
        let (missing, deferred) = (Vec::new(), Vec::new());
        let rechecks = VecDeque::new();
        self.insert_page(number, OpenPage { ledger, missing, held, deferred, rechecks });
        self.compared_news = true;
    }

    fn insert_page(&mut self, number: u32, page: OpenPage) {
        self.open.insert(number, page);
        if self.next_page == number {
            self.next_page += 1;
        }
    }

    /// The scan is complete: there are `pages` pages.
    pub fn handle_scan_end(&mut self, pages: u32) {
        self.pages_total = Some(pages);
        self.advance();
    }

    /// Failures of links and directories that the log of a complete page holds, told after a
    /// restart: what fails once more is not counted again.
    pub fn handle_known_failures(&mut self, page: u32, entries: impl IntoIterator<Item = u32>) {
        self.tail_failed.extend(entries.into_iter().map(|entry| (page, entry)));
    }

    /// The peer is gone, and with it what it knew of written pieces that wait for a sync or a name:
    /// all that is not durable is missing again. Another peer may be given work; reports of the old
    /// one must not be handed in any more. To look again at what it wrote rather than fetch it,
    /// commit, and begin anew with the committed logs.
    pub fn handle_peer_lost(&mut self) {
        self.urgent.retain(|work| matches!(work, Work::Discard { .. }));
        self.settling.clear();
        let numbers: Vec<u32> = self.open.keys().copied().collect();
        for number in numbers {
            let Some(page) = self.open.get_mut(&number) else { continue };
            let kept: BTreeSet<u32> = page.rechecks.iter().filter_map(piece_of).collect();
            let again = page.ledger.handle_peer_lost(&kept);
            self.put_back(number, again);
        }
        if matches!(self.phase, Phase::Links | Phase::Directories) {
            self.begin_tail(self.phase);
        }
    }

    /// Work for a peer that can take about `bytes` more.
    pub fn poll_work(&mut self, bytes: u64) -> WorkReply {
        let mut reply = WorkReply::default();
        reply.work.extend(self.urgent.drain(..));
        match self.phase {
            Phase::Moving => self.poll_moving(bytes, &mut reply),
            Phase::Links | Phase::Directories => self.poll_tail(&mut reply),
            Phase::Asking | Phase::Deleting | Phase::Done => {}
        }
        reply
    }

    fn poll_moving(&mut self, bytes: u64, reply: &mut WorkReply) {
        let mut given = 0;
        for page in self.open.values_mut() {
            while given < bytes {
                let Some(work) = page.rechecks.pop_front() else { break };
                if let Work::Recheck { piece, .. } = &work {
                    given += page.ledger.pieces()[piece.piece as usize].bytes().max(4096);
                }
                reply.work.push(work);
            }
        }
        self.list_candidates();
        while given < bytes {
            let Some(number) = self.random_page() else { break };
            match self.grant_from(number) {
                Some((work, size)) => {
                    given += size.max(4096);
                    reply.work.push(work);
                }
                None => continue,
            }
        }
        reply.flush = reply.work.is_empty() && self.must_flush();
    }

    fn random_page(&mut self) -> Option<u32> {
        while !self.candidates.is_empty() {
            let at = self.rng.random_range(0..self.candidates.len());
            let number = self.candidates[at];
            if self.open.get(&number).is_some_and(|page| !page.missing.is_empty()) {
                return Some(number);
            }
            self.candidates.swap_remove(at);
        }
        None
    }

    /// Rebuilds the list that [`TransferMachine::random_page`] draws from.
    fn list_candidates(&mut self) {
        self.candidates.clear();
        let missing = self.open.iter().filter(|(_, page)| !page.missing.is_empty());
        self.candidates.extend(missing.map(|(number, _)| *number));
    }

    /// Takes one missing piece off a page; `None` if it was put aside or is no longer missing.
    fn grant_from(&mut self, number: u32) -> Option<(Work, u64)> {
        let page = self.open.get_mut(&number)?;
        let index = page.missing.pop()?;
        if page.ledger.state(index) != PieceState::Missing {
            return None;
        }
        if let Some((size, started)) = page.ledger.large_file(index) {
            let full = self.begun.len() >= self.limits.files
                || self.begun_bytes + size > self.limits.file_bytes;
            let finish = finish_of(&page.ledger, index)?;
            let begun = self.begun.contains_key(&(number, finish));
            if !started && !begun && full && !self.begun.is_empty() {
                page.deferred.push(index);
                return None;
            }
            if !started {
                let before = self.begun.insert((number, finish), size);
                self.begun_bytes += size - before.unwrap_or(0);
            }
        }
        let bytes = page.ledger.pieces()[index as usize].bytes();
        Some((page.ledger.grant(index)?, bytes))
    }

    /// Whether only a sync brings the transfer on: all that can be fetched is fetched, or the
    /// window is full of what is not durable.
    fn must_flush(&self) -> bool {
        let all_known = self.pages_total.is_some_and(|total| self.next_page >= total);
        let full = self.open.len() >= self.limits.pages
            || self.open_pieces() >= self.limits.pieces
            || self.open.values().any(|page| !page.deferred.is_empty());
        (all_known || full)
            && !self.open.is_empty()
            && !self.open.values().any(|page| page.ledger.is_in_hand())
    }

    fn poll_tail(&mut self, reply: &mut WorkReply) {
        let total = self.pages_total.unwrap_or(0);
        while self.tail_out.len() < TAIL_PAGES {
            let page = match self.phase {
                Phase::Links if self.tail_next < total => {
                    self.tail_next += 1;
                    self.tail_next - 1
                }
                Phase::Directories if self.tail_next > 0 => {
                    self.tail_next -= 1;
                    self.tail_next
                }
                _ => break,
            };
            self.tail_out.insert(page);
            reply.work.push(match self.phase {
                Phase::Links => Work::Links { page },
                _ => Work::Directories { page },
            });
        }
        reply.flush = reply.work.is_empty() && self.tail_out.is_empty();
    }

    /// Takes over what a peer did.
    pub fn handle_reports(&mut self, reports: impl IntoIterator<Item = Report>) {
        for report in reports {
            self.handle_report(report);
        }
        self.advance();
    }

    fn handle_report(&mut self, report: Report) {
        match report {
            Report::Written { piece, generation, epoch, digests, failures, .. } => {
                let Some(page) = self.open.get_mut(&piece.page) else { return };
                let news = failures.clone();
                let outcome =
                    page.ledger.handle_written(piece.piece, generation, epoch, digests, failures);
                self.handle_outcome(piece, epoch, outcome, &news, false);
            }
            Report::Published { piece, generation, epoch, failures } => {
                let Some(page) = self.open.get_mut(&piece.page) else { return };
                let outcome =
                    page.ledger.handle_published(piece.piece, generation, epoch, &failures);
                self.handle_outcome(piece, epoch, outcome, &failures, true);
            }
            Report::Returned { piece, generation } => {
                let Some(page) = self.open.get_mut(&piece.page) else { return };
                let again = page.ledger.handle_returned(piece.piece, generation);
                self.put_back(piece.page, again);
            }
            Report::Lost { page: number, entry, generation } => {
                let Some(page) = self.open.get_mut(&number) else { return };
                let again = page.ledger.handle_lost(entry, generation);
                self.put_back(number, again);
            }
            Report::Synced { epoch } => self.handle_synced(epoch),
            Report::SyncFailed { .. } => self.handle_sync_failed(),
            Report::LinksDone { page, failures, epoch } => {
                self.handle_tail(Phase::Links, page, &failures, epoch);
            }
            Report::DirectoriesDone { page, failures, epoch } => {
                self.handle_tail(Phase::Directories, page, &failures, epoch);
            }
        }
    }

    fn handle_outcome(
        &mut self,
        piece: PieceRef,
        epoch: u64,
        outcome: Outcome,
        failures: &[EntryFailure],
        published: bool,
    ) {
        if outcome == Outcome::Ignored {
            return;
        }
        self.failures_news.extend(failures.iter().map(|failure| (piece.page, *failure)));
        if let Outcome::Discard { entry, generation } = outcome {
            self.discard_next.push(Work::Discard { page: piece.page, entry, generation });
            self.forget_begun(piece);
            return;
        }
        let Some(page) = self.open.get(&piece.page) else { return };
        let kind = page.ledger.pieces()[piece.piece as usize];
        if published || matches!(kind, Piece::Extent { .. }) {
            self.settling.entry(epoch).or_default().push(piece);
        }
        if matches!(kind, Piece::Finish { .. }) {
            self.forget_begun(piece);
        }
    }

    fn forget_begun(&mut self, piece: PieceRef) {
        let Some(page) = self.open.get_mut(&piece.page) else { return };
        let Some(finish) = finish_of(&page.ledger, piece.piece) else { return };
        if let Some(bytes) = self.begun.remove(&(piece.page, finish)) {
            self.begun_bytes -= bytes;
        }
        for page in self.open.values_mut() {
            page.missing.append(&mut page.deferred);
        }
    }

    /// Takes note of pieces that are missing again. What an earlier attempt wrote of them must not
    /// be called durable by the sync that it waited for (A9).
    fn put_back(&mut self, number: u32, pieces: Vec<u32>) {
        if pieces.is_empty() {
            return;
        }
        let gone: BTreeSet<u32> = pieces.into_iter().collect();
        for settling in self.settling.values_mut() {
            settling.retain(|piece| piece.page != number || !gone.contains(&piece.piece));
        }
        let Some(page) = self.open.get_mut(&number) else { return };
        page.rechecks.retain(|work| piece_of(work).is_none_or(|piece| !gone.contains(&piece)));
        for piece in gone {
            let reference = PieceRef { page: number, piece };
            match page.ledger.pieces()[piece as usize] {
                Piece::Finish { .. } => self.finish_next.push(reference),
                _ => self.again_next.push(reference),
            }
        }
    }

    /// Pieces that are missing again may be handed out.
    fn hand_out_again(&mut self) {
        for piece in std::mem::take(&mut self.again_committing) {
            let Some(page) = self.open.get_mut(&piece.page) else { continue };
            if page.ledger.state(piece.piece) == PieceState::Missing {
                let at = self.rng.random_range(0..=page.missing.len());
                page.missing.insert(at, piece.piece);
            }
        }
    }

    fn handle_synced(&mut self, epoch: u64) {
        self.synced = self.synced.max(epoch);
        self.synced_news = Some(self.synced);
        let later = self.settling.split_off(&(epoch + 1));
        let settled = std::mem::replace(&mut self.settling, later);
        let mut by_page: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for piece in settled.into_values().flatten() {
            let Some(page) = self.open.get_mut(&piece.page) else { continue };
            if page.ledger.handle_durable(piece.piece) {
                by_page.entry(piece.page).or_default().push(piece.piece);
            }
        }
        for (number, pieces) in by_page {
            let Some(page) = self.open.get_mut(&number) else { continue };
            page.ledger.log_durable(pieces);
            for piece in page.ledger.finishable() {
                let reference = PieceRef { page: number, piece };
                if !self.finish_next.contains(&reference) {
                    self.finish_next.push(reference);
                }
            }
        }
    }

    fn handle_sync_failed(&mut self) {
        self.sync_failures += 1;
        self.settling.clear();
        let numbers: Vec<u32> = self.open.keys().copied().collect();
        for number in numbers {
            let Some(page) = self.open.get_mut(&number) else { continue };
            let believed = |work: &Work| matches!(work, Work::Recheck { doubt: false, .. });
            let unseen = page.rechecks.iter().filter(|work| believed(work)).filter_map(piece_of);
            let again = page.ledger.handle_sync_failed(unseen);
            page.rechecks.retain(|work| !believed(work));
            self.put_back(number, again);
        }
        if matches!(self.phase, Phase::Links | Phase::Directories) {
            self.begin_tail(self.phase);
        }
    }

    fn handle_tail(&mut self, phase: Phase, page: u32, failures: &[EntryFailure], epoch: u64) {
        if self.phase != phase || !self.tail_out.remove(&page) {
            return;
        }
        self.tail_epoch = self.tail_epoch.max(epoch);
        let Some(closed) = self.closed.get_mut(&page) else { return };
        for failure in failures {
            if !self.tail_failed.insert((page, failure.entry)) {
                continue;
            }
            closed.standing.failures += 1;
            JournalRecord::Failed(*failure).append_to(&mut closed.log);
            self.failures_news.push((page, *failure));
        }
    }

    /// Moves on to the next phase when the present one is over.
    fn advance(&mut self) {
        let Some(total) = self.pages_total else { return };
        match self.phase {
            Phase::Moving => {
                let all_closed =
                    self.open.is_empty() && self.closed.len() as u64 >= u64::from(total);
                if all_closed && self.has_to_ask() {
                    self.phase = Phase::Asking;
                } else if all_closed {
                    self.begin_tail(Phase::Links);
                }
            }
            Phase::Links => {
                if self.tail_next >= total && self.tail_out.is_empty() && self.tail_synced() {
                    match self.deletes {
                        true => self.phase = Phase::Deleting,
                        false => self.begin_tail(Phase::Directories),
                    }
                }
            }
            Phase::Directories => {
                if self.tail_next == 0 && self.tail_out.is_empty() && self.tail_synced() {
                    self.phase = Phase::Done;
                }
            }
            Phase::Asking | Phase::Deleting | Phase::Done => {}
        }
    }

    /// When all files and links are durable, the machine waits until the edge has deleted what is
    /// not in the data set: the attributes of directories come after.
    pub fn wait_for_deletion(&mut self) {
        self.deletes = true;
    }

    /// What was to be deleted is, or nothing will be.
    pub fn handle_deleted(&mut self) {
        if self.phase == Phase::Deleting {
            self.begin_tail(Phase::Directories);
            self.advance();
        }
    }

    fn tail_synced(&self) -> bool {
        self.synced >= self.tail_epoch
    }

    fn begin_tail(&mut self, phase: Phase) {
        self.phase = phase;
        self.tail_out.clear();
        self.tail_epoch = 0;
        self.tail_next = match phase {
            Phase::Directories => self.pages_total.unwrap_or(0),
            _ => 0,
        };
        self.advance_empty();
    }

    /// A transfer without pages has nothing to do in the last phases.
    fn advance_empty(&mut self) {
        if self.pages_total == Some(0) {
            self.phase = Phase::Done;
        }
    }

    /// What is to be committed now; `None` if there is no news. Until
    /// [`TransferMachine::handle_committed`] no other commit may be taken.
    pub fn take_commit(&mut self) -> Option<LedgerCommit> {
        let mut pages = Vec::new();
        for (number, page) in &mut self.open {
            let complete = page.ledger.is_settled();
            if !page.ledger.has_log() && !complete {
                continue;
            }
            let (append, log_bytes) = page.ledger.take_log();
            let (files, bytes, _, failures) = page.ledger.counts();
            let (kept, kept_bytes) = page.ledger.kept();
            let digest = page.ledger.digest();
            let asks = page.ledger.asks();
            let page = *number;
            pages.push(PageCommit {
                page,
                digest,
                append,
                log_bytes,
                complete,
                files,
                bytes,
                failures,
                kept,
                kept_bytes,
                asks,
            });
        }
        for (number, page) in &mut self.closed {
            if page.log.is_empty() {
                continue;
            }
            let append = std::mem::take(&mut page.log);
            page.standing.log_bytes += append.len() as u64;
            pages.push(PageCommit {
                page: *number,
                digest: page.standing.digest,
                append,
                log_bytes: page.standing.log_bytes,
                complete: true,
                files: page.standing.files,
                bytes: page.standing.bytes,
                failures: page.standing.failures,
                kept: page.standing.kept,
                kept_bytes: page.standing.kept_bytes,
                asks: page.standing.asks,
            });
        }
        self.compared_news = false;
        self.finish_committing.append(&mut self.finish_next);
        self.again_committing.append(&mut self.again_next);
        self.discard_committing.append(&mut self.discard_next);
        let synced = self.synced_news.take();
        let idle = pages.is_empty() && synced.is_none() && self.finish_committing.is_empty();
        (!idle).then_some(LedgerCommit { pages, synced })
    }

    /// The commit has been made: what waited for it may go on (A6).
    pub fn handle_committed(&mut self, commit: &LedgerCommit) {
        self.hand_out_again();
        self.urgent.extend(self.discard_committing.drain(..));
        for piece in std::mem::take(&mut self.finish_committing) {
            if let Some(page) = self.open.get_mut(&piece.page) {
                let ready = page.ledger.finishable().contains(&piece.piece);
                if ready && let Some(work) = page.ledger.grant(piece.piece) {
                    self.urgent.push_back(work);
                }
            }
        }
        for cut in &commit.pages {
            if let Some(page) = self.open.get_mut(&cut.page) {
                page.missing.append(&mut page.held);
            }
        }
        for done in commit.pages.iter().filter(|page| page.complete) {
            let Some(page) = self.open.get(&done.page) else { continue };
            if !page.ledger.is_settled() || page.ledger.has_log() {
                continue;
            }
            let standing = PageStanding {
                digest: done.digest,
                log_bytes: done.log_bytes,
                files: done.files,
                bytes: done.bytes,
                failures: done.failures,
                kept: done.kept,
                kept_bytes: done.kept_bytes,
                asks: done.asks,
            };
            self.open.remove(&done.page);
            self.closed.insert(done.page, ClosedPage { standing, log: Vec::new() });
        }
        self.advance();
    }

    /// Whether something waits for a commit and for nothing else, so that committing now rather
    /// than at the next interval brings the transfer on.
    pub fn commit_is_urgent(&self) -> bool {
        self.compared_news
            || self.synced_news.is_some()
            || !self.finish_next.is_empty()
            || !self.again_next.is_empty()
    }

    /// The greatest attempt number of any large file of an open page.
    pub fn generation_max(&self) -> u32 {
        self.open.values().map(|page| page.ledger.generation_max()).max().unwrap_or(0)
    }

    /// Where the transfer stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the store failed to sync too often to go on.
    pub fn is_broken(&self) -> bool {
        self.sync_failures >= SYNC_FAILURES_MAX
    }

    /// Sums over all pages.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { bytes_resumed: self.bytes_resumed, ..Totals::default() };
        for page in self.closed.values() {
            totals.files += page.standing.files;
            totals.bytes += page.standing.bytes;
            totals.bytes_durable += page.standing.bytes;
            totals.failures += page.standing.failures;
            totals.kept += page.standing.kept;
            totals.kept_bytes += page.standing.kept_bytes;
        }
        for page in self.open.values() {
            let (files, bytes, durable, failures) = page.ledger.counts();
            totals.files += files;
            totals.bytes += bytes;
            totals.bytes_durable += durable;
            totals.failures += failures;
            let (kept, kept_bytes) = page.ledger.kept();
            totals.kept += kept;
            totals.kept_bytes += kept_bytes;
        }
        totals
    }

    /// Failures since the last call, with their pages.
    pub fn take_failures(&mut self) -> Vec<(u32, EntryFailure)> {
        std::mem::take(&mut self.failures_news)
    }

    /// Number of open pages and the last epoch that was synced: for diagnosis.
    pub fn standing(&self) -> (usize, u64) {
        (self.open.len(), self.synced)
    }
}

/// What a log says of how its page was compared with the target; `None` if it does not.
pub fn compared_of(log: &[JournalRecord]) -> Option<&Comparison> {
    log.iter().find_map(|record| match record {
        JournalRecord::Compared(comparison) => Some(comparison),
        _ => None,
    })
}

/// The piece that is to be looked at again.
fn piece_of(recheck: &Work) -> Option<u32> {
    match recheck {
        Work::Recheck { piece, .. } => Some(piece.piece),
        _ => None,
    }
}

/// The finish piece of the large file that `piece` belongs to.
fn finish_of(ledger: &PageLedger, piece: u32) -> Option<u32> {
    let entry = match ledger.pieces().get(piece as usize)? {
        Piece::Extent { entry, .. } | Piece::Finish { entry } => *entry,
        Piece::Pack { .. } => return None,
    };
    let rest = ledger.pieces().get(piece as usize..)?;
    let ahead = rest.iter().position(|other| *other == Piece::Finish { entry })?;
    Some(piece + ahead as u32)
}
