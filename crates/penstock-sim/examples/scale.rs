//! The cost to one controller of a transfer that many target peers share.
//!
//! ```text
//! cargo run --release -p penstock-sim --example scale
//! ```
//! A real [`TransferMachine`] serves peers that work at the rate of their cards. Each peer asks and
//! reports every 10 ms of the world, and syncs every two seconds. Only the machine is timed, on one
//! thread, as it would run under the controller's lock; the peers are not.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant as Clock};

use penstock_engine::transfer::{
    Joining, LedgerCommit, PageStanding, Phase, TransferMachine, WindowLimits,
};
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, TransferId, WriterId};
use penstock_proto::journal::{DigestForm, EntryDigest, Incarnation};
use penstock_proto::manifest::{EntryDraft, PAGE_ENTRIES_MAX, Page, PageBuilder};
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_proto::task::{Report, Work};
use penstock_proto::units::{GIB, Instant, KIB, MIB};

/// Bytes per second of one peer: four cards of 100 Gbit/s.
const PEER_RATE: u64 = 50_000_000_000;
/// The interval at which a peer asks and reports, in milliseconds of the world.
const TURN_MS: u64 = 10;
/// Turns between two syncs of a peer, and between two commits.
const SYNC_TURNS: u64 = 200;
const COMMIT_TURNS: u64 = 100;
/// Bytes that a peer holds at most: as many as its cards carry in a fifth of a second.
const IN_HAND_BYTES: u64 = PEER_RATE / 5;
/// Pieces, or files, after which a run has shown enough.
const PIECES: u64 = 200_000;
const FILES: u64 = 1_500_000;
/// Pages of 10^9 files.
const BILLION_PAGES: u32 = 244_141;

/// A data set, as pages of equal files.
struct Set {
    name: &'static str,
    file_bytes: u64,
    files_per_page: usize,
    extent_bytes: u64,
    peers: &'static [u16],
}

const SETS: [Set; 3] = [
    Set {
        name: "files of 64 KiB",
        file_bytes: 64 * KIB,
        files_per_page: PAGE_ENTRIES_MAX,
        extent_bytes: 8 * MIB,
        peers: &[1, 4],
    },
    Set {
        name: "files of 8 MiB",
        file_bytes: 8 * MIB,
        files_per_page: PAGE_ENTRIES_MAX,
        extent_bytes: 8 * MIB,
        peers: &[1, 10, 100],
    },
    Set {
        name: "files of 1 GiB, extents of 64 MiB",
        file_bytes: GIB,
        files_per_page: 64,
        extent_bytes: 64 * MIB,
        peers: &[1, 10, 100],
    },
];

fn main() {
    println!("peers | data | pieces | us/piece | pieces/s of one core | Tbit/s of one core |");
    for set in &SETS {
        for peers in set.peers {
            let mut run = Run::new(set, *peers);
            run.drive();
            run.print(set);
        }
    }
    billion();
}

/// A peer that fetches its work one turn after it was granted.
#[derive(Default)]
struct Peer {
    in_hand: Vec<(PieceRef, u32, u64)>,
    bytes: u64,
    epoch: u64,
    packs: Vec<PieceRef>,
    reports: Vec<Report>,
}

/// Counts of a run.
#[derive(Default)]
struct Counts {
    pieces: u64,
    files: u64,
    bytes: u64,
    messages: u64,
    commits: u64,
    log_bytes: u64,
    heads: u64,
    machine: Duration,
    commit: Duration,
    longest: Duration,
    open_pages: usize,
}

struct Run {
    machine: TransferMachine,
    peers: Vec<Peer>,
    pages: BTreeMap<u32, Page>,
    template: (usize, u64, u64),
    counts: Counts,
    turn: u64,
    resident: u64,
}

impl Run {
    fn new(set: &Set, peers: u16) -> Self {
        let limits = WindowLimits {
            ahead_bytes: 2 * IN_HAND_BYTES,
            file_bytes: 4 * IN_HAND_BYTES,
            ..WindowLimits::default()
        };
        let mut machine = TransferMachine::new(DigestKind::Blake3, [], limits, 1);
        for number in 0..peers {
            let writer = WriterId(1 + u64::from(number));
            let incarnation = Incarnation { writer, ..Incarnation::default() };
            let joining = Joining { incarnation, epoch: 0, grant: Some(Duration::from_secs(60)) };
            machine.handle_joined(PeerNumber(number), joining, Instant(0));
        }
        let new_peer = || Peer { epoch: 1, ..Peer::default() };
        Self {
            machine,
            peers: (0..peers).map(|_| new_peer()).collect(),
            pages: BTreeMap::new(),
            template: (set.files_per_page, set.file_bytes, set.extent_bytes),
            counts: Counts::default(),
            turn: 0,
            resident: resident(),
        }
    }

