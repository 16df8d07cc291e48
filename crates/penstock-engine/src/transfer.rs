//! The ledger of one transfer, and the order in which its work is handed out.
//!
//! The edge passes in pages (new ones, or pages with their logs after a restart), asks for work on
//! behalf of a peer, and passes in the peer's reports. It commits the result of
//! [`TransferMachine::take_commit`] at least once a second. A transfer has six phases:
//!
//! 1. *moving*: pieces are fetched in random order within a window of open pages (E3). Packs are
//!    renamed by their writer after its sync, large files once all their extents are durable *and
//!    committed* (A6).
//! 2. *asking*: the source is asked about entries that had changed; its newer versions are moved
//!    (C1, C2).
//! 3. *links*: empty directories and symbolic links are made, page by page, when all files are
//!    final. Links come last, so that nothing is ever written through one (C5).
//! 4. *deleting*, if asked for: items that are not in the data set are deleted.
//! 5. *directories*: modes and times are set, children before parents (B5).
//! 6. *done*: the last sync has succeeded.
//!
//! Memory is proportional to the open pages, whose number is bounded; a page that is durable and
//! committed is reduced to a few counts.
//!
//! | module | decides |
//! |---|---|
//! | `open`, `closed` | nothing: the pages and the sums over them. |
//! | `peer`, `open_files` | nothing: one peer, files in progress. |
//! | `commit` | nothing: commits, and facts about pages. |
//! | `piece_map` | nothing: the states of the bytes, for people. |
//! | `staged` | nothing: items that wait for a commit. |
//! | `window` | the bounds of the work in progress. |
//! | `rates` | each peer's share of the last pieces, by its rate. |
//! | `retry_list` | the next peer for a piece that one could not write or name. |
//! | `earlier_writers` | the wait for writers of an earlier controller, and for their reports. |
//! | `tail` | the order of links and directories. |
//!
//! The machine itself has four further parts:
//!
//! | module | steps |
//! |---|---|
//! | `peers` | peers that join and leave, lapsed grants, the pieces of a lost peer. |
//! | `moving` | the next work, large files that wait, and repeated work. |
//! | `reports` | the effects of a report. |
//! | `phases` | questions to the source, links, directories, and the way between them. |

mod closed;
mod commit;
mod earlier_writers;
mod moving;
mod open;
mod open_files;
mod peer;
mod peers;
mod phases;
mod piece_map;
mod rates;
mod reports;
mod retry_list;
mod staged;
mod tail;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::{EntryFailure, Incarnation, JournalRecord};
use penstock_proto::manifest::{EntryKind, Page};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;
use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

use self::closed::ClosedPages;
pub use self::commit::{LedgerCommit, PageCommit, PageStanding, Phase, Totals};
use self::earlier_writers::EarlierWriters;
use self::open::{OpenPage, OpenPages, Under, piece_of};
use self::open_files::OpenFiles;
use self::peer::Peer;
pub use self::peer::{Joining, SYNC_FAILURES_MAX};
pub use self::piece_map::MapBucket;
use self::retry_list::RetryList;
use self::staged::Staged;
use self::tail::Tail;
pub use self::window::WindowLimits;
use crate::page::shares::{Share, ShareBytes};
use crate::page::{PageLedger, PieceState};
use crate::slice::Piece;

/// The ledger and the order of work of one transfer.
#[derive(Debug)]
pub struct TransferMachine {
    /// Bounds of the work in progress: of each peer, and of all of them together.
    window: WindowLimits,
    limits: WindowLimits,
    rng: ChaCha8Rng,
    kind: DigestKind,
    peers: BTreeMap<PeerNumber, Peer>,
    /// Writers of earlier controllers, which may write or report.
    earlier: EarlierWriters,
    open: OpenPages,
    closed: ClosedPages,
    next_page: u32,
    pages_total: Option<u32>,
    /// True once a page of newer versions is known: these come behind the whole first list.
    further: bool,
    /// Next work for any peer.
    urgent: VecDeque<Work>,
    begun: OpenFiles,
    /// Pieces that are missing again, and may be handed out once the log that records that is
    /// committed. Otherwise a log that still calls them written would outlive data that the next
    /// attempt overwrites.
    again: Staged<PieceRef>,
    /// Failed large files whose temporary files may be removed once the log records that they
    /// failed: until then the log calls their extents durable.
    discards: Staged<(Option<PeerNumber>, Work)>,
    /// Files whose last extent became durable: they get their names once the log records that (A6).
    finishes: Staged<PieceRef>,
    /// Pieces that peers could not write or name, and the peers that try next.
    untaken: RetryList,
    /// Pages with pieces of lost peers whose log is to be read once its records are committed.
    logs: Staged<u32>,
    log_ready: VecDeque<(u32, u64)>,
    /// Large files of which lost peers held extents (B1).
    late: BTreeSet<(WriterId, u32, u32)>,
    phase: Phase,
    /// The pages of the links or directories phase.
    tail: Tail,
    synced_news: BTreeMap<WriterId, u64>,
    bytes_resumed: u64,
    failures_news: Vec<(u32, EntryFailure)>,
    /// True if pages wait for the commit of their comparison.
    compared_news: bool,
    deletes: bool,
    asks: bool,
}

