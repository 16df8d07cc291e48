//! Promise (g): the machine of a transfer holds a bounded window, whatever the number of entries.

use penstock_engine::transfer::{Joining, Phase, TransferMachine, WindowLimits};
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{PeerNumber, TransferId};
use penstock_proto::journal::Incarnation;
use penstock_proto::manifest::{EntryDraft, PAGE_ENTRIES_MAX, Page, PageBuilder, page_digest};
use penstock_proto::slicing::Slicing;
use penstock_proto::task::{Report, Work};
use penstock_proto::units::Instant;

const ENTRIES: usize = 1_000_000;
/// Open pages at a time.
const LIMITS: usize = 16;

fn page(number: u32) -> Page {
    let mut builder = PageBuilder::new(TransferId([1; 16]), number, Slicing::default());
    for at in 0..PAGE_ENTRIES_MAX {
        let name = format!("f{at}");
        let draft = EntryDraft { name: name.as_bytes(), size: 4096, ..EntryDraft::default() };
        builder.push(b"", &draft);
    }
    builder.seal()
}

/// Promise (g): a million small files pass through a window of 16 pages, each page is opened once,
/// and after each commit only the counts of durable pages remain.
#[test]
fn g_a_million_entries_pass_through_a_bounded_window() {
    let limits = WindowLimits { pages: LIMITS, ..WindowLimits::default() };
    let kind = DigestKind::Blake3;
    let mut machine = TransferMachine::new(kind, [], limits, 1);
    let (peer, now) = (PeerNumber(0), Instant(0));
    let joining = Joining { incarnation: Incarnation::default(), epoch: 0, grant: None };
    machine.handle_joined(peer, joining, now);
    let total = ENTRIES.div_ceil(PAGE_ENTRIES_MAX) as u32;
    let (mut epoch, mut opened, mut most_open, mut most_log) = (1, 0, 0, 0);
    for _ in 0..100_000 {
        while let Some(number) = machine.wants_page() {
            if number == total {
                machine.handle_scan_end(total);
                continue;
            }
            assert_eq!(number, opened, "each page is opened once, in order");
            opened += 1;
            let page = page(number);
            machine.handle_page(&page, page_digest(&number.to_le_bytes()), [], 0, false);
        }
        most_open = most_open.max(machine.standing(peer).0);
        let reply = machine.poll_work(peer, 64 << 20, now);
        let mut reports = Vec::new();
        for work in reply.work {
            reports.extend(done(work, epoch));
        }
        reports.push(Report::Synced { epoch });
        epoch += 1;
        machine.handle_reports(peer, reports, now);
        if let Some(commit) = machine.take_commit() {
            most_log = most_log.max(commit.pages.iter().map(|page| page.append.len()).sum());
            machine.handle_committed(&commit);
        }
        if machine.phase() == Phase::Done {
            break;
        }
    }
    assert_eq!(machine.phase(), Phase::Done);
    assert_eq!(machine.totals().files, u64::from(total) * PAGE_ENTRIES_MAX as u64);
    assert_eq!(opened, total);
    assert!(most_open <= LIMITS, "{most_open} pages were open");
    assert!(most_log < 1 << 20, "one commit appended {most_log} bytes");
    assert_eq!(machine.standing(peer).0, 0, "all pages are closed");
}

/// Returns the reports of a peer that does everything at once.
fn done(work: Work, epoch: u64) -> Vec<Report> {
    let (digests, failures) = (Vec::new(), Vec::new());
    match work {
        Work::Fetch { piece, generation, .. } => vec![
            Report::Written { piece, generation, epoch, digests, failures, fetched: true },
            Report::Published { piece, generation, epoch, failures: Vec::new() },
        ],
        Work::Links { page } => vec![Report::LinksDone { page, failures, epoch }],
        Work::Directories { page } => vec![Report::DirectoriesDone { page, failures, epoch }],
        other => panic!("{other:?}"),
    }
}
