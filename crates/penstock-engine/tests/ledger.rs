//! The ledger under sequences that simulated worlds found to break it.

use penstock_engine::page::PageLedger;
use penstock_engine::page::shares::{SHARES, Share};
use penstock_engine::slice::Piece;
use penstock_engine::transfer::{
    Joining, LedgerCommit, PageStanding, TransferMachine, WindowLimits,
};
use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, TransferId};
use penstock_proto::journal::{
    Amendment, DigestForm, EntryDigest, EntryFailure, FailurePhase, Incarnation, JournalRecord,
};
use penstock_proto::manifest::{Amends, EntryDraft, Page, PageBuilder};
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_proto::task::{Report, Work};
use penstock_proto::units::{Instant, MIB};
use penstock_proto::wire::Reader;

/// The only peer, and a moment on which nothing here depends.
const PEER: PeerNumber = PeerNumber(0);
const NOW: Instant = Instant(0);

fn page_of(sizes: &[u64]) -> Page {
    let slicing = Slicing { extent_bytes: MIB, ..Slicing::default() };
    let mut builder = PageBuilder::new(TransferId([1; 16]), 0, slicing);
    for (index, size) in sizes.iter().enumerate() {
        let name = format!("f{index}");
        let draft = EntryDraft { name: name.as_bytes(), size: *size, ..EntryDraft::default() };
        builder.push(b"", &draft);
    }
    builder.seal()
}

/// Returns page 1, with newer versions of the first entries of page 0.
fn further_page(sizes: &[u64]) -> Page {
    let slicing = Slicing { extent_bytes: MIB, ..Slicing::default() };
    let mut builder = PageBuilder::amending(TransferId([1; 16]), 1, 1, slicing);
    for (entry, size) in (0..).zip(sizes) {
        let name = format!("f{entry}");
        let draft = EntryDraft { name: name.as_bytes(), size: *size, ..EntryDraft::default() };
        let amends = Amends { page: 0, entry, same_bytes: false };
        builder.push_amending(b"", &draft, amends);
    }
    builder.seal()
}

/// Returns the machine with its only peer.
fn joined(mut machine: TransferMachine) -> TransferMachine {
    let joining = Joining { incarnation: Incarnation::default(), epoch: 0, grant: None };
    machine.handle_joined(PEER, joining, NOW);
    machine
}

/// Returns a machine with one open page of files of these sizes; the scan is over.
fn machine_of(sizes: &[u64], log: Vec<JournalRecord>) -> TransferMachine {
    let limits = WindowLimits { files: 1, ..WindowLimits::default() };
    let mut machine = joined(TransferMachine::new(DigestKind::Blake3, [], limits, 1));
    machine.handle_page(&page_of(sizes), Digest::default(), log, 0, false);
    machine.handle_scan_end(1);
    machine
}

fn piece(piece: u32) -> PieceRef {
    PieceRef { page: 0, piece }
}

fn digest(entry: u32) -> EntryDigest {
    EntryDigest { entry, form: DigestForm::Standard, digest: Digest::default(), seen: None }
}

fn written(index: u32, generation: u32, epoch: u64) -> Report {
    Report::Written {
        piece: piece(index),
        generation,
        epoch,
        digests: vec![digest(0)],
        failures: Vec::new(),
        fetched: true,
    }
}

fn commit(machine: &mut TransferMachine) -> Vec<JournalRecord> {
    let Some(commit) = machine.take_commit() else { return Vec::new() };
    machine.handle_committed(&commit);
    records(&commit)
}

fn records(commit: &LedgerCommit) -> Vec<JournalRecord> {
    let mut records = Vec::new();
    for page in &commit.pages {
        let mut input = Reader::new(&page.append);
        while let Ok(record) = JournalRecord::take_from(&mut input) {
            records.push(record);
        }
    }
    records
}

fn durable(records: &[JournalRecord]) -> Vec<u32> {
    let of = |record: &JournalRecord| match record {
        JournalRecord::Durable { pieces } => pieces.clone(),
        _ => Vec::new(),
    };
    records.iter().flat_map(of).collect()
}

