//! Adoption by a new controller of data that peers wrote for the previous one (A7).

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use penstock_engine::transfer::{Joining, LedgerCommit, TransferMachine, WindowLimits};
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::{Incarnation, JournalRecord};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Report, Work};
use penstock_proto::units::{Instant, MIB};
use penstock_proto::wire::Reader;

use common::page_of;

const GRANT: Duration = Duration::from_secs(10);
const A: PeerNumber = PeerNumber(0);
const B: PeerNumber = PeerNumber(1);
const C: PeerNumber = PeerNumber(2);
const ALL: u64 = u64::MAX;

fn second(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

/// Returns a controller that takes over from one which gave work to the writers 100 and 101. The
/// page has a file of two extents (pieces 0 and 1, the finish is 2) and two small ones (pieces 3
/// and 4).
fn new_controller() -> TransferMachine {
    let limits = WindowLimits::default();
    let mut machine = TransferMachine::new(DigestKind::Blake3, [], limits, 1);
    machine.handle_page(&page_of(0, &[2 * MIB, 10, 20]), Digest::default(), [], 0, false);
    machine.handle_scan_end(1);
    machine.wait_for_writers([WriterId(100), WriterId(101)], second(12));
    machine.wait_for_reports([WriterId(100), WriterId(101)], second(3));
    machine
}

fn join(machine: &mut TransferMachine, peer: PeerNumber, writer: u64, now: Instant) {
    let incarnation = Incarnation { writer: WriterId(writer), ..Incarnation::default() };
    machine.handle_joined(peer, Joining { incarnation, epoch: 0, grant: Some(GRANT) }, now);
}

fn written(page: u32, piece: u32, generation: u32) -> Report {
    common::written(PieceRef { page, piece }, generation, 4)
}

fn pieces(work: &[Work], fetched: bool) -> BTreeSet<u32> {
    let piece = |work: &Work| match work {
        Work::Fetch { piece, .. } if fetched => Some(piece.piece),
        Work::Recheck { piece, doubt: false, .. } if !fetched => Some(piece.piece),
        _ => None,
    };
    work.iter().filter_map(piece).collect()
}

fn logged(commit: &LedgerCommit) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for page in &commit.pages {
        let mut input = Reader::new(&page.append);
        while let Ok(record) = JournalRecord::take_from(&mut input) {
            if let JournalRecord::Written { piece, .. } = record {
                found.insert(piece);
            }
        }
    }
    found
}

/// A7: data that a peer wrote for the previous controller is logged rather than fetched again, and
/// given to that peer to be trusted. Others get the rest, and nothing before both have reported.
#[test]
fn a7_what_was_written_for_another_controller_is_not_fetched_again() {
    let mut machine = new_controller();
    join(&mut machine, A, 100, second(0));
    assert!(machine.poll_work(A, ALL, second(1)).work.is_empty(), "the other may have all of it");
    join(&mut machine, B, 101, second(1));
    let told = [written(0, 0, 0), written(0, 3, 0), written(0, 9, 0), written(0, 2, 0)];
    assert_eq!(machine.handle_adopted(B, told), MIB + 10);
    let commit = machine.take_commit().unwrap();
    assert_eq!(logged(&commit), BTreeSet::from([0, 3]));
    machine.handle_committed(&commit);
    let work = machine.poll_work(A, ALL, second(1)).work;
    assert_eq!((pieces(&work, true), pieces(&work, false)), ([1, 4].into(), [].into()));
    let work = machine.poll_work(B, ALL, second(1)).work;
    assert_eq!((pieces(&work, true), pieces(&work, false)), ([].into(), [0, 3].into()));
    let found = [written(0, 0, 0), written(0, 3, 0), Report::Synced { epoch: 4 }];
    machine.handle_reports(B, found, second(1));
    assert_eq!((machine.totals().bytes, machine.totals().bytes_durable), (MIB + 10, MIB));
    assert_eq!(machine.totals().bytes_resumed, MIB + 10);
}

