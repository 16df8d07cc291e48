//! Peers of very different speed share a transfer: its end, and the work in progress.

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use penstock_engine::transfer::{Joining, Phase, TransferMachine, WindowLimits};
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::Incarnation;
use penstock_proto::manifest::Page;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Report, Work};
use penstock_proto::units::{GIB, Instant, MIB};

use common::{page_of, written};

/// Most bytes that a peer holds.
const HELD: u64 = 16 * MIB;
const AHEAD: u64 = 2 * MIB;
/// Time between two turns.
const TURN_MS: u64 = 20;

#[derive(Default)]
struct Peer {
    /// Bytes per second.
    rate: u64,
    /// Bytes for which it asks ahead.
    ahead: u64,
    /// Pieces, and the rest of each; those at the front are begun.
    in_hand: VecDeque<(PieceRef, u32, u64)>,
    brought: u64,
    /// Time at which the peer last had work, in ms.
    busy: u64,
}

impl Peer {
    fn bytes(&self) -> u64 {
        self.in_hand.iter().map(|(_, _, left)| left).sum()
    }

    /// Returns the reports of its work since its last turn.
    fn turn(&mut self, epoch: u64) -> Vec<Report> {
        let mut able = self.rate * TURN_MS / 1000;
        let mut reports = Vec::new();
        while let Some((piece, generation, left)) = self.in_hand.front_mut() {
            let some = able.min(*left);
            *left -= some;
            able -= some;
            self.brought += some;
            if *left > 0 {
                break;
            }
            reports.push(written(*piece, *generation, epoch));
            self.in_hand.pop_front();
        }
        reports
    }

    /// Returns pieces to the controller for which the peer has not asked the source.
    fn give_back(&mut self, bytes: u64) -> Vec<Report> {
        let (mut given, mut reports) = (0, Vec::new());
        while given < bytes
            && let Some((piece, generation, left)) = self.in_hand.back().copied()
            && self.bytes() - left >= self.ahead
        {
            self.in_hand.pop_back();
            given += left;
            reports.push(Report::Returned { piece, generation });
        }
        reports
    }
}

struct World {
    machine: TransferMachine,
    sizes: BTreeMap<u32, Vec<u64>>,
    peers: Vec<Peer>,
    now: u64,
    epoch: u64,
    /// Large files of which something is written, and that are not finished.
    begun_most: usize,
}

impl World {
    fn new(limits: WindowLimits, pages: &[Page], rates: &[u64]) -> Self {
        let mut machine = TransferMachine::new(DigestKind::Blake3, [], limits, 1);
        for number in 0..rates.len() as u16 {
            let writer = WriterId(100 + u64::from(number));
            let incarnation = Incarnation { writer, ..Incarnation::default() };
            let joining = Joining { incarnation, epoch: 0, grant: Some(Duration::from_secs(60)) };
            machine.handle_joined(PeerNumber(number), joining, Instant(0));
        }
        let mut sizes = BTreeMap::new();
        for page in pages {
            machine.handle_page(page, Digest::default(), [], 0, false);
            let of_page: Vec<u64> = penstock_engine::slice::slice(page)
                .iter()
                .map(penstock_engine::slice::Piece::bytes)
                .collect();
            sizes.insert(page.number, of_page);
        }
        machine.handle_scan_end(pages.len() as u32);
        let ahead = |rate: u64| (rate / 4).min(AHEAD);
        let peer = |rate: &u64| Peer { rate: *rate, ahead: ahead(*rate), ..Peer::default() };
        let peers = rates.iter().map(peer).collect();
        Self { machine, sizes, peers, now: 0, epoch: 1, begun_most: 0 }
    }

