//! The ledger of one transfer, and the order in which its work is handed out.
//!
//! The edge feeds pages (new ones, or pages with their logs after a restart), asks for work on
//! behalf of a peer, hands in the peer's reports, and commits what [`TransferMachine::take_commit`]
//! gives at least once a second. A transfer passes through six phases:
//!
//! 1. *moving*: pieces are fetched in random order within a window of open pages (E3); packs are
//!    renamed by their writer after its sync, large files once all their extents are durable *and
//!    committed* (A6);
//! 2. *asking*: the source is asked about what had changed; its newer versions are moved (C1, C2);
//! 3. *links*: directories that are empty and symbolic links are made, page by page, when all files
//!    are final (C5: links come last, so that nothing is ever written through one);
//! 4. *deleting*, where it is asked for: what is not in the data set goes;
//! 5. *directories*: modes and times, children before parents (B5);
//! 6. *done*: after the last sync.
//!
//! Memory follows the open pages, whose number is bounded; a page that is durable and committed is
//! reduced to a few counts.
//!
//! | module | what it decides |
//! |---|---|
//! | `open`, `closed` | nothing: the pages and the sums over them |
//! | `peers` | who takes part, whose grant has lapsed, what a lost peer leaves |
//! | `begun` | which large files are in progress, and which have to wait |
//! | `window` | how much is in progress at a time |
//! | `speed` | what each peer brings, and what it may take of the last pieces |
//! | `moving` | what is handed out next, and when it is handed out again |
//! | `reports` | what a report changes |
//! | `untaken` | which peer tries next what one could not write or name |
//! | `adopting` | what is taken over that peers did for an earlier controller |
//! | `asking` | what the source is asked about once more |
//! | `tail` | links and directories |

mod adopting;
mod closed;
mod finishing;
mod moving;
mod open;
mod open_files;
mod peers;
mod recheck;
mod reports;
mod speed;
mod window;
mod write_retries;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::{EntryFailure, Incarnation, JournalRecord};
use penstock_proto::manifest::Page;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;
use penstock_proto::units::Instant;
use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

use self::adopting::Early;
use self::closed::ClosedPages;
use self::open::{OpenPage, OpenPages, Under, piece_of};
use self::open_files::OpenFiles;
pub use self::peers::Joining;
use self::peers::Peer;
pub use self::window::WindowLimits;
use self::write_retries::WriteRetries;
use crate::page::{PageLedger, PieceState};
use crate::slice::Piece;

/// Failed syncs of one peer in a row after which it gets no more work: its store is not fit to
/// write to. The transfer gives up when that is so of all its peers. A failure may be that of
/// another transfer's bytes, so one now and then over weeks says nothing.
pub const SYNC_FAILURES_MAX: u32 = 3;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerCommit {
    /// Pages with news.
    pub pages: Vec<PageCommit>,
    /// The last epochs that peers have synced, where that is news. The logs are to be synced before
    /// the heads are committed, and the heads durably (A8).
    pub synced: BTreeMap<WriterId, u64>,
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
    /// Bytes found in the ledger when the transfer was taken up again, without those of pieces that
    /// were looked at again and are not at the target.
    pub bytes_resumed: u64,
    /// Failed entries.
    pub failures: u64,
    /// Files that stay as they are at the target.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
}

