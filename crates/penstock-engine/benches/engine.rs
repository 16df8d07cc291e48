//! Costs of the machines per piece: slicing, granting, asking, and replaying a log.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use penstock_engine::fetch::{FetchMachine, Item};
use penstock_engine::page::PageLedger;
use penstock_engine::queue::{Limits, Queue, Request};
use penstock_engine::slice::slice;
use penstock_engine::transfer::{Joining, Phase, TransferMachine, WindowLimits};
use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{LaneId, PeerNumber, TransferId};
use penstock_proto::journal::{DigestForm, EntryDigest, Incarnation, JournalRecord};
use penstock_proto::manifest::{EntryDraft, Page, PageBuilder};
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_proto::task::{Report, Work};
use penstock_proto::units::{GIB, Instant, KIB, MIB};
use penstock_proto::wire::Reader;

/// A data set by pages: the number of files of a page, and their size.
const SETS: [(&str, usize, u64); 3] =
    [("4 KiB", 4096, 4 * KIB), ("8 MiB", 4096, 8 * MIB), ("1 GiB", 240, GIB)];
/// Pages of a whole transfer.
const PAGES: u32 = 16;
/// Bytes for which a peer asks at a time.
const ASKED_BYTES: u64 = 64 * MIB;
/// The peer that asks; nothing here depends on it or on the time.
const PEER: PeerNumber = PeerNumber(0);
const NOW: Instant = Instant(0);

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20)
        .configure_from_args();
    slicing(&mut criterion);
    grants(&mut criterion);
    transfers(&mut criterion);
    requests(&mut criterion);
    replay(&mut criterion);
    decisions(&mut criterion);
    criterion.final_summary();
}

fn page(number: u32, files: usize, bytes: u64) -> Page {
    let mut builder = PageBuilder::new(TransferId([1; 16]), number, Slicing::default());
    for index in 0..files {
        let name = format!("event-{index:012}.dat.gz");
        let draft = EntryDraft { name: name.as_bytes(), size: bytes, ..EntryDraft::default() };
        builder.push(b"run/detector", &draft);
    }
    builder.seal()
}

fn slicing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slice");
    for (name, files, bytes) in SETS {
        let page = page(0, files, bytes);
        group.throughput(Throughput::Elements(slice(&page).len() as u64));
        group.bench_function(name, |bench| bench.iter(|| slice(black_box(&page))));
    }
    group.finish();
}

/// A transfer machine and the reports of a perfect peer.
struct Run {
    machine: TransferMachine,
    pages: Vec<Page>,
    epoch: u64,
    reports: u64,
}

impl Run {
    fn new(pages: &[Page]) -> Self {
        let (kind, limits) = (DigestKind::Blake3, WindowLimits::default());
        let mut machine = TransferMachine::new(kind, [], limits, 1);
        let joining = Joining { incarnation: Incarnation::default(), epoch: 0, grant: None };
        machine.handle_joined(PEER, joining, NOW);
        Self { machine, pages: pages.to_vec(), epoch: 1, reports: 0 }
    }

    fn open_pages(&mut self) {
        while let Some(number) = self.machine.wants_page() {
            match self.pages.get(number as usize) {
                Some(page) => {
                    self.machine.handle_page(page, Digest::default(), [], 0, false);
                }
                None => self.machine.handle_scan_end(number),
            }
        }
    }