impl TransferMachine {
    /// Returns a machine without peers, with the pages that are complete already. `limits` are of
    /// one peer, see [`WindowLimits::of_peers`]. `seed` makes the order of work repeatable.
    pub fn new(
        kind: DigestKind,
        complete: impl IntoIterator<Item = (u32, PageStanding)>,
        limits: WindowLimits,
        seed: u64,
    ) -> Self {
        let mut closed = ClosedPages::default();
        for (page, standing) in complete {
            closed.insert(page, standing, 0);
        }
        let bytes_resumed = closed.totals().bytes;
        Self {
            window: limits,
            limits,
            rng: ChaCha8Rng::seed_from_u64(seed),
            kind,
            peers: BTreeMap::new(),
            earlier: EarlierWriters::default(),
            open: OpenPages::default(),
            closed,
            next_page: 0,
            pages_total: None,
            further: false,
            urgent: VecDeque::new(),
            begun: OpenFiles::default(),
            again: Staged::default(),
            discards: Staged::default(),
            finishes: Staged::default(),
            untaken: RetryList::default(),
            logs: Staged::default(),
            log_ready: VecDeque::new(),
            late: BTreeSet::new(),
            phase: Phase::Moving,
            tail: Tail::default(),
            synced_news: BTreeMap::new(),
            bytes_resumed,
            failures_news: Vec::new(),
            compared_news: false,
            deletes: false,
            asks: false,
        }
    }

    /// Returns the page to be opened next, if the window has room for it: the edge reads it, and
    /// passes it to [`TransferMachine::handle_page`], or reports that the scan is complete.
    pub fn wants_page(&mut self) -> Option<u32> {
        while self.is_known(self.next_page) {
            self.next_page += 1;
        }
        let more = self.pages_total.is_none_or(|total| self.next_page < total);
        let room = self.open.len() < self.limits.pages
            && self.open.pieces < self.limits.pieces
            && self.open.ahead_bytes < self.limits.ahead_bytes;
        (self.phase == Phase::Moving && more && room).then_some(self.next_page)
    }

    fn is_known(&self, page: u32) -> bool {
        self.closed.contains(page) || self.open.get(page).is_some()
    }