/// The ledger and the order of work of one transfer.
#[derive(Debug)]
pub struct TransferMachine {
    /// What each peer may have in progress, and all of them together.
    window: WindowLimits,
    limits: WindowLimits,
    rng: ChaCha8Rng,
    kind: DigestKind,
    peers: BTreeMap<PeerNumber, Peer>,
    /// Peers that an earlier controller may have given work to, until when they may write.
    former: BTreeSet<WriterId>,
    former_until: Instant,
    /// Peers that may have written what no log knows, until when they are waited for.
    awaited: BTreeSet<WriterId>,
    awaited_until: Instant,
    /// What they wrote in pages that are not open yet.
    early: Early,
    open: OpenPages,
    closed: ClosedPages,
    next_page: u32,
    pages_total: Option<u32>,
    /// What any peer is to do next.
    urgent: VecDeque<Work>,
    begun: OpenFiles,
    /// Pieces that are missing again, and may be handed out once the log that says so is committed:
    /// else a log that still calls them written would outlive what the next attempt overwrites.
    again_next: Vec<PieceRef>,
    again_committing: Vec<PieceRef>,
    /// Failed large files whose temporary files may go once the log says that they failed: until
    /// then it calls their extents durable.
    discard_next: Vec<(Option<PeerNumber>, Work)>,
    discard_committing: Vec<(Option<PeerNumber>, Work)>,
    /// Files whose last extent became durable in the commit being built, or in flight.
    finish_next: Vec<PieceRef>,
    finish_committing: Vec<PieceRef>,
    /// What peers could not write or name, and who tries next.
    untaken: WriteRetries,
    /// Pages with pieces of lost peers whose log is to be read once what it says is committed.
    log_next: BTreeSet<u32>,
    log_committing: BTreeSet<u32>,
    log_ready: VecDeque<(u32, u64)>,
    /// Large files of which lost peers had something in hand (B1).
    late: BTreeSet<(WriterId, u32, u32)>,
    /// The own peer of the controller before, that may have been stopped in the middle of a write.
    last_own: Option<WriterId>,
    phase: Phase,
    /// The next page of the links or directories phase, and pages of the former to be done again.
    tail_next: u32,
    tail_again: BTreeSet<u32>,
    /// Who sets the attributes of directories.
    director: Option<PeerNumber>,
    /// Links and directories that failed: (page, entry).
    tail_failed: BTreeSet<(u32, u32)>,
    synced_news: BTreeMap<WriterId, u64>,
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
        !self.synced.is_empty() || self.pages.iter().any(|page| page.complete)
    }
}

