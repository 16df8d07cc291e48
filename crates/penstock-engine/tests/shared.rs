//! A transfer that several target peers share: rights to write, and pieces after a peer's end.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use penstock_engine::transfer::{Joining, LedgerCommit, Phase, TransferMachine, WindowLimits};
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::{
    DigestForm, EntryDigest, EntryFailure, FailurePhase, Incarnation, JournalRecord,
};
use penstock_proto::manifest::Page;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Report, Work};
use penstock_proto::units::{Instant, MIB};
use penstock_proto::wire::Reader;
use proptest::prelude::*;

use common::page_of;

const GRANT: Duration = Duration::from_secs(10);
const A: PeerNumber = PeerNumber(0);
const B: PeerNumber = PeerNumber(1);
const C: PeerNumber = PeerNumber(2);
/// Bytes that ask for everything.
const ALL: u64 = u64::MAX;

fn second(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn incarnation(writer: u64) -> Incarnation {
    Incarnation { writer: WriterId(writer), ..Incarnation::default() }
}

fn join(machine: &mut TransferMachine, peer: PeerNumber, writer: u64, now: Instant) {
    let joining = Joining { incarnation: incarnation(writer), epoch: 0, grant: Some(GRANT) };
    machine.handle_joined(peer, joining, now);
}

/// Returns a machine with one page of files of these sizes, and the peers A and B, of the writers
/// 100 and 101.
fn machine_of(sizes: &[u64]) -> TransferMachine {
    let limits = WindowLimits::default();
    let mut machine = TransferMachine::new(DigestKind::Blake3, [], limits, 1);
    machine.handle_page(&page_of(0, sizes), Digest::default(), [], 0, false);
    machine.handle_scan_end(1);
    join(&mut machine, A, 100, second(0));
    join(&mut machine, B, 101, second(0));
    machine
}

fn piece(piece: u32) -> PieceRef {
    PieceRef { page: 0, piece }
}

fn written(piece: PieceRef, epoch: u64) -> Report {
    common::written(piece, 0, epoch)
}

fn published(piece: PieceRef, epoch: u64) -> Report {
    Report::Published { piece, generation: 0, epoch, failures: Vec::new() }
}

fn report(machine: &mut TransferMachine, peer: PeerNumber, reports: Vec<Report>) {
    machine.handle_reports(peer, reports, second(0));
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

/// Commits, with the present log; the machine is given the parts of it that it wants to read.
fn commit(machine: &mut TransferMachine, log: &mut Vec<JournalRecord>) {
    if let Some(commit) = machine.take_commit() {
        log.extend(records(&commit));
        machine.handle_committed(&commit);
    }
    while let Some((page, _)) = machine.wants_log() {
        machine.handle_log(page, log.clone());
    }
}

fn fetched(work: &[Work]) -> BTreeSet<u32> {
    let piece = |work: &Work| match work {
        Work::Fetch { piece, .. } => Some(piece.piece),
        _ => None,
    };
    work.iter().filter_map(piece).collect()
}

/// B3: a returned piece may belong to another peer by now: further reports of the first peer on it
/// do not count.
#[test]
fn b3_what_nobody_has_in_hand_nobody_has_written() {
    let mut machine = machine_of(&[10]);
    assert_eq!(fetched(&machine.poll_work(A, ALL, second(1)).work), BTreeSet::from([0]));
    let returned = Report::Returned { piece: piece(0), generation: 0 };
    report(&mut machine, A, vec![returned, written(piece(0), 1)]);
    assert_eq!(machine.totals().files, 0);
    assert_eq!(fetched(&machine.poll_work(B, ALL, second(1)).work), BTreeSet::from([0]));
}

/// B4, promise (d): no other peer gets the work of a silent peer until its grant has lapsed with
/// the margin; then another gets it at once. Later reports of the peer do not count.
#[test]
fn b4_a_lapsed_peer_loses_what_it_has_in_hand() {
    let mut machine = machine_of(&[10, 10]);
    assert_eq!(machine.poll_work(A, ALL, second(1)).work.len(), 2);
    machine.handle_alive(B, second(11));
    assert_eq!(machine.poll_lapsed(second(11)), []);
    assert!(machine.poll_work(B, ALL, second(11)).work.is_empty());
    let deadline = machine.next_deadline().unwrap();
    assert!(deadline > second(11), "the margin is the granter's");
    assert_eq!(machine.poll_lapsed(deadline), [A]);
    assert_eq!(fetched(&machine.poll_work(B, ALL, deadline).work), BTreeSet::from([0, 1]));
    machine.handle_reports(A, [written(piece(0), 1), published(piece(0), 2)], deadline);
    assert_eq!(machine.totals().files, 0);
    assert!(machine.poll_work(A, ALL, deadline).work.is_empty() && !machine.is_joined(A));
}

/// A9: the sync of one peer makes nothing durable that another wrote.
#[test]
fn a9_a_sync_covers_its_own_peers_writes_alone() {
    let mut machine = machine_of(&[2 * MIB]);
    machine.poll_work(A, ALL, second(0));
    report(&mut machine, A, vec![written(piece(0), 1), written(piece(1), 1)]);
    report(&mut machine, B, vec![Report::Synced { epoch: 9 }]);
    assert_eq!(machine.totals().bytes_durable, 0);
    report(&mut machine, A, vec![Report::Synced { epoch: 1 }]);
    assert_eq!(machine.totals().bytes_durable, 2 * MIB);
    let commit = machine.take_commit().unwrap();
    assert_eq!(commit.synced, BTreeMap::from([(WriterId(100), 1), (WriterId(101), 9)]));
}

/// A9: data that a lost peer wrote and had not made durable is checked, in doubt, by another. Packs
/// that it had not named are missing, for their names are its own.
#[test]
fn a9_another_peer_looks_at_what_a_lost_one_wrote() {
    let mut machine = machine_of(&[2 * MIB, 10, 20]);
    let mut log = Vec::new();
    machine.poll_work(A, ALL, second(0));
    let all = (0..2).chain(3..5);
    report(&mut machine, A, all.map(|it| written(piece(it), 1)).collect());
    report(&mut machine, A, vec![published(piece(3), 2)]);
    machine.handle_lost(A);
    assert!(machine.poll_work(B, ALL, second(0)).work.is_empty(), "not before it is committed");
    assert!(machine.commit_is_urgent());
    commit(&mut machine, &mut log);
    let work = machine.poll_work(B, ALL, second(0)).work;
    assert_eq!(fetched(&work), BTreeSet::from([4]));
    let looked_at = |work: &Work| match work {
        Work::Recheck { piece, doubt: true, digests, .. } if digests.len() == 1 => {
            Some(piece.piece)
        }
        _ => None,
    };
    let rechecks: BTreeSet<u32> = work.iter().filter_map(looked_at).collect();
    assert_eq!(rechecks, BTreeSet::from([0, 1, 3]));
    assert_eq!(machine.totals().bytes, 0, "nothing of it counts until then");
}

/// A4: only the writer's own host remains, whose page cache proves nothing after a sync that may
/// have failed unreported: the lost peer's data is fetched again.
#[test]
fn a4_a_writers_own_cache_proves_nothing_when_it_was_lost() {
    let mut machine = machine_of(&[2 * MIB]);
    let mut log = Vec::new();
    machine.poll_work(A, ALL, second(0));
    report(&mut machine, A, vec![written(piece(0), 1)]);
    machine.handle_lost(A);
    machine.handle_left(B);
    join(&mut machine, C, 100, second(0));
    commit(&mut machine, &mut log);
    assert_eq!(fetched(&machine.poll_work(C, ALL, second(0)).work), BTreeSet::from([1]));
    commit(&mut machine, &mut log);
    assert_eq!(fetched(&machine.poll_work(C, ALL, second(0)).work), BTreeSet::from([0]));
    assert!(log.contains(&JournalRecord::Missing { pieces: vec![0] }));
}

/// A4: the same holds when another peer was checking it meanwhile, and is lost as well. The writer
/// decides whose cache proves nothing, not the peer that checked last.
#[test]
fn a4_a_writers_own_cache_proves_nothing_when_who_looked_is_lost_too() {
    let mut machine = machine_of(&[MIB + 1]);
    let mut log = Vec::new();
    machine.poll_work(A, ALL, second(0));
    report(&mut machine, A, vec![written(piece(0), 1), written(piece(1), 1)]);
    machine.handle_lost(A);
    commit(&mut machine, &mut log);
    assert_eq!(machine.poll_work(B, ALL, second(0)).work.len(), 2);
    join(&mut machine, C, 100, second(0));
    machine.handle_lost(B);
    commit(&mut machine, &mut log);
    assert!(machine.poll_work(C, ALL, second(0)).work.is_empty(), "no look at its own cache");
    commit(&mut machine, &mut log);
    assert_eq!(fetched(&machine.poll_work(C, ALL, second(0)).work), BTreeSet::from([0, 1]));
}

/// A2, A7: after a restart the writer itself need not doubt its data, and another peer leaves the
/// check to it while it is there.
#[test]
fn a2_after_a_restart_the_writer_believes_what_it_wrote() {
    let mut first = machine_of(&[10]);
    let mut log = Vec::new();
    first.poll_work(A, ALL, second(0));
    report(&mut first, A, vec![written(piece(0), 1)]);
    commit(&mut first, &mut log);
    let mut machine = TransferMachine::new(DigestKind::Blake3, [], WindowLimits::default(), 1);
    join(&mut machine, A, 101, second(0));
    join(&mut machine, B, 100, second(0));
    machine.handle_page(&page_of(0, &[10]), Digest::default(), log, 0, false);
    assert!(machine.poll_work(A, ALL, second(0)).work.is_empty());
    let work = machine.poll_work(B, ALL, second(0)).work;
    assert!(matches!(work[..], [Work::Recheck { doubt: false, .. }]), "{work:?}");
}

/// B1: the work that an absent writer held under an earlier controller is unknown. Each file that
/// was begun and has no name is checked again in the end. A writer that returns has ended its work.
#[test]
fn b1_files_of_a_writer_that_stays_away_may_be_written_late() {
    let sizes = [2 * MIB, 2 * MIB, 10];
    let mut machine = machine_of(&sizes);
    let mut log = Vec::new();
    machine.poll_work(A, ALL, second(0));
    report(&mut machine, A, vec![written(piece(0), 1), Report::Synced { epoch: 1 }]);
    commit(&mut machine, &mut log);
    let limits = WindowLimits::default();
    for stays_away in [true, false] {
        let mut next = TransferMachine::new(DigestKind::Blake3, [], limits, 1);
        next.handle_page(&page_of(0, &sizes), Digest::default(), log.clone(), 100, false);
        next.handle_scan_end(1);
        next.wait_for_writers([WriterId(100)], second(20));
        join(&mut next, B, 101, second(0));
        if !stays_away {
            join(&mut next, C, 100, second(0));
        }
        next.poll_work(B, ALL, second(21));
        let late: Vec<_> = next.late_files().collect();
        let expected = if stays_away { vec![(WriterId(100), 0, 0)] } else { Vec::new() };
        assert_eq!(late, expected);
    }
}

/// B1: no peer waits for a controller that was frozen in the middle of a write, and whose tenure is
/// over. Each file that was begun under it and has no name is checked again in the end. That holds
/// whether its page is opened before or after, or was begun as another peer reports only now.
#[test]
fn b1_files_of_a_controller_that_was_frozen_may_be_written_late() {
    let sizes = [2 * MIB, 2 * MIB, 10];
    let mut machine = machine_of(&sizes);
    let mut log = Vec::new();
    machine.poll_work(A, ALL, second(0));
    report(&mut machine, A, vec![written(piece(0), 1), Report::Synced { epoch: 1 }]);
    commit(&mut machine, &mut log);
    for is_open in [true, false] {
        let limits = WindowLimits::default();
        let mut next = TransferMachine::new(DigestKind::Blake3, [], limits, 1);
        let open = |next: &mut TransferMachine, is_now: bool| {
            if is_now {
                next.handle_page(&page_of(0, &sizes), Digest::default(), log.clone(), 100, false);
            }
        };
        open(&mut next, is_open);
        next.note_last_own(WriterId(100));
        open(&mut next, !is_open);
        join(&mut next, B, 101, second(0));
        assert_eq!(next.late_files().collect::<Vec<_>>(), [(WriterId(100), 0, 0)]);
        next.handle_adopted(B, [written(piece(3), 1)]);
        let late: Vec<_> = next.late_files().collect();
        assert_eq!(late, [(WriterId(100), 0, 0), (WriterId(100), 0, 1)]);
        assert!(!next.poll_work(B, ALL, second(0)).work.is_empty(), "nobody waits for it");
    }
}

/// B1: only one peer makes the temporary file of a large file, and the others get its extents when
/// something was written there. If the maker is lost before, the file gets another name.
#[test]
fn b1_one_peer_makes_a_file_before_others_open_it() {
    let sizes = [200 * MIB];
    let mut machine = machine_of(&sizes);
    let work = machine.poll_work(A, 8 * MIB, second(0)).work;
    let fresh = |work: &Work| matches!(work, Work::Fetch { fresh: true, .. });
    assert_eq!(work.iter().filter(|work| fresh(work)).count(), 1);
    assert!(machine.poll_work(B, ALL, second(0)).work.is_empty());
    let Work::Fetch { piece, .. } = work[0] else { panic!("{work:?}") };
    report(&mut machine, A, vec![written(piece, 1)]);
    let work = machine.poll_work(B, 8 * MIB, second(0)).work;
    assert!(work.len() == 8 && !work.iter().any(fresh), "{work:?}");

    let mut machine = machine_of(&sizes);
    machine.poll_work(A, 8 * MIB, second(0));
    machine.handle_lost(A);
    commit(&mut machine, &mut Vec::new());
    let work = machine.poll_work(B, 8 * MIB, second(0)).work;
    assert!(matches!(work[0], Work::Fetch { fresh: true, generation: 1, .. }), "{work:?}");
    assert_eq!(machine.late_files().collect::<Vec<_>>(), [(WriterId(100), 0, 0)]);
}

/// Promise (f): pieces that a slow peer has not begun go to an idle one, at once and without a
/// commit. They are never handed out while the slow peer has them (B3).
#[test]
fn b3_a_slow_peer_gives_back_what_it_has_not_begun() {
    let mut machine = machine_of(&[512 * 1024; 16]);
    assert_eq!(machine.poll_work(A, ALL, second(0)).work.len(), 16);
    assert!(machine.poll_work(B, ALL, second(0)).work.is_empty());
    let back = machine.poll_work(A, 0, second(0)).give_back;
    assert_eq!(back, 4 * MIB, "half of what it has");
    assert!(machine.poll_work(B, ALL, second(0)).work.is_empty());
    let returned = (8..16).map(|it| Report::Returned { piece: piece(it), generation: 0 });
    report(&mut machine, A, returned.collect());
    let work = machine.poll_work(B, ALL, second(0)).work;
    assert_eq!(fetched(&work), (8..16).collect());
}

/// Promise: a draining peer gets no new work, returns the pieces that it has not begun, and has no
/// unfinished work when all its writes are durable.
#[test]
fn a_drained_peer_leaves_nothing_behind() {
    let mut machine = machine_of(&[10, 10, 10]);
    machine.poll_work(A, 8192, second(0));
    machine.handle_draining(A);
    let reply = machine.poll_work(A, ALL, second(0));
    assert!(reply.work.is_empty() && reply.give_back == u64::MAX);
    let in_hand: Vec<u32> = (0..3)
        .filter(|it| !fetched(&machine.poll_work(B, ALL, second(0)).work).contains(it))
        .collect();
    let (kept, back) = (in_hand[0], Report::Returned { piece: piece(in_hand[1]), generation: 0 });
    report(&mut machine, A, vec![back, written(piece(kept), 1)]);
    assert!(!machine.is_drained(A) && machine.poll_work(A, 0, second(0)).flush);
    let end = [Report::Synced { epoch: 1 }, published(piece(kept), 2), Report::Synced { epoch: 2 }];
    report(&mut machine, A, end.into());
    assert!(machine.is_drained(A));
    machine.handle_left(A);
    assert_eq!(machine.totals().files, 1);
}

const EIO: u16 = 5;
const EACCES: u16 = 13;

fn failed(phase: FailurePhase, errno: u16) -> Vec<EntryFailure> {
    vec![EntryFailure { entry: 0, phase, errno }]
}

/// Returns the report that no entry of a piece of one entry could be written.
fn unwritten(piece: PieceRef, errno: u16) -> Report {
    let (digests, failures) = (Vec::new(), failed(FailurePhase::Write, errno));
    Report::Written { piece, generation: 0, epoch: 1, digests, failures, fetched: true }
}

/// Returns the report that a piece could not get its name.
fn unnamed(piece: PieceRef, errno: u16) -> Report {
    let failures = failed(FailurePhase::Publish, errno);
    Report::Published { piece, generation: 0, epoch: 2, failures }
}

/// A11: a piece that one peer cannot write, or name, goes to one that has not failed at it, if the
/// failure may pass. That happens when the first has ended its work on it (B3) and the log records
/// that it is missing. It has failed only if the other cannot either, or if the failure cannot
/// pass.
#[test]
fn a11_a_pack_that_one_peer_cannot_write_is_anothers() {
    for first in [
        [unwritten(piece(0), EIO), published(piece(0), 2)],
        [written(piece(0), 1), unnamed(piece(0), EIO)],
    ] {
        for able in [true, false] {
            let mut machine = machine_of(&[10]);
            machine.poll_work(A, ALL, second(0));
            let [said, named] = first.clone();
            report(&mut machine, A, vec![said]);
            assert!(machine.poll_work(B, ALL, second(0)).work.is_empty(), "A names it still");
            report(&mut machine, A, vec![named]);
            assert!(machine.poll_work(B, ALL, second(0)).work.is_empty(), "the log has it written");
            let mut log = Vec::new();
            commit(&mut machine, &mut log);
            assert!(log.contains(&JournalRecord::Missing { pieces: vec![0] }), "{log:?}");
            assert_eq!((machine.totals().failures, machine.take_failures()), (0, Vec::new()));
            assert!(machine.poll_work(A, ALL, second(0)).work.is_empty(), "A has met it");
            assert_eq!(fetched(&machine.poll_work(B, ALL, second(0)).work), BTreeSet::from([0]));
            let again = if able { written(piece(0), 1) } else { unwritten(piece(0), EIO) };
            report(&mut machine, B, vec![again, published(piece(0), 2)]);
            let failures = u64::from(!able);
            assert_eq!(machine.totals().failures, failures);
            assert_eq!(machine.take_failures().len() as u64, failures);
            report(&mut machine, B, vec![Report::Synced { epoch: 2 }]);
            commit(&mut machine, &mut log);
            assert_eq!(machine.phase(), Phase::Links);
        }
    }
    let mut machine = machine_of(&[10]);
    machine.poll_work(A, ALL, second(0));
    report(&mut machine, A, vec![unwritten(piece(0), EACCES), published(piece(0), 2)]);
    assert_eq!(machine.take_failures(), [(0, failed(FailurePhase::Write, EACCES)[0])]);
}

/// A11: an extent that one peer cannot write does not fail its file: another writes it at once,
/// making the file if the first could not. Data of the first may reach the file late, so that it is
/// checked again (B2). Without another peer the same one tries again after a pause; a failure that
/// cannot pass fails the file.
#[test]
fn a11_an_extent_that_one_peer_cannot_write_is_anothers() {
    let mut machine = machine_of(&[2 * MIB]);
    machine.poll_work(A, ALL, second(0));
    report(&mut machine, A, vec![unwritten(piece(0), EIO), unwritten(piece(1), EIO)]);
    assert!(machine.poll_work(A, ALL, second(0)).work.is_empty(), "A has met it");
    let work = machine.poll_work(B, ALL, second(0)).work;
    assert_eq!(fetched(&work), BTreeSet::from([0, 1]));
    assert!(matches!(work[0], Work::Fetch { fresh: true, generation: 0, .. }), "{work:?}");
    assert_eq!(machine.late_files().collect::<Vec<_>>(), [(WriterId(100), 0, 0)]);
    report(&mut machine, B, vec![written(piece(0), 1), unwritten(piece(1), EIO)]);
    for peer in [A, B] {
        assert!(machine.poll_work(peer, ALL, second(1)).work.is_empty(), "both have met it");
    }
    assert_eq!(fetched(&machine.poll_work(A, ALL, second(9)).work), BTreeSet::from([1]));
    report(&mut machine, A, vec![unwritten(piece(1), EACCES)]);
    assert_eq!(machine.take_failures(), [(0, failed(FailurePhase::Write, EACCES)[0])]);
}

/// A11: a peer that could not write a piece does not get it again before the other has tried. That
/// holds for any reason why the piece is missing again: as a neighbour of another extent, or after
/// the other peer returned it unbegun.
#[test]
fn a11_what_one_peer_could_not_write_does_not_come_back_to_it() {
    let mut machine = machine_of(&[4 * MIB]);
    assert_eq!(fetched(&machine.poll_work(A, 4 * MIB, second(0)).work).len(), 4);
    let all = (0..4).map(|it| unwritten(piece(it), EIO));
    report(&mut machine, A, all.collect());
    for _ in 0..8 {
        assert!(machine.poll_work(A, MIB, second(0)).work.is_empty(), "A has met it");
    }
    let given: BTreeSet<u32> =
        (0..8).flat_map(|_| fetched(&machine.poll_work(B, MIB, second(0)).work)).collect();
    assert_eq!(given, (0..4).collect(), "B has it");
    let back = (0..4).map(|it| Report::Returned { piece: piece(it), generation: 0 });
    report(&mut machine, B, back.collect());
    for _ in 0..8 {
        assert!(machine.poll_work(A, 2 * MIB, second(1)).work.is_empty(), "B has not tried");
    }
    assert_eq!(fetched(&machine.poll_work(B, ALL, second(1)).work), (0..4).collect());
    assert_eq!(machine.totals().failures, 0);
}

/// A4: data that was written and could not be synced is not tried again: each try would be a failed
/// sync of everything that is written there.
#[test]
fn a4_an_extent_that_cannot_be_synced_fails_at_once() {
    let mut machine = machine_of(&[2 * MIB]);
    machine.poll_work(A, ALL, second(0));
    let mut unsynced = unwritten(piece(0), EIO);
    let Report::Written { failures, .. } = &mut unsynced else { unreachable!() };
    *failures = failed(FailurePhase::Publish, EIO);
    report(&mut machine, A, vec![unsynced]);
    assert_eq!(machine.take_failures(), [(0, failed(FailurePhase::Publish, EIO)[0])]);
    assert!(
        machine
            .poll_work(B, ALL, second(0))
            .work
            .iter()
            .all(|it| !matches!(it, Work::Fetch { .. }))
    );
}

/// A11: a large file that one peer cannot name keeps its extents, and another peer names it. If all
/// peers have failed for good, the file fails with the last failure.
#[test]
fn a11_a_file_that_one_peer_cannot_name_is_named_by_another() {
    let finishes = |work: &[Work]| matches!(work, [Work::Finish { generation: 0, .. }]);
    let mut machine = machine_of(&[2 * MIB]);
    machine.poll_work(A, ALL, second(0));
    let all = vec![written(piece(0), 1), written(piece(1), 1), Report::Synced { epoch: 1 }];
    report(&mut machine, A, all);
    let mut log = Vec::new();
    commit(&mut machine, &mut log);
    assert!(finishes(&machine.poll_work(A, ALL, second(0)).work));
    report(&mut machine, A, vec![unnamed(piece(2), EIO)]);
    assert!(machine.poll_work(A, ALL, second(0)).work.is_empty(), "A has met it");
    assert!(finishes(&machine.poll_work(B, ALL, second(0)).work));
    for (peer, errno) in [(B, EIO), (A, EIO)] {
        report(&mut machine, peer, vec![unnamed(piece(2), errno)]);
        assert_eq!((machine.totals().failures, machine.totals().files), (0, 0));
        assert_eq!(machine.totals().bytes_durable, 2 * MIB, "nothing of it is sent again");
        assert!(machine.poll_work(A, ALL, second(3)).work.is_empty(), "there is a pause");
        assert!(finishes(&machine.poll_work(A, ALL, second(60)).work));
    }
    report(&mut machine, A, vec![unnamed(piece(2), EIO)]);
    assert_eq!(machine.take_failures(), [(0, failed(FailurePhase::Publish, EIO)[0])]);
}

/// Promise: all peers finish files: the first that asks, as the controller's own always does,
/// leaves the others their part.
#[test]
fn e_finishes_are_shared_whoever_asks_first() {
    const FILES: u32 = 40;
    let mut machine = machine_of(&[2 * MIB; FILES as usize]);
    while !machine.poll_work(A, ALL, second(0)).work.is_empty() {}
    for file in 0..FILES {
        for extent in [3 * file, 3 * file + 1] {
            let mut report = written(piece(extent), 1);
            let Report::Written { digests, .. } = &mut report else { unreachable!() };
            digests[0].entry = file;
            self::report(&mut machine, A, vec![report]);
        }
    }
    report(&mut machine, A, vec![Report::Synced { epoch: 1 }]);
    commit(&mut machine, &mut Vec::new());
    let mut finishes = |peer| {
        let work = machine.poll_work(peer, 0, second(0)).work;
        work.iter().filter(|it| matches!(it, Work::Finish { .. })).count()
    };
    assert_eq!([finishes(A), finishes(B), finishes(A), finishes(A)], [20, 10, 8, 2]);
}

/// A11: links that one peer cannot make are made by another, and have failed only if it cannot
/// either; the phase lasts until then.
#[test]
fn a11_links_that_one_peer_cannot_make_are_made_by_another() {
    let links = |errno: u16| {
        let failures = if errno == 0 { Vec::new() } else { failed(FailurePhase::Publish, errno) };
        Report::LinksDone { page: 0, failures, epoch: 0 }
    };
    for able in [true, false] {
        let mut machine = machine_of(&[10]);
        machine.poll_work(A, ALL, second(0));
        let all = [written(piece(0), 1), published(piece(0), 2), Report::Synced { epoch: 2 }];
        report(&mut machine, A, all.into());
        commit(&mut machine, &mut Vec::new());
        assert_eq!(machine.poll_work(A, ALL, second(0)).work, [Work::Links { page: 0 }]);
        report(&mut machine, A, vec![links(EIO)]);
        assert!(machine.poll_work(A, ALL, second(0)).work.is_empty(), "A has met it");
        assert_eq!(machine.poll_work(B, ALL, second(0)).work, [Work::Links { page: 0 }]);
        assert_eq!((machine.phase(), machine.totals().failures), (Phase::Links, 0));
        report(&mut machine, B, vec![links(if able { 0 } else { EACCES })]);
        assert_eq!(machine.totals().failures, u64::from(!able));
        assert_eq!(machine.phase(), Phase::Directories);
    }
}

/// A4: a failed sync of one peer takes back only data that this peer wrote.
#[test]
fn a4_a_failed_sync_is_its_own_peers() {
    let mut machine = machine_of(&[10, 10]);
    let mine = fetched(&machine.poll_work(A, 1, second(0)).work);
    let others = fetched(&machine.poll_work(B, 1, second(0)).work);
    for (peer, pieces) in [(A, &mine), (B, &others)] {
        report(&mut machine, peer, pieces.iter().map(|it| written(piece(*it), 1)).collect());
    }
    assert_eq!(machine.totals().files, 2);
    report(&mut machine, A, vec![Report::SyncFailed { epoch: 1, errno: 5 }]);
    assert_eq!(machine.totals().files, 1);
    let mut log = Vec::new();
    commit(&mut machine, &mut log);
    assert_eq!(fetched(&machine.poll_work(B, ALL, second(0)).work), mine);
}

/// B5: pages of links go to all peers, those of directories to one, in order. If it is lost before
/// it has synced, another one does them again from the first that is in doubt.
#[test]
fn b5_directories_are_done_in_order_whoever_does_them() {
    let mut machine = TransferMachine::new(DigestKind::Blake3, [], WindowLimits::default(), 1);
    join(&mut machine, A, 100, second(0));
    join(&mut machine, B, 101, second(0));
    for number in 0..20 {
        machine.handle_page(&page_of(number, &[]), Digest::default(), [], 0, false);
    }
    machine.handle_scan_end(20);
    commit(&mut machine, &mut Vec::new());
    assert_eq!(machine.phase(), Phase::Links);
    let links = |machine: &mut TransferMachine, peer, epoch| {
        let work = machine.poll_work(peer, 0, second(0)).work;
        let done = work.iter().map(|work| match work {
            Work::Links { page } => Report::LinksDone { page: *page, failures: vec![], epoch },
            other => panic!("{other:?}"),
        });
        let done = done.collect();
        report(machine, peer, done);
        work.len()
    };
    assert_eq!((links(&mut machine, A, 1), links(&mut machine, B, 1)), (8, 8));
    machine.handle_lost(A);
    assert_eq!(links(&mut machine, B, 2) + links(&mut machine, B, 2), 12, "what A had not synced");
    join(&mut machine, C, 102, second(0));
    report(&mut machine, B, vec![Report::Synced { epoch: 2 }]);
    assert_eq!(machine.phase(), Phase::Directories);
    let pages = |work: &[Work]| -> Vec<u32> {
        let page = |work: &Work| match work {
            Work::Directories { page } => *page,
            other => panic!("{other:?}"),
        };
        work.iter().map(page).collect()
    };
    let first = machine.poll_work(C, 0, second(0)).work;
    assert_eq!(pages(&first), (12..20).rev().collect::<Vec<_>>());
    assert!(machine.poll_work(B, 0, second(0)).work.is_empty());
    let done = |page, epoch| Report::DirectoriesDone { page, failures: Vec::new(), epoch };
    report(&mut machine, C, vec![done(19, 1), Report::Synced { epoch: 1 }, done(18, 2)]);
    machine.handle_lost(C);
    let again = machine.poll_work(B, 0, second(0)).work;
    assert_eq!(pages(&again), (11..19).rev().collect::<Vec<_>>(), "from the first in doubt");
}

/// Promise (f), B5: the peer that sets the attributes of directories may be drained, or lost,
/// between two batches of them, when nothing of it is in doubt: another one continues.
#[test]
fn b5_directories_go_on_when_their_peer_leaves_without_a_loss() {
    let mut machine = TransferMachine::new(DigestKind::Blake3, [], WindowLimits::default(), 1);
    join(&mut machine, A, 100, second(0));
    for number in 0..20 {
        machine.handle_page(&page_of(number, &[]), Digest::default(), [], 0, false);
    }
    machine.handle_scan_end(20);
    commit(&mut machine, &mut Vec::new());
    let batch = |machine: &mut TransferMachine, peer, epoch| {
        let work = machine.poll_work(peer, 0, second(0)).work;
        let failures = Vec::new;
        let done = work.iter().map(|work| match *work {
            Work::Links { page } => Report::LinksDone { page, failures: failures(), epoch },
            Work::Directories { page } => {
                Report::DirectoriesDone { page, failures: failures(), epoch }
            }
            ref other => panic!("{other:?}"),
        });
        let mut done: Vec<Report> = done.collect();
        done.push(Report::Synced { epoch });
        report(machine, peer, done);
        work.len()
    };
    while machine.phase() == Phase::Links {
        assert!(batch(&mut machine, A, 1) > 0);
    }
    join(&mut machine, B, 101, second(0));
    join(&mut machine, C, 102, second(0));
    assert_eq!((batch(&mut machine, A, 2), batch(&mut machine, B, 2)), (8, 0));
    machine.handle_draining(A);
    assert_eq!((batch(&mut machine, A, 3), batch(&mut machine, B, 3)), (0, 0));
    assert!(machine.is_drained(A));
    machine.handle_left(A);
    assert_eq!((batch(&mut machine, B, 4), batch(&mut machine, C, 4)), (8, 0));
    machine.handle_lost(B);
    assert_eq!(batch(&mut machine, C, 5), 4);
    assert_eq!(machine.phase(), Phase::Done);
}

/// Work of a peer of the property test, and its writes.
#[derive(Debug, Default)]
struct Holder {
    in_hand: BTreeMap<PieceRef, u32>,
    packs: Vec<PieceRef>,
    epoch: u64,
}

/// All events of a machine and its peers, drawn by `pick`; panics when two peers have one piece.
struct World {
    machine: TransferMachine,
    log: BTreeMap<u32, Vec<JournalRecord>>,
    peers: BTreeMap<PeerNumber, Holder>,
    next: u16,
}

impl World {
    fn new(pages: &[Page]) -> Self {
        let limits = WindowLimits { files: 2, ..WindowLimits::default() };
        let mut machine = TransferMachine::new(DigestKind::Blake3, [], limits, 1);
        for page in pages {
            machine.handle_page(page, Digest::default(), [], 0, false);
        }
        machine.handle_scan_end(pages.len() as u32);
        let mut world = Self { machine, log: BTreeMap::new(), peers: BTreeMap::new(), next: 0 };
        world.join(0);
        world
    }

    fn join(&mut self, writer: u64) {
        let number = PeerNumber(self.next);
        self.next += 1;
        join(&mut self.machine, number, writer, second(0));
        self.peers.insert(number, Holder { epoch: 1, ..Holder::default() });
    }

    fn ask(&mut self, peer: PeerNumber, bytes: u64) {
        let reply = self.machine.poll_work(peer, bytes, second(0));
        let Some(mut holder) = self.peers.remove(&peer) else { return };
        let mut reports = Vec::new();
        for work in reply.work {
            match work {
                Work::Fetch { piece, generation, .. } => {
                    let two = self.peers.values().any(|other| {
                        other.in_hand.get(&piece).is_some_and(|has| *has == generation)
                    });
                    assert!(!two, "B3: {piece:?} is given to two");
                    holder.in_hand.insert(piece, generation);
                }
                Work::Recheck { piece, generation, digests, failures, .. } => {
                    let epoch = holder.epoch;
                    reports.push(Report::Written {
                        piece,
                        generation,
                        epoch,
                        digests,
                        failures,
                        fetched: false,
                    });
                    holder.packs.push(piece);
                }
                Work::Finish { piece, generation } => {
                    let (epoch, failures) = (holder.epoch, Vec::new());
                    reports.push(Report::Published { piece, generation, epoch, failures });
                }
                Work::Links { page } => {
                    let (epoch, failures) = (holder.epoch, Vec::new());
                    reports.push(Report::LinksDone { page, failures, epoch });
                }
                Work::Directories { page } => {
                    let (epoch, failures) = (holder.epoch, Vec::new());
                    reports.push(Report::DirectoriesDone { page, failures, epoch });
                }
                Work::Discard { page, generation, .. } => {
                    holder.in_hand.retain(|piece, has| piece.page != page || *has != generation);
                }
            }
        }
        if reply.give_back > 0 {
            // Half of it is not begun.
            let back: Vec<_> =
                holder.in_hand.iter().step_by(2).map(|(piece, has)| (*piece, *has)).collect();
            for (piece, generation) in back {
                holder.in_hand.remove(&piece);
                reports.push(Report::Returned { piece, generation });
            }
        }
        self.machine.handle_reports(peer, reports, second(0));
        self.peers.insert(peer, holder);
    }

    fn write(&mut self, peer: PeerNumber, count: usize) {
        let Some(holder) = self.peers.get_mut(&peer) else { return };
        let some: Vec<_> =
            holder.in_hand.iter().take(count).map(|(piece, has)| (*piece, *has)).collect();
        let mut reports = Vec::new();
        for (piece, generation) in some {
            holder.in_hand.remove(&piece);
            holder.packs.push(piece);
            let (form, digest) = (DigestForm::Standard, Digest([7; 32]));
            reports.push(Report::Written {
                piece,
                generation,
                epoch: holder.epoch,
                digests: vec![EntryDigest { entry: 0, form, digest, seen: None }],
                failures: Vec::new(),
                fetched: true,
            });
        }
        self.machine.handle_reports(peer, reports, second(0));
    }

    /// Syncs, with success or not, and names earlier writes.
    fn sync(&mut self, peer: PeerNumber, good: bool) {
        let Some(holder) = self.peers.get_mut(&peer) else { return };
        let (epoch, packs) = (holder.epoch, std::mem::take(&mut holder.packs));
        holder.epoch += 1;
        let mut reports = vec![match good {
            true => Report::Synced { epoch },
            false => Report::SyncFailed { epoch, errno: 5 },
        }];
        let epoch = epoch + 1;
        if good {
            let named = packs.into_iter().map(|piece| published(piece, epoch));
            reports.extend(named);
        }
        self.machine.handle_reports(peer, reports, second(0));
    }

    fn commit(&mut self) {
        if let Some(commit) = self.machine.take_commit() {
            for page in &commit.pages {
                let of_page = LedgerCommit { pages: vec![page.clone()], ..Default::default() };
                self.log.entry(page.page).or_default().extend(records(&of_page));
            }
            self.machine.handle_committed(&commit);
        }
        while let Some((page, _)) = self.machine.wants_log() {
            let log = self.log.get(&page).cloned().unwrap_or_default();
            self.machine.handle_log(page, log);
        }
    }

    fn nth(&self, pick: u8) -> PeerNumber {
        let at = usize::from(pick) % self.peers.len().max(1);
        self.peers.keys().nth(at).copied().unwrap_or_default()
    }

    fn happen(&mut self, what: u8, pick: u8) {
        let peer = self.nth(pick);
        match what % 12 {
            0..=2 => self.ask(peer, u64::from(pick) * MIB),
            3 | 4 => self.write(peer, usize::from(pick % 7)),
            5 | 6 => self.sync(peer, true),
            7 | 8 => self.commit(),
            9 => self.join(u64::from(pick % 5)),
            10 if pick.is_multiple_of(3) => self.sync(peer, false),
            11 if pick.is_multiple_of(2) => {
                self.peers.remove(&peer);
                self.machine.handle_lost(peer);
            }
            11 => self.machine.handle_draining(peer),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// B3, promises (c) and (d): after any events of several peers, no two peers ever hold one
    /// piece, and with a fresh peer the transfer ends, each file once.
    #[test]
    fn b3_whatever_happens_no_piece_is_given_to_two(
        sizes in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![1u64..5000, MIB..(20 * MIB)], 0..8), 1..4),
        steps in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..200),
    ) {
        let pages: Vec<Page> =
            sizes.iter().enumerate().map(|(at, sizes)| page_of(at as u32, sizes)).collect();
        let mut world = World::new(&pages);
        for (what, pick) in steps {
            world.happen(what, pick);
        }
        let last: Vec<PeerNumber> = world.peers.keys().copied().collect();
        for peer in last {
            world.peers.remove(&peer);
            world.machine.handle_left(peer);
        }
        world.join(9);
        let peer = world.nth(0);
        for _ in 0..2000 {
            if world.machine.phase() == Phase::Done {
                break;
            }
            world.ask(peer, ALL);
            world.write(peer, usize::MAX);
            world.sync(peer, true);
            world.commit();
        }
        prop_assert_eq!(world.machine.phase(), Phase::Done);
        let files: usize = sizes.iter().map(Vec::len).sum();
        prop_assert_eq!(world.machine.totals().files, files as u64);
        let bytes: u64 = sizes.iter().flatten().sum();
        prop_assert_eq!(world.machine.totals().bytes_durable, bytes);
    }
}