/// A9: an extent that was written again, because its temporary file was lost, is not called durable
/// by the sync for which its first writing waited.
#[test]
fn a9_a_sync_covers_only_the_writing_before_it() {
    let mut machine = machine_of(&[2 * MIB], Vec::new());
    machine.poll_work(PEER, u64::MAX, NOW);
    machine.handle_reports(
        PEER,
        [written(0, 0, 5), Report::Lost { page: 0, entry: 0, generation: 0 }],
        NOW,
    );
    commit(&mut machine);
    let again = machine.poll_work(PEER, u64::MAX, NOW).work;
    assert!(matches!(again[0], Work::Fetch { generation: 1, fresh: true, .. }));
    machine.handle_reports(PEER, [written(0, 1, 6), Report::Synced { epoch: 5 }], NOW);
    assert_eq!(durable(&commit(&mut machine)), Vec::<u32>::new());
    machine.handle_reports(PEER, [Report::Synced { epoch: 6 }], NOW);
    assert_eq!(durable(&commit(&mut machine)), [0]);
}

/// B1: leftovers of later attempts at a file are searched for at the end as well, when no page is
/// open.
#[test]
fn b1_attempts_at_files_of_closed_pages_are_remembered() {
    let mut machine = machine_of(&[2 * MIB], Vec::new());
    machine.poll_work(PEER, u64::MAX, NOW);
    machine.handle_reports(PEER, [Report::Lost { page: 0, entry: 0, generation: 0 }], NOW);
    commit(&mut machine);
    machine.poll_work(PEER, u64::MAX, NOW);
    let extents = [written(0, 1, 1), written(1, 1, 1), Report::Synced { epoch: 1 }];
    machine.handle_reports(PEER, extents, NOW);
    commit(&mut machine);
    let finish = machine.poll_work(PEER, u64::MAX, NOW).work;
    assert_eq!(finish, [Work::Finish { piece: piece(2), generation: 1 }]);
    let failures = Vec::new();
    let named = Report::Published { piece: piece(2), generation: 1, epoch: 2, failures };
    machine.handle_reports(PEER, [named, Report::Synced { epoch: 2 }], NOW);
    commit(&mut machine);
    assert_eq!((machine.standing(PEER).0, machine.generation_max()), (0, 1));
}

/// A4: data that a failed sync lost is handed out again only once the log records that it is
/// missing. The pieces that an earlier run wrote are missing as well, checked or not.
#[test]
fn a4_a_failed_sync_is_in_the_log_before_anything_is_fetched_again() {
    let earlier = JournalRecord::Written {
        piece: 0,
        generation: 0,
        epoch: 1,
        digests: vec![digest(0)],
        failures: Vec::new(),
    };
    let log = vec![JournalRecord::Incarnation(Incarnation::default()), earlier];
    let mut machine = machine_of(&[10], log);
    machine.handle_reports(PEER, [Report::SyncFailed { epoch: 2, errno: 5 }], NOW);
    assert_eq!(machine.poll_work(PEER, u64::MAX, NOW).work, []);
    assert!(machine.commit_is_urgent());
    let told = commit(&mut machine);
    assert!(told.contains(&JournalRecord::Missing { pieces: vec![0] }));
    assert!(matches!(
        machine.poll_work(PEER, u64::MAX, NOW).work[..],
        [Work::Fetch { fresh: true, .. }]
    ));
}

/// Promise (d): when a peer is lost, packs that it wrote and did not name are handed out again
/// instead of being waited for.
#[test]
fn a_lost_peer_leaves_nothing_waiting_for_it() {
    let mut machine = machine_of(&[10], Vec::new());
    machine.poll_work(PEER, u64::MAX, NOW);
    machine.handle_reports(PEER, [written(0, 0, 1)], NOW);
    commit(&mut machine);
    machine.handle_left(PEER);
    let mut machine = joined(machine);
    commit(&mut machine);
    assert!(matches!(machine.poll_work(PEER, u64::MAX, NOW).work[..], [Work::Fetch { .. }]));
}

/// E3: the only file in the window is started again rather than put aside behind itself.
#[test]
fn e3_a_file_does_not_wait_for_itself() {
    let mut machine = machine_of(&[2 * MIB], Vec::new());
    machine.poll_work(PEER, u64::MAX, NOW);
    machine.handle_reports(PEER, [Report::Lost { page: 0, entry: 0, generation: 0 }], NOW);
    commit(&mut machine);
    assert_eq!(machine.poll_work(PEER, u64::MAX, NOW).work.len(), 2);
}