    fn turn(&mut self) {
        self.now += TURN_MS;
        let now = Instant(self.now * 1_000_000);
        for (at, peer) in self.peers.iter_mut().enumerate() {
            let number = PeerNumber(at as u16);
            let mut reports = peer.turn(self.epoch);
            let wanted = HELD.saturating_sub(peer.bytes());
            self.machine.handle_reports(number, std::mem::take(&mut reports), now);
            let reply = self.machine.poll_work(number, wanted, now);
            for work in reply.work {
                match work {
                    Work::Fetch { piece, generation, .. } => {
                        let bytes = self.sizes[&piece.page][piece.piece as usize];
                        peer.in_hand.push_back((piece, generation, bytes));
                    }
                    Work::Finish { piece, generation } => {
                        let (epoch, failures) = (self.epoch, Vec::new());
                        reports.push(Report::Published { piece, generation, epoch, failures });
                    }
                    Work::Links { page } => {
                        let (epoch, failures) = (0, Vec::new());
                        reports.push(Report::LinksDone { page, failures, epoch });
                    }
                    Work::Directories { page } => {
                        let (epoch, failures) = (0, Vec::new());
                        reports.push(Report::DirectoriesDone { page, failures, epoch });
                    }
                    other => panic!("nothing is lost: {other:?}"),
                }
            }
            if reply.give_back > 0 {
                reports.extend(peer.give_back(reply.give_back));
            }
            self.machine.handle_reports(number, reports, now);
            if !peer.in_hand.is_empty() {
                peer.busy = self.now;
            }
        }
        if self.now.is_multiple_of(500) {
            let epoch = self.epoch;
            self.epoch += 1;
            for at in 0..self.peers.len() as u16 {
                self.machine.handle_reports(PeerNumber(at), [Report::Synced { epoch }], now);
            }
            if let Some(commit) = self.machine.take_commit() {
                self.machine.handle_committed(&commit);
            }
        }
        let begun = self.peers.iter().flat_map(|peer| &peer.in_hand);
        let begun: std::collections::BTreeSet<u32> =
            begun.map(|(piece, ..)| piece.piece / 5).collect();
        self.begun_most = self.begun_most.max(begun.len());
    }

    fn all_brought(&self) -> bool {
        let all: u64 = self.sizes.values().flatten().sum();
        self.peers.iter().map(|peer| peer.brought).sum::<u64>() >= all
    }
}

/// Issue 5, promise (f): a peer that is, or becomes, twenty times as slow as the others slows its
/// own share. The end waits at most for the bytes for which it had asked, not for those that it
/// held.
#[test]
fn a_slow_peer_slows_only_its_share() {
    for becomes in [false, true] {
        // Packs are used, for no peer names files here before the end.
        let pages = [page_of(0, &[900_000; 400])];
        let fast = 20 * MIB;
        let rates = [fast, fast, if becomes { fast } else { fast / 20 }];
        let mut world = World::new(WindowLimits::default(), &pages, &rates);
        while !world.all_brought() {
            if world.now == 4000 {
                world.peers[2].rate = fast / 20;
            }
            world.turn();
            assert!(world.now < 120_000, "stuck");
        }
        let others = world.peers[0].busy.max(world.peers[1].busy);
        let behind = world.now.saturating_sub(others);
        // Bytes asked for, and the piece that was begun: 1 MiB a second.
        let most = if becomes { 3500 } else { 2500 };
        assert!(behind <= most, "the others waited for {behind} ms, {becomes}");
        let ideal = 400 * 900_000 * 1000 / (2 * fast);
        assert!(world.now <= ideal + 2500, "{} ms instead of {ideal}", world.now);
    }
}

/// E3: the bounds of work in progress are per peer, and follow when peers come and go.
#[test]
fn e3_the_window_follows_the_number_of_peers() {
    let limits = WindowLimits { files: 2, ..WindowLimits::default() };
    // Four extents and a finish each.
    let pages = [page_of(0, &[4 * MIB; 40])];
    let mut most = [0; 2];
    for (at, peers) in [1, 3].into_iter().enumerate() {
        let mut world = World::new(limits, &pages, &vec![8 * MIB; peers]);
        while world.machine.phase() != Phase::Done {
            world.turn();
            assert!(world.now < 120_000, "stuck in {:?}", world.machine.phase());
        }
        assert_eq!(world.machine.totals().files, 40);
        most[at] = world.begun_most;
    }
    assert!(most[0] <= 2 && most[1] > 2 && most[1] <= 6, "{most:?}");
    let many = WindowLimits::default().of_peers(10_000);
    let some = WindowLimits::default().of_peers(32);
    assert_eq!((many.pages, many.pieces), (some.pages, some.pieces), "memory is bounded");
    assert_eq!(many.file_bytes, 10_000 * 64 * GIB);
}