impl TransferMachine {
    /// A machine without peers, with the pages that are complete already. `limits` are of one peer,
    /// see [`WindowLimits::of_peers`]. `seed` makes the order of work repeatable.
    pub fn new(
        kind: DigestKind,
        complete: impl IntoIterator<Item = (u32, PageStanding)>,
        limits: WindowLimits,
        seed: u64,
    ) -> Self {
        let mut closed = ClosedPages::default();
        for (page, standing) in complete {
            closed.insert(page, standing);
        }
        let bytes_resumed = closed.totals().bytes;
        Self {
            window: limits,
            limits,
            rng: ChaCha8Rng::seed_from_u64(seed),
            kind,
            peers: BTreeMap::new(),
            former: BTreeSet::new(),
            former_until: Instant(0),
            awaited: BTreeSet::new(),
            awaited_until: Instant(0),
            early: Early::default(),
            open: OpenPages::default(),
            closed,
            next_page: 0,
            pages_total: None,
            urgent: VecDeque::new(),
            begun: OpenFiles::default(),
            again_next: Vec::new(),
            again_committing: Vec::new(),
            discard_next: Vec::new(),
            discard_committing: Vec::new(),
            finish_next: Vec::new(),
            finish_committing: Vec::new(),
            untaken: WriteRetries::default(),
            log_next: BTreeSet::new(),
            log_committing: BTreeSet::new(),
            log_ready: VecDeque::new(),
            late: BTreeSet::new(),
            last_own: None,
            phase: Phase::Moving,
            tail_next: 0,
            tail_again: BTreeSet::new(),
            director: None,
            tail_failed: BTreeSet::new(),
            synced_news: BTreeMap::new(),
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
            && self.open.pieces < self.limits.pieces
            && self.open.ahead_bytes < self.limits.ahead_bytes;
        (self.phase == Phase::Moving && more && room).then_some(self.next_page)
    }

    fn is_known(&self, page: u32) -> bool {
        self.closed.contains(page) || self.open.get(page).is_some()
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
        let mut ledger = PageLedger::new(page, digest, self.kind, &compared);
        let rechecks = ledger.replay(log, log_bytes, doubt_all);
        let mut open = self.open_page(number, ledger, rechecks);
        open.missing = open.ledger.fetchable();
        open.missing.shuffle(&mut self.rng);
        self.insert_page(number, open);
        self.adopt_early(number);
    }

    /// A page of which something is known: counts that as resumed.
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
            self.finish_next.push(PieceRef { page: number, piece: finish });
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

    /// Opens a new page of which `compared` says what stays as it is at the target, and `earlier`
    /// what an earlier attempt has written of its large files; with `doubt_all` that is looked at
    /// again. Its pieces are handed out once that is committed: a resume then cuts the page in the
    /// same way.
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
        if let Some(writer) = self.last_own {
            self.late.extend(page.ledger.begun_files().map(|entry| (writer, number, entry)));
        }
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

    /// What is to be committed now; `None` if there is no news. Until
    /// [`TransferMachine::handle_committed`] no other commit may be taken.
    pub fn take_commit(&mut self) -> Option<LedgerCommit> {
        let mut pages = self.open.take_commits();
        self.closed.take_commits(&mut pages);
        self.compared_news = false;
        self.finish_committing.append(&mut self.finish_next);
        self.again_committing.append(&mut self.again_next);
        self.discard_committing.append(&mut self.discard_next);
        self.log_committing.append(&mut self.log_next);
        let synced = std::mem::take(&mut self.synced_news);
        let idle = pages.is_empty() && synced.is_empty() && self.finish_committing.is_empty();
        if idle {
            self.hand_out_logs();
        }
        (!idle).then_some(LedgerCommit { pages, synced })
    }

    /// The commit has been made: what waited for it may go on (A6).
    pub fn handle_committed(&mut self, commit: &LedgerCommit) {
        self.hand_out_again();
        self.hand_out_logs();
        for (peer, discard) in std::mem::take(&mut self.discard_committing) {
            match peer.and_then(|peer| self.peers.get_mut(&peer)) {
                Some(peer) => peer.urgent.push_back(discard),
                None => self.urgent.push_back(discard),
            }
        }
        for piece in std::mem::take(&mut self.finish_committing) {
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
            self.open.remove(done.page);
            self.untaken.forget_page(done.page);
            self.closed.insert(done.page, standing);
        }
        self.advance();
    }

    /// Logs that are committed as far as they say what lost peers wrote may be read.
    fn hand_out_logs(&mut self) {
        for number in std::mem::take(&mut self.log_committing) {
            let Some(page) = self.open.get(number) else { continue };
            self.log_ready.push_back((number, page.ledger.log_bytes()));
        }
    }

    /// Whether something waits for a commit and for nothing else, so that committing now rather
    /// than at the next interval brings the transfer on.
    pub fn commit_is_urgent(&self) -> bool {
        self.compared_news
            || !self.synced_news.is_empty()
            || !self.finish_next.is_empty()
            || !self.again_next.is_empty()
            || !self.log_next.is_empty()
    }

    /// The greatest attempt number of any large file of a page that this machine has had open.
    pub fn generation_max(&self) -> u32 {
        self.open.generation_max()
    }

    /// Where the transfer stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Sums over all pages.
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

    /// Failures since the last call, with their pages.
    pub fn take_failures(&mut self) -> Vec<(u32, EntryFailure)> {
        std::mem::take(&mut self.failures_news)
    }

    /// Number of open pages, and the last epoch that a peer has synced; 0 if it does not take part.
    pub fn standing(&self, peer: PeerNumber) -> (usize, u64) {
        (self.open.len(), self.peers.get(&peer).map_or(0, |peer| peer.synced))
    }
}

/// What a log says of how its page was compared with the target; `None` if it does not.
pub fn compared_of(log: &[JournalRecord]) -> Option<&Comparison> {
    log.iter().find_map(|record| match record {
        JournalRecord::Compared(comparison) => Some(comparison),
        _ => None,
    })
}