/// A7: the controller waits for a peer that reports nothing, as after a restart of the peer or the
/// loss of its report. The wait is short if the files are the peer's own. Otherwise the controller
/// waits as long as the peer may write.
#[test]
fn a7_a_peer_that_tells_nothing_keeps_nobody_waiting() {
    let mut machine = new_controller();
    join(&mut machine, A, 100, second(0));
    assert!(machine.poll_work(A, ALL, second(2)).work.is_empty());
    assert_eq!(pieces(&machine.poll_work(A, ALL, second(3)).work, true), [3, 4].into());
    assert_eq!(pieces(&machine.poll_work(A, ALL, second(12)).work, true), [0, 1].into());
}

/// B3: a peer that comes late reports extents that another has got since: they are not trusted. Its
/// packs have names of its own.
#[test]
fn b3_extents_of_a_late_peer_are_not_taken_over() {
    let mut machine = new_controller();
    join(&mut machine, A, 100, second(0));
    assert_eq!(machine.poll_work(A, ALL, second(12)).work.len(), 4);
    machine.handle_alive(A, second(12));
    machine.handle_left(A);
    join(&mut machine, B, 101, second(13));
    assert_eq!(machine.handle_adopted(B, [written(0, 0, 0), written(0, 3, 0)]), 10);
    let mut machine = new_controller();
    join(&mut machine, A, 100, second(0));
    machine.poll_work(A, 1, second(12));
    join(&mut machine, B, 101, second(13));
    let all = [written(0, 0, 0), written(0, 1, 0), written(0, 3, 0), written(0, 4, 0)];
    let taken = machine.handle_adopted(B, all);
    assert!(taken >= MIB, "what nobody was given is taken over, however late: {taken}");
}

/// B4, A7: a report that is adopted twice counts once. Reports of a peer that takes no part, of
/// another attempt at a file, or of a piece that another peer has by now do not count.
#[test]
fn b4_what_is_told_twice_counts_once() {
    let mut machine = new_controller();
    assert_eq!(machine.handle_adopted(C, [written(0, 3, 0)]), 0);
    join(&mut machine, A, 100, second(0));
    join(&mut machine, B, 101, second(0));
    assert_eq!(machine.handle_adopted(A, [written(0, 0, 1), written(0, 3, 0)]), 10);
    assert_eq!(machine.handle_adopted(B, [written(0, 3, 0), written(0, 1, 0)]), MIB);
    assert_eq!(machine.handle_adopted(B, [written(0, 1, 0), written(0, 3, 0)]), 0);
    assert_eq!(logged(&machine.take_commit().unwrap()), BTreeSet::from([1, 3]));
}

/// A7: for a page that the new controller has not opened yet, earlier reports count when it is
/// opened.
#[test]
fn a7_what_was_told_of_a_later_page_counts_when_it_is_opened() {
    let mut machine = new_controller();
    join(&mut machine, A, 100, second(0));
    join(&mut machine, B, 101, second(0));
    assert_eq!(machine.handle_adopted(B, [written(1, 0, 0), written(1, 0, 0)]), 0);
    machine.handle_page(&page_of(1, &[30, 40]), Digest::default(), [], 0, false);
    assert_eq!(machine.totals().bytes_resumed, 30);
    assert_eq!(pieces(&machine.poll_work(B, ALL, second(0)).work, false), [0].into());
}

/// A9: adopted data is not durable by the report of the peer that wrote it. When that peer is lost
/// before it has synced, another one checks the data.
#[test]
fn a9_what_was_taken_over_is_looked_at_when_its_writer_is_lost() {
    let mut machine = new_controller();
    join(&mut machine, A, 100, second(0));
    join(&mut machine, B, 101, second(0));
    machine.handle_adopted(B, [written(0, 0, 0)]);
    machine.handle_lost(B);
    let commit = machine.take_commit().unwrap();
    machine.handle_committed(&commit);
    let work = machine.poll_work(A, ALL, second(1)).work;
    let doubted = |work: &Work| matches!(work, Work::Recheck { doubt: true, .. });
    assert!(work.iter().any(doubted), "{work:?}");
    assert_eq!(pieces(&work, true), [1, 3, 4].into());
}