    /// Opens a page. `log` is its committed log, with its length in bytes; empty for a new page.
    /// With `doubt_all`, nothing in the log is trusted without a check (A5).
    ///
    /// After a restart all pages that have a log and are not complete are to be passed in before
    /// any work is asked for, wanted or not. They are no more than the window of the run before,
    /// and a sync that fails from now on must be recorded in the logs of all of them (A4). With
    /// `doubt_all` that is not needed, for then nothing is trusted.
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
        self.further |= page.round > 0;
        let mut ledger = PageLedger::new(page, digest, self.kind, &compared);
        let rechecks = ledger.replay(log, log_bytes, doubt_all);
        let mut open = self.open_page(number, ledger, rechecks);
        open.missing = open.ledger.fetchable();
        open.missing.shuffle(&mut self.rng);
        self.insert_page(number, open);
        self.adopt_early(number);
    }

    /// Opens a page of which something is known, and counts that as resumed.
    fn open_page(
        &mut self,
        number: u32,
        ledger: PageLedger,
        rechecks: Vec<(Option<Incarnation>, Work)>,
    ) -> OpenPage {
        self.urgent.extend(ledger.discards());
        let (_, bytes, _, _) = ledger.counts();
        let again = rechecks.iter().filter_map(|(_, work)| piece_of(work)).map(|it| it.piece);
        let resumed: BTreeSet<u32> = again.collect();
        let rechecked = resumed.iter().map(|piece| ledger.pieces()[*piece as usize].bytes());
        self.bytes_resumed += bytes + rechecked.sum::<u64>();
        for finish in ledger.finishable() {
            self.finishes.add(PieceRef { page: number, piece: finish });
        }
        for (index, piece) in ledger.pieces().iter().enumerate() {
            if matches!(piece, Piece::Finish { .. })
                && let Some((bytes, true)) = ledger.large_file(index as u32)
                && ledger.state(index as u32) == PieceState::Missing
            {
                self.begun.insert((number, index as u32), bytes);
            }
        }
        let mut open = OpenPage::new(ledger);
        open.resumed = resumed;
        for (under, work) in rechecks {
            let under = under
                .map_or(Under::Anyone, |incarnation| Under::Writer { incarnation, lost: false });
            open.add_recheck(under, work);
        }
        open
    }

    /// Opens a new page. `compared` lists the entries that stay as they are at the target.
    /// `earlier` lists the parts of its large files that an earlier attempt has written; with
    /// `doubt_all` these are checked again. Its pieces are handed out once that is committed, so
    /// that a resumed run cuts the page in the same way.
    pub fn handle_compared_page(
        &mut self,
        page: &Page,
        digest: Digest,
        compared: Comparison,
        earlier: Vec<JournalRecord>,
        doubt_all: bool,
    ) {
        let mut ledger = PageLedger::new(page, digest, self.kind, &compared);
        let number = page.number;
        self.further |= page.round > 0;
        let news = compared.failed.iter().map(|failure| (number, *failure));
        self.failures_news.extend(news);
        ledger.log_compared(compared);
        let rechecks = ledger.take_earlier(earlier, doubt_all);
        let mut open = self.open_page(number, ledger, rechecks);
        open.held = open.ledger.fetchable();
        open.held.shuffle(&mut self.rng);
        self.insert_page(number, open);
        self.compared_news = true;
    }

    fn insert_page(&mut self, number: u32, page: OpenPage) {
        if let Some(writer) = self.earlier.stopped() {
            self.late.extend(page.ledger.begun_files().map(|entry| (writer, number, entry)));
        }
        self.open.insert(number, page);
        if self.next_page == number {
            self.next_page += 1;
        }
    }

    /// Handles the end of the scan: there are `pages` pages.
    pub fn handle_scan_end(&mut self, pages: u32) {
        self.pages_total = Some(pages);
        self.advance();
    }

    /// Handles failures in the log of a complete page, after a restart: a repeated failure of a
    /// link or directory is not counted again. `failed_bytes` are the bytes of failed large files,
    /// and of refused entries, for the piece map.
    pub fn handle_known_failures(
        &mut self,
        page: u32,
        entries: impl IntoIterator<Item = u32>,
        failed_bytes: u64,
    ) {
        self.closed.change_failed_bytes(page, |_| failed_bytes);
        for entry in entries {
            self.tail.handle_failed(page, entry);
        }
    }

    /// Takes the next commit; `None` if there is no change. Until
    /// [`TransferMachine::handle_committed`] no other commit may be taken.
    pub fn take_commit(&mut self) -> Option<LedgerCommit> {
        self.check();
        let mut pages = self.open.take_commits();
        self.closed.take_commits(&mut pages);
        self.compared_news = false;
        self.finishes.cut();
        self.again.cut();
        self.discards.cut();
        self.logs.cut();
        let synced = std::mem::take(&mut self.synced_news);
        let idle = pages.is_empty() && synced.is_empty() && !self.finishes.is_committing();
        if idle {
            self.hand_out_logs();
        }
        (!idle).then_some(LedgerCommit { pages, synced })
    }

    /// Handles a finished commit: work that waited for it may continue (A6).
    pub fn handle_committed(&mut self, commit: &LedgerCommit) {
        self.hand_out_again();
        self.hand_out_logs();
        for (peer, discard) in self.discards.take_committed() {
            match peer.and_then(|peer| self.peers.get_mut(&peer)) {
                Some(peer) => peer.urgent.push_back(discard),
                None => self.urgent.push_back(discard),
            }
        }
        for piece in self.finishes.take_committed() {
            let work = self.open.change(piece.page, |page| {
                let ready = page.ledger.is_finishable(piece.piece);
                ready.then(|| page.ledger.begin_finish(piece.piece)).flatten()
            });
            self.urgent.extend(work.flatten());
        }
        for cut in &commit.pages {
            self.open.change(cut.page, |page| page.missing.append(&mut page.held));
        }
        for done in commit.pages.iter().filter(|page| page.complete) {
            let Some(page) = self.open.get(done.page) else { continue };
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
            let failed_bytes = page.ledger.excepted_bytes();
            self.open.remove(done.page);
            self.untaken.forget_page(done.page);
            self.closed.insert(done.page, standing, failed_bytes);
        }
        self.advance();
    }

    /// Asserts the relations of pages and peers whenever the ledger is committed.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (number, page) in self.open.iter() {
            assert!(!self.closed.contains(*number), "page {number} is open and closed");
            assert_eq!(page.ledger.number(), *number);
        }
        if let Some(total) = self.pages_total {
            let known = self.open.len() + self.closed.len();
            assert!(known <= total as usize, "{known} pages are known, of {total}");
        }
        let writers = self.peers.values().map(|peer| peer.incarnation.writer);
        let joined: BTreeSet<WriterId> = writers.collect();
        self.earlier.check(&joined);
        let moving = matches!(self.phase, Phase::Moving | Phase::Asking);
        assert!(moving || self.open.is_empty(), "links are made while pieces move (C5)");
        let director = self.tail.director();
        assert!(
            director.is_none_or(|director| self.is_joined(director)),
            "the peer that sets attributes of directories is gone"
        );
    }

    /// Allows the logs that are committed up to the records of lost peers to be read.
    fn hand_out_logs(&mut self) {
        let logs: BTreeSet<u32> = self.logs.take_committed().into_iter().collect();
        for number in logs {
            let Some(page) = self.open.get(number) else { continue };
            self.log_ready.push_back((number, page.ledger.log_bytes()));
        }
    }

    /// Returns whether work waits for a commit alone, so that committing now rather than at the
    /// next interval helps the transfer.
    pub fn commit_is_urgent(&self) -> bool {
        self.compared_news
            || !self.synced_news.is_empty()
            || self.finishes.has_next()
            || self.again.has_next()
            || self.logs.has_next()
    }

    /// Returns the greatest attempt number of any large file of a page that this machine has had
    /// open.
    pub fn generation_max(&self) -> u32 {
        self.open.generation_max()
    }

    /// Returns the phase of the transfer.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the sums over all pages.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { bytes_resumed: self.bytes_resumed, ..self.closed.totals() };
        for (_, page) in self.open.iter() {
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

    /// Returns the piece map: the states of the bytes, in planned order, in so many buckets at
    /// most. `found` bytes were found by the scan so far. Visits each page, and each piece of the
    /// open ones: some milliseconds for 10^9 files, so callers ask seldom.
    pub fn piece_map(&self, found: u64, buckets: usize) -> Vec<MapBucket> {
        let known = self.open.len() + self.closed.len();
        let listed = self.pages_total.is_some_and(|total| known >= total as usize);
        // Newer versions have other sizes than the scan has found: nothing is left but in pages.
        let found = if listed || self.further { 0 } else { found };
        piece_map::map_of((&self.closed, &self.open), found, buckets)
    }

    /// Returns the first pages that are closed or open.
    pub fn known_pages(&self, most: usize) -> Vec<u32> {
        let closed = self.closed.numbers().take(most);
        let mut pages: Vec<u32> = closed.chain(self.open.numbers()).collect();
        pages.sort_unstable();
        pages.truncate(most);
        pages
    }

    /// Returns the result of each file of a page, by entry. All files of a closed page are done;
    /// its log has the failures in it, and in its packs.
    pub fn file_shares(&self, page: &Page) -> BTreeMap<u32, ShareBytes> {
        if let Some(open) = self.open.get(page.number) {
            return open.ledger.file_shares(page);
        }
        let closed = self.closed.contains(page.number);
        let share = if closed { Share::Done } else { Share::Left } as usize;
        let files = (0..).zip(page.entries()).filter(|(_, entry)| entry.kind == EntryKind::File);
        let of = |size: u64| std::array::from_fn(|at| if at == share { size } else { 0 });
        files.map(|(index, entry)| (index, of(entry.size))).collect()
    }

    /// Takes the failures since the last call, with their pages.
    pub fn take_failures(&mut self) -> Vec<(u32, EntryFailure)> {
        std::mem::take(&mut self.failures_news)
    }

    /// Returns the number of open pages, and the last epoch that a peer has synced; 0 if it does
    /// not take part.
    pub fn standing(&self, peer: PeerNumber) -> (usize, u64) {
        (self.open.len(), self.peers.get(&peer).map_or(0, |peer| peer.synced))
    }
}

/// Returns the comparison of a page with the target from its log; `None` if the log has none.
pub fn compared_of(log: &[JournalRecord]) -> Option<&Comparison> {
    log.iter().find_map(|record| match record {
        JournalRecord::Compared(comparison) => Some(comparison),
        _ => None,
    })
}