/// A6: a late report that the temporary file is gone does not undo a file that is all durable.
#[test]
fn a6_a_named_file_is_not_lost() {
    let mut machine = machine_of(&[2 * MIB], Vec::new());
    machine.poll_work(PEER, u64::MAX, NOW);
    machine.handle_reports(
        PEER,
        [written(0, 0, 1), written(1, 0, 1), Report::Synced { epoch: 1 }],
        NOW,
    );
    commit(&mut machine);
    assert!(matches!(machine.poll_work(PEER, 0, NOW).work[..], [Work::Finish { .. }]));
    machine.handle_reports(
        PEER,
        [
            Report::Lost { page: 0, entry: 0, generation: 0 },
            Report::Published { piece: piece(2), generation: 0, epoch: 2, failures: Vec::new() },
            Report::Synced { epoch: 2 },
        ],
        NOW,
    );
    assert_eq!(durable(&commit(&mut machine)), [2]);
    assert_eq!(machine.totals().files, 1);
}

/// Promise (d): a failed file's temporary file is removed once the log records that it failed, and
/// after a restart once more.
#[test]
fn a_failed_file_is_discarded_when_that_is_committed() {
    let mut machine = machine_of(&[2 * MIB], Vec::new());
    machine.poll_work(PEER, u64::MAX, NOW);
    let failure = EntryFailure { entry: 0, phase: FailurePhase::Changed, errno: 0 };
    let (digests, failures) = (Vec::new(), vec![failure]);
    let report = Report::Written {
        piece: piece(0),
        generation: 0,
        epoch: 1,
        digests,
        failures,
        fetched: true,
    };
    machine.handle_reports(PEER, [report], NOW);
    assert_eq!(machine.poll_work(PEER, u64::MAX, NOW).work, []);
    let log = commit(&mut machine);
    let discard = Work::Discard { page: 0, entry: 0, generation: 0 };
    assert_eq!(machine.poll_work(PEER, u64::MAX, NOW).work[0], discard);
    let mut machine = machine_of(&[2 * MIB], log);
    assert_eq!(machine.poll_work(PEER, u64::MAX, NOW).work[0], discard);
    assert_eq!(machine.totals().failures, 1);
}

/// Promise (c): files and failures are counted the same before and after a restart, and a failed
/// sync subtracts exactly the files that it counted.
#[test]
fn counts_survive_restarts_and_failed_syncs() {
    let page = page_of(&[10, 10, 2 * MIB]);
    let failure = EntryFailure { entry: 1, phase: FailurePhase::Read, errno: 5 };
    let named = EntryFailure { entry: 0, phase: FailurePhase::Publish, errno: 1 };
    let write = |piece, failures| JournalRecord::Written {
        piece,
        generation: 0,
        epoch: 1,
        digests: vec![digest(2)],
        failures,
    };
    let log = vec![
        write(0, vec![]),
        write(1, vec![]),
        write(2, vec![]),
        write(3, vec![failure]),
        JournalRecord::Failed(named),
        JournalRecord::Durable { pieces: vec![0, 1, 2, 3] },
    ];
    let nothing = Comparison::default();
    let mut ledger = PageLedger::new(&page, Digest::default(), DigestKind::Blake3, &nothing);
    assert!(ledger.replay(log, 0, false).is_empty());
    let (files, bytes, bytes_durable, failures) = ledger.counts();
    assert_eq!((files, failures), (1, 2), "the large file, and none of the pack's two");
    assert_eq!(bytes, bytes_durable);
    assert!(ledger.is_settled());

    let mut machine = machine_of(&[10, 10], Vec::new());
    for epoch in [1, 2] {
        machine.poll_work(PEER, u64::MAX, NOW);
        let (digests, failures) = (vec![digest(0)], vec![failure]);
        machine.handle_reports(
            PEER,
            [Report::Written {
                piece: piece(0),
                generation: 0,
                epoch,
                digests,
                failures,
                fetched: true,
            }],
            NOW,
        );
        assert_eq!((machine.totals().files, machine.totals().failures), (1, 1));
        machine.handle_reports(PEER, [Report::SyncFailed { epoch, errno: 5 }], NOW);
        assert_eq!(machine.totals().failures, 0);
        commit(&mut machine);
    }
}