    fn drive(&mut self) {
        while self.counts.pieces < PIECES && self.counts.files < FILES {
            self.turn += 1;
            self.open_pages();
            for number in 0..self.peers.len() {
                self.turn_of(number);
            }
            if self.turn.is_multiple_of(COMMIT_TURNS) {
                self.commit();
            }
        }
    }

    fn now(&self) -> Instant {
        Instant(self.turn * TURN_MS * 1_000_000)
    }

    fn open_pages(&mut self) {
        loop {
            let began = Clock::now();
            let Some(number) = self.machine.wants_page() else { break };
            self.counts.machine += began.elapsed();
            // Cut and decoded outside of the lock.
            let page = page_of(number, self.template);
            let began = Clock::now();
            self.machine.handle_page(&page, Digest::default(), [], 0, false);
            self.counts.machine += began.elapsed();
            self.pages.insert(number, page);
        }
        let (open, _) = self.machine.standing(PeerNumber(0));
        self.counts.open_pages = self.counts.open_pages.max(open);
    }

    fn turn_of(&mut self, number: usize) {
        let now = self.now();
        let peer = &mut self.peers[number];
        let reports = peer.turn(&self.pages, self.turn, number as u64, &mut self.counts);
        let wanted = IN_HAND_BYTES.saturating_sub(peer.bytes);
        let who = PeerNumber(number as u16);
        let began = Clock::now();
        self.machine.handle_reports(who, reports, now);
        let reply = self.machine.poll_work(who, wanted, now);
        let took = began.elapsed();
        self.counts.machine += took;
        self.counts.longest = self.counts.longest.max(took);
        self.counts.messages += 2;
        peer.take(reply.work, &self.pages, &mut self.counts);
    }

    fn commit(&mut self) {
        let began = Clock::now();
        let Some(commit) = self.machine.take_commit() else { return };
        self.machine.handle_committed(&commit);
        let took = began.elapsed();
        self.counts.commit += took;
        self.counts.longest = self.counts.longest.max(took);
        self.count_commit(&commit);
        for page in commit.pages.iter().filter(|page| page.complete) {
            self.pages.remove(&page.page);
        }
    }

    fn count_commit(&mut self, commit: &LedgerCommit) {
        self.counts.commits += 1;
        self.counts.heads += commit.pages.len() as u64;
        self.counts.log_bytes += commit.pages.iter().map(|it| it.append.len() as u64).sum::<u64>();
    }

    fn print(&self, set: &Set) {
        let Counts { pieces, bytes, messages, commits, log_bytes, heads, .. } = self.counts;
        let Counts { machine, commit, longest, open_pages, .. } = self.counts;
        let per = |figure: f64| figure / pieces as f64;
        let micros = per((machine + commit).as_secs_f64() * 1e6);
        let seconds = (self.turn * TURN_MS) as f64 / 1000.0;
        println!(
            "{} | {} | {pieces} | {micros:.2} | {:.0} | {:.1} |",
            self.peers.len(),
            set.name,
            1e6 / micros,
            bytes as f64 * 8.0 / 1e12 / (machine + commit).as_secs_f64(),
        );
        println!(
            "    commits {:.2} us/piece, {:.1} pages each of {open_pages} open, longest hold \
             {:.1} ms; {:.3} messages/piece; log {:.0} bytes/piece, {:.1} MB/s at full rate; \
             world {seconds:.2} s; {:.0} MiB more resident",
            per(commit.as_secs_f64() * 1e6),
            heads as f64 / commits.max(1) as f64,
            longest.as_secs_f64() * 1e3,
            per(messages as f64),
            per(log_bytes as f64),
            log_bytes as f64 / 1e6 / seconds,
            resident().saturating_sub(self.resident) as f64 / MIB as f64,
        );
    }
}

impl Peer {
    /// Performs the work of a turn: a peer carries as many bytes as its cards can since its last
    /// turn.
    fn turn(
        &mut self,
        pages: &BTreeMap<u32, Page>,
        turn: u64,
        number: u64,
        counts: &mut Counts,
    ) -> Vec<Report> {
        let mut reports = std::mem::take(&mut self.reports);
        let mut carried = 0;
        let most = PEER_RATE * TURN_MS / 1000;
        while carried < most
            && let Some((piece, generation, bytes)) = self.in_hand.pop()
        {
            carried += bytes;
            self.bytes -= bytes;
            counts.pieces += 1;
            counts.bytes += bytes;
            let (digests, is_pack) = digests(pages, piece);
            counts.files += digests.len() as u64;
            let (epoch, failures) = (self.epoch, Vec::new());
            reports.push(Report::Written {
                piece,
                generation,
                epoch,
                digests,
                failures,
                fetched: true,
            });
            if is_pack {
                self.packs.push(piece);
            }
        }
        if (turn + 2 * number).is_multiple_of(SYNC_TURNS) {
            let epoch = self.epoch;
            self.epoch += 1;
            reports.push(Report::Synced { epoch });
            let (generation, epoch) = (0, self.epoch);
            reports.extend(self.packs.drain(..).map(|piece| Report::Published {
                piece,
                generation,
                epoch,
                failures: Vec::new(),
            }));
        }
        reports
    }