    /// Asks for work and reports all of it; returns whether there was any, and whether the epoch is
    /// to be synced.
    fn hand_out(&mut self, names: &mut Vec<Report>) -> (bool, bool) {
        let reply = self.machine.poll_work(PEER, ASKED_BYTES, NOW);
        let epoch = self.epoch;
        let mut reports = Vec::with_capacity(reply.work.len());
        for work in &reply.work {
            match *work {
                Work::Fetch { piece, generation, .. } => {
                    let digests = self.digests(piece);
                    // Packs have their names after the sync; for extents this is ignored.
                    let failures = Vec::new();
                    names.push(Report::Published { piece, generation, epoch, failures });
                    reports.push(Report::Written {
                        piece,
                        generation,
                        epoch,
                        digests,
                        failures: Vec::new(),
                        fetched: true,
                    });
                }
                Work::Finish { piece, generation } => {
                    let failures = Vec::new();
                    reports.push(Report::Published { piece, generation, epoch, failures });
                }
                _ => unreachable!("there are files only, and no restart"),
            }
        }
        self.reports += reports.len() as u64;
        self.machine.handle_reports(PEER, reports, NOW);
        (!reply.work.is_empty(), reply.flush)
    }

    fn digests(&self, piece: PieceRef) -> Vec<EntryDigest> {
        let page = &self.pages[piece.page as usize];
        let bytes = page.entries()[0].size;
        let whole = !page.slicing.is_split(bytes);
        let pack = u64::from(page.slicing.pack_files).min(page.slicing.pack_bytes / bytes.max(1));
        let files = if whole { pack as u32 } else { 1 };
        let digest = |at| {
            let (form, digest) = (DigestForm::Standard, Digest([5; 32]));
            EntryDigest {
                entry: if whole { piece.piece * files + at } else { 0 },
                form,
                digest,
                seen: None,
            }
        };
        (0..files).map(digest).collect()
    }

    /// Ends an epoch: a sync, the names, a second sync, and the commit.
    fn end_epoch(&mut self, names: &mut Vec<Report>) {
        let epoch = self.epoch;
        self.machine.handle_reports(PEER, [Report::Synced { epoch }], NOW);
        let names = names.drain(..).filter_map(|report| match report {
            Report::Published { piece, generation, failures, .. } => {
                Some(Report::Published { piece, generation, epoch: epoch + 1, failures })
            }
            _ => None,
        });
        self.machine.handle_reports(PEER, names, NOW);
        self.machine.handle_reports(PEER, [Report::Synced { epoch: epoch + 1 }], NOW);
        self.epoch += 2;
        if let Some(commit) = self.machine.take_commit() {
            self.machine.handle_committed(&commit);
        }
    }

    /// Runs until all files are durable; an epoch for each `pieces` pieces at the latest.
    fn finish(&mut self, pieces: usize) {
        let mut names = Vec::new();
        while self.machine.phase() == Phase::Moving {
            self.open_pages();
            let (worked, flush) = self.hand_out(&mut names);
            if names.len() >= pieces || flush || !worked {
                self.end_epoch(&mut names);
            }
        }
    }
}

fn pages_of(files: usize, bytes: u64) -> Vec<Page> {
    (0..PAGES).map(|number| page(number, files, bytes)).collect()
}

/// Returns the number of pieces of all pages, including those that name a large file.
fn piece_count(pages: &[Page]) -> u64 {
    pages.iter().map(|page| slice(page).len() as u64).sum()
}

/// Measures one answer to a peer that asks for 64 MiB, and its reports: a controller's work per
/// piece while bytes flow.
fn grants(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grant and written");
    for (name, files, bytes) in SETS {
        let pages = pages_of(files, bytes);
        let prepare = || {
            let mut run = Run::new(&pages);
            run.open_pages();
            run
        };
        let mut first = prepare();
        first.hand_out(&mut Vec::new());
        group.throughput(Throughput::Elements(first.reports));
        group.bench_function(name, |bench| {
            let mut names = Vec::new();
            bench.iter_batched_ref(prepare, |run| run.hand_out(&mut names), BatchSize::SmallInput);
        });
    }
    group.finish();
}