/// Promise (c): a link that fails in every run is counted once.
#[test]
fn a_link_that_fails_again_is_counted_once() {
    let standing = PageStanding {
        digest: Digest::default(),
        log_bytes: 0,
        files: 0,
        bytes: 0,
        failures: 1,
        kept: 0,
        kept_bytes: 0,
        asks: false,
    };
    let limits = WindowLimits::default();
    let complete = [(0, standing)];
    let mut machine = joined(TransferMachine::new(DigestKind::Blake3, complete, limits, 1));
    machine.handle_known_failures(0, [7], 0);
    machine.handle_scan_end(1);
    assert!(matches!(machine.poll_work(PEER, 0, NOW).work[..], [Work::Links { .. }]));
    let failures = vec![EntryFailure { entry: 7, phase: FailurePhase::Publish, errno: 1 }];
    machine.handle_reports(PEER, [Report::LinksDone { page: 0, failures, epoch: 1 }], NOW);
    assert_eq!(machine.totals().failures, 1);
}

/// Promise (c), A2: nothing of a compared page is handed out before the log records how it was cut,
/// and a restart cuts it in the same way.
#[test]
fn c_a_compared_page_is_cut_the_same_after_a_restart() {
    let page = page_of(&[1, 2, 3, 9 * MIB, 5]);
    let limits = WindowLimits::default();
    let mut machine = joined(TransferMachine::new(DigestKind::Blake3, [], limits, 1));
    let compared = Comparison {
        kept: [1, 3].into_iter().collect(),
        failed: vec![penstock_proto::compared::refused(4, 0)],
        existed: [0, 1, 2].into_iter().collect(),
        carried: Vec::new(),
        in_the_way: 0,
    };
    machine.handle_compared_page(&page, Digest::default(), compared.clone(), Vec::new(), false);
    machine.handle_scan_end(1);
    assert!(machine.poll_work(PEER, u64::MAX, NOW).work.is_empty(), "not before it is committed");
    assert!(machine.commit_is_urgent());
    let commit = machine.take_commit().unwrap();
    let head = &commit.pages[0];
    assert_eq!((head.kept, head.kept_bytes, head.failures), (2, 2 + 9 * MIB, 1));
    machine.handle_committed(&commit);
    assert_eq!(
        machine.poll_work(PEER, u64::MAX, NOW).work.len(),
        2,
        "a pack before and one behind"
    );
    let log = records(&commit);
    assert!(log.contains(&JournalRecord::Compared(compared)));
    let again = machine_of(&[1, 2, 3, 9 * MIB, 5], log);
    assert_eq!((again.totals().kept, again.totals().failures), (2, 1));
}

/// Returns the bytes of a piece map by share, and the failures, of a machine whose scan has found
/// 1 MiB more than its page has.
fn map_of(machine: &TransferMachine, known: u64) -> ([u64; SHARES], u64) {
    sums_of(machine, known + MIB)
}

/// Returns the bytes of a piece map by share, and the failures; the scan has found `found` bytes.
fn sums_of(machine: &TransferMachine, found: u64) -> ([u64; SHARES], u64) {
    let map = machine.piece_map(found, 16);
    assert_eq!(map.len(), 16);
    map.iter().fold(([0; SHARES], 0), |(mut sums, failures), bucket| {
        sums.iter_mut().zip(bucket.bytes).for_each(|(sum, bytes)| *sum += bytes);
        (sums, failures + bucket.failures)
    })
}