    fn take(&mut self, work: Vec<Work>, pages: &BTreeMap<u32, Page>, counts: &mut Counts) {
        for work in work {
            match work {
                Work::Fetch { piece, generation, .. } => {
                    let bytes = bytes_of(pages, piece);
                    self.bytes += bytes;
                    self.in_hand.push((piece, generation, bytes));
                }
                Work::Finish { piece, generation } => {
                    let (epoch, failures) = (self.epoch, Vec::new());
                    self.reports.push(Report::Published { piece, generation, epoch, failures });
                    counts.pieces += 1;
                }
                other => unreachable!("there are files only, and no restart: {other:?}"),
            }
        }
    }
}

fn page_of(number: u32, (files, bytes, extent_bytes): (usize, u64, u64)) -> Page {
    let slicing = Slicing { extent_bytes, ..Slicing::default() };
    let mut builder = PageBuilder::new(TransferId([1; 16]), number, slicing);
    for index in 0..files {
        let name = format!("event-{index:012}.dat.gz");
        let draft = EntryDraft { name: name.as_bytes(), size: bytes, ..EntryDraft::default() };
        builder.push(b"run/detector", &draft);
    }
    builder.seal()
}

/// Returns the number of files in a pack of files of this size.
fn pack_files(page: &Page, bytes: u64) -> u64 {
    u64::from(page.slicing.pack_files).min((page.slicing.pack_bytes / bytes.max(1)).max(1))
}

fn bytes_of(pages: &BTreeMap<u32, Page>, piece: PieceRef) -> u64 {
    let Some(page) = pages.get(&piece.page) else { return 0 };
    let bytes = page.entries()[0].size;
    match page.slicing.is_split(bytes) {
        true => page.slicing.extent_bytes_of(bytes),
        false => pack_files(page, bytes) * bytes,
    }
}

fn digests(pages: &BTreeMap<u32, Page>, piece: PieceRef) -> (Vec<EntryDigest>, bool) {
    let Some(page) = pages.get(&piece.page) else { return (Vec::new(), true) };
    let bytes = page.entries()[0].size;
    let split = page.slicing.is_split(bytes);
    let files = if split { 1 } else { pack_files(page, bytes) as u32 };
    let digest = |at| {
        let entry = if split { 0 } else { piece.piece * files + at };
        let (form, digest) = (DigestForm::Standard, Digest([5; 32]));
        EntryDigest { entry, form, digest, seen: None }
    };
    ((0..files).map(digest).collect(), !split)
}

/// Measures the counts of 10^9 finished files: their memory, and the time of a look at them.
fn billion() {
    let before = resident();
    let standing = PageStanding {
        digest: Digest([1; 32]),
        log_bytes: 200_000,
        files: PAGE_ENTRIES_MAX as u64,
        bytes: 40 * GIB,
        failures: 0,
        kept: 0,
        kept_bytes: 0,
        asks: false,
    };
    let complete = (0..BILLION_PAGES).map(|page| (page, standing));
    let began = Clock::now();
    let limits = WindowLimits::default();
    let mut machine = TransferMachine::new(DigestKind::Blake3, complete, limits, 1);
    let made = began.elapsed();
    let began = Clock::now();
    let files = machine.totals().files;
    let totals = began.elapsed();
    let began = Clock::now();
    let none = machine.take_commit().is_none();
    let commit = began.elapsed();
    assert!(none && machine.phase() == Phase::Moving);
    println!(
        "{files} files done: {:.0} MiB resident, taken up in {:.0} ms; totals {:.3} ms, an empty \
         commit {:.3} ms",
        resident().saturating_sub(before) as f64 / MIB as f64,
        made.as_secs_f64() * 1e3,
        totals.as_secs_f64() * 1e3,
        commit.as_secs_f64() * 1e3,
    );
}

/// Returns the resident memory of this process in bytes: the second figure of /proc/self/statm
/// (proc(5)).
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|figure| figure.parse::<u64>().ok());
    pages.unwrap_or(0) * 4 * KIB
}