/// Measures the whole life of 16 pages, with their epochs and commits.
fn transfers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transfer");
    for (name, files, bytes) in SETS {
        let pages = pages_of(files, bytes);
        group.throughput(Throughput::Elements(piece_count(&pages)));
        for pieces in [64, 1024] {
            group.bench_function(BenchmarkId::new(name, format!("{pieces} an epoch")), |bench| {
                bench.iter_batched_ref(
                    || Run::new(&pages),
                    |run| run.finish(pieces),
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

fn item(piece: u32, bytes: u64) -> Item {
    Item {
        piece: PieceRef { page: 0, piece },
        generation: 0,
        fresh: true,
        first_entry: 0,
        end_entry: 1,
        offset: 0,
        length: bytes,
        bytes,
        attempt: 1,
    }
}

/// Measures a piece through the machine of a target peer: grant, request, report, answer.
fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fetch");
    group.throughput(Throughput::Elements(1));
    for lanes in [2, 64, 1024] {
        let mut machine = FetchMachine::new();
        machine.handle_rtt(Duration::from_millis(90));
        for lane in 0..lanes {
            machine.handle_lane_up(Instant(0), LaneId(lane));
        }
        let mut asked = std::collections::VecDeque::new();
        let mut piece = 0;
        let mut now = Instant(0);
        group.bench_function(BenchmarkId::new("piece", format!("{lanes} lanes")), |bench| {
            bench.iter(|| {
                now = now.plus(Duration::from_micros(100));
                machine.handle_granted(item(piece, 16 * MIB));
                let lane = LaneId(piece % lanes);
                if let Some(request) = machine.poll_request(now, lane) {
                    asked.push_back((request.request, lane));
                }
                piece += 1;
                if asked.len() > 2 * lanes as usize || piece > 4 * lanes {
                    let Some((request, lane)) = asked.pop_front() else { return };
                    machine.handle_bytes(now, lane, 16 * MIB);
                    let digests = vec![EntryDigest {
                        entry: 0,
                        form: DigestForm::Standard,
                        digest: Digest([1; 32]),
                        seen: None,
                    }];
                    black_box(machine.handle_answered(now, request, digests, vec![], 16 * MIB));
                }
            });
        });
    }
    group.finish();
}

/// Measures the replay after a restart of a page that is all written and not durable.
fn replay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    for (name, files, bytes) in SETS {
        let pages = vec![page(0, files, bytes)];
        let mut run = Run::new(&pages);
        run.open_pages();
        let mut names = Vec::new();
        while run.hand_out(&mut names).0 {}
        let log = run.machine.take_commit().map(|commit| commit.pages[0].append.clone());
        let log = log.unwrap_or_default();
        group.throughput(Throughput::Elements(piece_count(&pages)));
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let (digest, nothing) = (Digest::default(), Comparison::default());
                let mut ledger = PageLedger::new(&pages[0], digest, DigestKind::Blake3, &nothing);
                let mut input = Reader::new(&log);
                let records = std::iter::from_fn(|| JournalRecord::take_from(&mut input).ok());
                black_box(ledger.replay(records, log.len() as u64, false))
            });
        });
    }
    group.finish();
}

/// Measures a decision of a queue of 10,000 transfers of 50 users, and the list of its first 100.
fn decisions(criterion: &mut Criterion) {
    let mut queue = Queue::new(Limits::of_site(4));
    for number in 0..10_000_u32 {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        let request = Request {
            id: TransferId(id),
            user: format!("user{}", number % 50),
            group: String::new(),
            pair: None,
            source_store: None,
            target_store: None,
            priority: (number % 100) as u8,
            urgent: false,
            created: u64::from(number),
            label: String::new(),
            not_before: None,
            start_by: None,
            latest_start: None,
            typical_seconds: None,
            forecast_seconds: None,
            forecast_bytes: None,
            nearly_done_items: None,
        };
        queue.handle_submitted(request, 0);
    }
    let mut group = criterion.benchmark_group("queue");
    group.bench_function("decision", |bench| {
        bench.iter_batched(
            || queue.clone(),
            |mut queue| black_box(queue.poll_starts(1)),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("list", |bench| bench.iter(|| black_box(queue.order(100, 1))));
    group.finish();
}