/// Promise: the piece map has each byte once, with its state, while the ledger changes; a file has
/// the share of its pieces.
#[test]
fn a_piece_map_follows_the_ledger() {
    let sizes = [2 * MIB, 10, MIB / 2];
    let known: u64 = sizes.iter().sum();
    let limits = WindowLimits { files: 1, ..WindowLimits::default() };
    let mut machine = joined(TransferMachine::new(DigestKind::Blake3, [], limits, 1));
    // More is being listed.
    machine.handle_page(&page_of(&sizes), Digest::default(), Vec::new(), 0, false);
    let of = |machine: &TransferMachine, share: Share| {
        let (sums, failures) = map_of(machine, known);
        assert_eq!(sums.iter().sum::<u64>(), known + MIB, "a byte is lost");
        (sums[share as usize], failures)
    };
    assert_eq!(of(&machine, Share::Left), (known + MIB, 0));
    machine.poll_work(PEER, u64::MAX, NOW);
    assert_eq!(of(&machine, Share::InHand), (known, 0));
    assert_eq!(of(&machine, Share::Left), (MIB, 0));
    machine.handle_reports(PEER, [written(0, 0, 5)], NOW);
    assert_eq!(of(&machine, Share::Written), (MIB, 0));
    machine.handle_reports(PEER, [Report::Synced { epoch: 5 }], NOW);
    assert_eq!(of(&machine, Share::Done), (MIB, 0));
    let file = machine.file_shares(&page_of(&sizes))[&0];
    assert_eq!((file[Share::Done as usize], file[Share::InHand as usize]), (MIB, MIB));
    machine.handle_reports(PEER, [Report::Lost { page: 0, entry: 0, generation: 0 }], NOW);
    assert_eq!(of(&machine, Share::Again), (2 * MIB, 0));
    commit(&mut machine);
    machine.poll_work(PEER, u64::MAX, NOW);
    let failures = vec![EntryFailure { entry: 0, phase: FailurePhase::Read, errno: 5 }];
    let lost = Report::Written {
        piece: piece(0),
        generation: 1,
        epoch: 6,
        digests: Vec::new(),
        failures,
        fetched: true,
    };
    machine.handle_reports(PEER, [lost], NOW);
    assert_eq!(of(&machine, Share::Failed), (2 * MIB, 1));
    let shares = machine.file_shares(&page_of(&sizes));
    let sums = shares.values().map(|file| file.iter().sum::<u64>());
    assert_eq!(sums.collect::<Vec<_>>(), sizes, "each file has its bytes once");
}

/// Promise: a page that an earlier run has closed is in the map with the sums of its head, and with
/// the failed bytes of its log. Bytes in no page come after them, and there are none once all pages
/// are known.
#[test]
fn a_closed_page_is_in_the_piece_map() {
    let standing = PageStanding {
        digest: Digest::default(),
        log_bytes: 0,
        files: 3,
        bytes: 3 * MIB,
        failures: 2,
        kept: 1,
        kept_bytes: MIB,
        asks: false,
    };
    let limits = WindowLimits::default();
    let mut machine = TransferMachine::new(DigestKind::Blake3, [(0, standing)], limits, 1);
    machine.handle_known_failures(0, [1, 2], 4 * MIB);
    let map = machine.piece_map(16 * MIB, 2);
    let of = |at: usize, share: Share| map[at].bytes[share as usize];
    assert_eq!((of(0, Share::Done), of(0, Share::Failed)), (4 * MIB, 4 * MIB));
    assert_eq!((of(1, Share::Left), map[0].failures, map[1].failures), (8 * MIB, 2, 0));
    assert_eq!(machine.known_pages(9), [0]);
    machine.handle_scan_end(1);
    let (sums, failures) = sums_of(&machine, 16 * MIB);
    assert_eq!((sums[Share::Failed as usize], sums[Share::Left as usize]), (4 * MIB, 0));
    assert_eq!((sums.iter().sum::<u64>(), failures), (8 * MIB, 2));
}

/// Returns the machine, and the sizes of its data set, when a large file, one that grows and one
/// that shrinks are closed: of the first one a read failed.
fn closed_with_a_failure() -> (TransferMachine, Vec<u64>) {
    let sizes = vec![2 * MIB, 2 * MIB, 3 * MIB, 10];
    let limits = WindowLimits::default();
    let mut machine = joined(TransferMachine::new(DigestKind::Blake3, [], limits, 1));
    machine.wait_for_answers();
    machine.handle_page(&page_of(&sizes), Digest::default(), Vec::new(), 0, false);
    machine.handle_scan_end(1);
    finish_all(&mut machine, &[0]);
    (machine, sizes)
}

