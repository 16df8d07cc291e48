//! The ledger under sequences that simulated worlds found to break it.

use penstock_engine::page::PageLedger;
use penstock_engine::transfer::{
    Joining, LedgerCommit, PageStanding, TransferMachine, WindowLimits,
};
use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, TransferId};
use penstock_proto::journal::{
    DigestForm, EntryDigest, EntryFailure, FailurePhase, Incarnation, JournalRecord,
};
use penstock_proto::manifest::{EntryDraft, Page, PageBuilder};
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
/// open any more.
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

/// A4: data that a failed sync lost is handed out again only once the log says that it is missing.
/// The pieces that an earlier run wrote are missing as well, checked or not.
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

/// E3: the only file in the window is begun anew rather than put aside behind itself.
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

/// Promise (d): a failed file's temporary file is removed once the log says that it failed, and
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
/// sync takes back exactly what it counted.
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
    machine.handle_known_failures(0, [7]);
    machine.handle_scan_end(1);
    assert!(matches!(machine.poll_work(PEER, 0, NOW).work[..], [Work::Links { .. }]));
    let failures = vec![EntryFailure { entry: 7, phase: FailurePhase::Publish, errno: 1 }];
    machine.handle_reports(PEER, [Report::LinksDone { page: 0, failures, epoch: 1 }], NOW);
    assert_eq!(machine.totals().failures, 1);
}

/// Promise (c), A2: nothing of a compared page is handed out before the log says how it was cut,
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