/// Does all work of a machine; the extents of these entries of page 0 have changed.
fn finish_all(machine: &mut TransferMachine, changed: &[u32]) {
    let sizes = [2 * MIB, 2 * MIB, 3 * MIB, 10];
    let pieces = penstock_engine::slice::slice(&page_of(&sizes));
    for epoch in 1..20 {
        let work = machine.poll_work(PEER, u64::MAX, NOW).work;
        let mut reports: Vec<Report> = Vec::new();
        for task in work {
            match task {
                Work::Fetch { piece, generation, .. } => {
                    let entry = match pieces.get(piece.piece as usize) {
                        Some(Piece::Extent { entry, .. }) if piece.page == 0 => Some(*entry),
                        _ => None,
                    };
                    let failed = entry.filter(|entry| changed.contains(entry));
                    let phase = FailurePhase::Changed;
                    let failures = failed.map(|entry| EntryFailure { entry, phase, errno: 0 });
                    reports.push(Report::Written {
                        piece,
                        generation,
                        epoch,
                        digests: vec![digest(entry.unwrap_or(0))],
                        failures: failures.into_iter().collect(),
                        fetched: true,
                    });
                    let failures = Vec::new();
                    let published = Report::Published { piece, generation, epoch, failures };
                    reports.extend(entry.is_none().then_some(published));
                }
                Work::Finish { piece, generation } => {
                    let failures = Vec::new();
                    reports.push(Report::Published { piece, generation, epoch, failures });
                }
                _ => {}
            }
        }
        reports.push(Report::Synced { epoch });
        machine.handle_reports(PEER, reports, NOW);
        commit(machine);
    }
}

/// Promise: newer versions of files take the place of the older ones in the piece map, whether they
/// grew, shrank, or had failed: at the end no byte is failed, left, or counted twice. A restart
/// changes nothing of it.
#[test]
fn newer_versions_are_in_the_piece_map_once() {
    let (mut machine, sizes) = closed_with_a_failure();
    let found: u64 = sizes.iter().sum();
    let of = |sums: [u64; SHARES], share: Share| sums[share as usize];
    let (before, failures) = sums_of(&machine, found);
    assert_eq!((of(before, Share::Failed), failures), (2 * MIB, 1));
    assert_eq!((of(before, Share::Done), of(before, Share::Left)), (5 * MIB + 10, 0));
    machine.handle_asked([0], 2);
    let newer = [2 * MIB, 5 * MIB, MIB / 2];
    machine.handle_page(&further_page(&newer), Digest::default(), Vec::new(), 0, false);
    let amendment = Amendment { entries: vec![0, 1, 2], failures: 1, files: 2, bytes: 5 * MIB };
    machine.handle_amended(0, amendment, 2 * MIB);
    let total = newer.iter().sum::<u64>() + 10;
    let (during, failures) = sums_of(&machine, found);
    assert_eq!((during.iter().sum::<u64>(), failures), (total, 0));
    assert_eq!((of(during, Share::Failed), of(during, Share::Done)), (0, 10));
    finish_all(&mut machine, &[]);
    let (end, failures) = sums_of(&machine, found);
    assert_eq!((of(end, Share::Done), failures), (total, 0));
    assert_eq!(end.iter().sum::<u64>(), total, "a byte is failed, left, or counted twice");
}

/// Promise: a page whose log is doubted is in the piece map without the entries that later pages
/// replace.
#[test]
fn a_doubted_page_is_without_what_was_replaced() {
    let sizes = [2 * MIB, 2 * MIB, 3 * MIB, 10];
    let failure = EntryFailure { entry: 0, phase: FailurePhase::Changed, errno: 0 };
    let bytes = 2 * MIB + 10;
    let log = vec![
        JournalRecord::Failed(failure),
        JournalRecord::Amended(Amendment { entries: vec![0, 1, 3], failures: 1, files: 2, bytes }),
    ];
    let machine = machine_of(&sizes, log);
    let (sums, failures) = sums_of(&machine, 0);
    assert_eq!((sums[Share::Left as usize], failures), (3 * MIB, 0));
    assert_eq!(sums.iter().sum::<u64>(), 3 * MIB);
}
