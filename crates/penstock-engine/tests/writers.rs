//! Target peers of a run: those that take part, those that are not asked for a while, and those
//! that may still write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use penstock_engine::writers::{
    CALL_MAX, Failure, HangWatch, Loss, PeerState, PresentPeer, RETRY_FULL, RETRY_WAITS, StoreCall,
    WriterRegistry, Writes,
};
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::WriterStanding;
use penstock_proto::units::Instant;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const GRANT: Duration = Duration::from_secs(60);
const ROOM: usize = 100;

type Registry = WriterRegistry<&'static str>;

fn second(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn seen(writer: u64, process: u64) -> PresentPeer {
    let (writer, name) = (WriterId(writer), format!("peer-{writer}"));
    PresentPeer { writer, name, process, is_own: false, is_draining: false }
}

fn join(registry: &mut Registry, peer: &PresentPeer) -> PeerNumber {
    let number = registry.handle_invited(peer);
    registry.handle_joined(number, peer.is_own);
    number
}

fn invites(registry: &Registry, peer: &PresentPeer, now: Instant) -> bool {
    registry.may_invite(peer, true, ROOM, now)
}

/// Promise: a failed peer is not asked for a time that doubles up to a bound. A new process of the
/// peer is tried at once, and a peer whose error does not pass is tried only then.
#[test]
fn a_failure_costs_a_growing_wait() {
    let mut registry = Registry::default();
    let peer = seen(1, 7);
    let mut now = second(0);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let number = registry.handle_invited(&peer);
        registry.handle_refused(number);
        registry.handle_failed(&peer, Failure::Passing, "busy", now);
        let (why, wait) = registry.last_failure(peer.writer, now).unwrap();
        assert_eq!(*why, "busy");
        waits.push(wait.unwrap().as_secs());
        assert!(!invites(&registry, &peer, now) && invites(&registry, &seen(1, 8), now));
        now = now.plus(wait.unwrap());
        assert!(invites(&registry, &peer, now));
    }
    assert_eq!(waits, [5, 10, 20, 40, 60]);
    assert_eq!(RETRY_WAITS.1, Duration::from_secs(60));
    registry.handle_failed(&peer, Failure::Final, "no such store", now);
    let never = second(1_000_000);
    assert!(!invites(&registry, &peer, never) && invites(&registry, &seen(1, 8), never));
    registry.handle_failed(&seen(2, 1), Failure::Full, "full", now);
    assert_eq!(registry.last_failure(WriterId(2), now).unwrap().1, Some(RETRY_FULL));
    assert_eq!(registry.failures().count(), 2);
    join(&mut registry, &seen(1, 8));
    assert_eq!(registry.failures().map(|(writer, _)| writer.0).collect::<Vec<_>>(), [2]);
}

/// Promise: peers that were present when the run began cause no event when they join, and others
/// do. A run with room for fewer peers releases draining ones first, and then those that joined
/// last.
#[test]
fn who_joins_and_who_goes() {
    let mut registry = Registry::default();
    let peers: Vec<_> = (1..=4).map(|writer| seen(writer, 1)).collect();
    join(&mut registry, &peers[0]);
    registry.handle_begun(&peers[..2]);
    registry.handle_begun(&peers);
    let mut news = Vec::new();
    for peer in &peers[1..] {
        let number = registry.handle_invited(peer);
        news.push(registry.handle_joined(number, false));
    }
    assert_eq!(news, [false, true, true], "the second was present at the first look");
    let numbers = |numbers: Vec<PeerNumber>| numbers.iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(numbers(registry.poll_surplus(2)), [3, 2]);
    let draining = PresentPeer { is_draining: true, ..peers[3].clone() };
    assert!(registry.poll_draining(std::slice::from_ref(&draining), false).is_empty());
    assert_eq!(numbers(registry.poll_draining(std::slice::from_ref(&draining), true)), [3]);
    registry.handle_draining(PeerNumber(3));
    assert!(registry.is_draining(PeerNumber(3)) && registry.taking() == 3);
    assert_eq!(numbers(registry.poll_surplus(2)), [2]);
    assert_eq!(numbers(registry.poll_restarted(&[seen(1, 1), seen(2, 2)])), [1]);
    // A number in use is not given again.
    registry.handle_stopping(PeerNumber(3), None);
    assert!(!invites(&registry, &peers[3], second(0)), "it has not ended yet");
    registry.handle_left(PeerNumber(3), None);
    assert_eq!(registry.state(WriterId(4)), PeerState::Absent);
    assert_eq!(join(&mut registry, &peers[3]), PeerNumber(4));
}

/// E2: a peer whose store hangs is taken out where another's store answers, and not otherwise;
/// that it hangs is one event.
#[test]
fn e2_a_store_that_hangs_goes_where_others_answer() {
    let [a, b] = [1, 2].map(PeerNumber);
    let mut watch = HangWatch::new(GRANT);
    let mut poll = |of_a: u64, of_b: u64, b_drains: bool| {
        let call = |peer, lasts, is_draining| StoreCall {
            peer,
            lasts: Duration::from_secs(lasts),
            is_draining,
        };
        watch.poll(&[call(a, of_a, false), call(b, of_b, b_drains)])
    };
    assert_eq!(poll(29, 0, false), None);
    let hangs = poll(30, 1, false).unwrap();
    assert!(hangs.is_news && hangs.others_work && hangs.out.is_empty());
    let hangs = poll(120, 30, false).unwrap();
    assert!(!hangs.is_news && !hangs.others_work && hangs.out.is_empty(), "both hang");
    let hangs = poll(121, 1, false).unwrap();
    assert_eq!(hangs.out, [(a, Duration::from_secs(121))]);
    let hangs = poll(122, 1, true).unwrap();
    assert!(!hangs.others_work && hangs.out.is_empty(), "the other takes no more work");
    assert_eq!(poll(1, 1, false), None);
    assert!(poll(0, 40, false).unwrap().is_news);
}

/// B1: a peer that was lost may write late, until it joins again or runs as another process; it is
/// called back for a bounded time.
#[test]
fn b1_who_may_write_late_is_called_back() {
    let mut registry = Registry::default();
    let (a, b) = (seen(1, 1), seen(2, 1));
    let (first, other) = (join(&mut registry, &a), join(&mut registry, &b));
    registry.handle_stopping(first, Some(Loss::Hung));
    assert!(registry.is_lost(first) && !registry.is_lost(other));
    registry.handle_left(first, None);
    assert_eq!(registry.writes(a.writer), Writes::Hung { process: 1 });
    registry.handle_failed(&a, Failure::Passing, "hung", second(0));
    let late = BTreeSet::from([a.writer, b.writer, WriterId(9)]);
    let both = [a.clone(), b.clone()];
    let names = registry.late_writers(&late, &both);
    let gone = (WriterId(9), None);
    assert_eq!(names, BTreeMap::from([(a.writer, Some("peer-1".to_owned())), gone]));
    assert_eq!(registry.late_writers(&late, &[seen(1, 2)]).len(), 1, "its process is another one");
    assert!(!registry.poll_calls(&late, &both, 1, second(1)), "there is no room");
    assert!(registry.poll_calls(&late, &both, ROOM, second(1)) && registry.has_called());
    assert!(invites(&registry, &a, second(2)));
    let most = second(1).plus(CALL_MAX);
    assert!(!registry.poll_calls(&late, &both, ROOM, most), "it does not answer");
    join(&mut registry, &a);
    assert!(!registry.may_write_late(a.writer, Some(1)));
    assert!(!registry.poll_calls(&late, &both, ROOM, second(2)));
}

/// B4: no run waits for the own peer of the last controller, but its late writes are looked for.
/// The writer of this host has ended with its process.
#[test]
fn b4_the_own_peer_of_the_last_controller_is_not_waited_for() {
    let last = WriterStanding { own: Some(WriterId(7)), epoch: 3, settled: BTreeSet::new() };
    let known = BTreeSet::from([WriterId(7), WriterId(8)]);
    let (mut registry, followed) =
        Registry::follow(last.clone(), 4, &known, &[seen(7, 1), seen(8, 1)]);
    assert_eq!((registry.follows(), registry.record().epoch), (3, 4));
    assert_eq!(followed.awaited, BTreeSet::from([WriterId(8)]));
    assert_eq!((followed.stopped, followed.reporting), (Some(WriterId(7)), known.clone()));
    assert!(!registry.record().settled.contains(&WriterId(7)), "it may write late");
    assert!(registry.take_record().unwrap().settled.contains(&WriterId(7)));
    let own = PresentPeer { is_own: true, ..seen(7, 2) };
    let (mut registry, followed) = Registry::follow(last, 4, &known, std::slice::from_ref(&own));
    assert_eq!(followed.stopped, None);
    let number = registry.handle_invited(&own);
    assert!(!registry.handle_joined(number, true), "the run has not begun");
    assert_eq!(registry.record().own, Some(WriterId(7)));
}

/// The true state of one writer, beside the records of the registry and the journal.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    process: u64,
    /// True if it may hold a grant of any run.
    holds_grant: bool,
    /// True if a process of it that was lost may be stopped in a call.
    may_write_late: bool,
}

struct World {
    rng: ChaCha8Rng,
    registry: Registry,
    /// The record, as the journal has it.
    journal: WriterStanding,
    epoch: u64,
    truth: BTreeMap<WriterId, Truth>,
    /// Writers in the ledger.
    known: BTreeSet<WriterId>,
    own: WriterId,
}

impl World {
    fn new(seed: u64) -> Self {
        let truth = (1..=5).map(|writer| (WriterId(writer), Truth::default())).collect();
        let mut world = Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            registry: Registry::default(),
            journal: WriterStanding::default(),
            epoch: 0,
            truth,
            known: BTreeSet::new(),
            own: WriterId(1),
        };
        world.take_over();
        world
    }

    fn present(&mut self) -> Vec<PresentPeer> {
        let own = self.own;
        let mut present = Vec::new();
        for (writer, truth) in &self.truth {
            if *writer == own || self.rng.random_bool(0.7) {
                let is_own = *writer == own;
                present.push(PresentPeer { is_own, ..seen(writer.0, truth.process) });
            }
        }
        present
    }

    /// Starts another controller, or another attempt of this one, from the records of the journal.
    fn take_over(&mut self) {
        let before = self.journal.clone();
        if self.rng.random_bool(0.5) {
            self.epoch += 1;
            // The tenure of the last controller is over, and so is the right of its own peer. The
            // own peer of this host runs in this process, or has ended with it.
            if let Some(own) = before.own {
                self.truth.get_mut(&own).unwrap().holds_grant = false;
            }
            self.own = WriterId(self.rng.random_range(1..=5));
            let truth = self.truth.get_mut(&self.own).unwrap();
            truth.process += u64::from(before.own == Some(self.own));
        } else if let Some(own) = before.own {
            self.truth.get_mut(&own).unwrap().holds_grant = false;
        }
        let present = self.present();
        let (registry, followed) =
            Registry::follow(before.clone(), self.epoch, &self.known, &present);
        for (writer, truth) in &self.truth {
            if truth.holds_grant {
                assert!(followed.awaited.contains(writer), "B3: {writer} may write, {before:?}");
            }
        }
        self.registry = registry;
        self.journal = self.registry.record().clone();
    }

    fn numbers(&self, is_wanted: impl Fn(PeerState) -> bool) -> Vec<(WriterId, PeerNumber)> {
        let numbers = self.truth.keys().filter_map(|writer| {
            let state = self.registry.state(*writer);
            let number = match state {
                PeerState::Absent => return None,
                PeerState::Starting { number, .. }
                | PeerState::Working { number, .. }
                | PeerState::Stopping { number, .. } => number,
            };
            is_wanted(state).then_some((*writer, number))
        });
        numbers.collect()
    }

    fn step(&mut self) {
        let starting = self.numbers(|state| matches!(state, PeerState::Starting { .. }));
        let working = self.numbers(|state| matches!(state, PeerState::Working { .. }));
        let stopping = self.numbers(|state| matches!(state, PeerState::Stopping { .. }));
        match self.rng.random_range(0..20) {
            0..5 => {
                for peer in self.present() {
                    if self.registry.may_invite(&peer, true, 3, second(0)) {
                        self.registry.handle_invited(&peer);
                    }
                }
            }
            5..9 => {
                if let Some((writer, number)) = starting.choose(&mut self.rng).copied() {
                    self.join(writer, number);
                }
            }
            9 => {
                if let Some((_, number)) = starting.choose(&mut self.rng) {
                    self.registry.handle_refused(*number);
                }
            }
            10..13 => {
                if let Some((writer, number)) = working.choose(&mut self.rng).copied() {
                    self.end(writer, number);
                }
            }
            13..16 => {
                if let Some((writer, number)) = stopping.choose(&mut self.rng).copied() {
                    self.leave(writer, number);
                }
            }
            16 => {
                // The machine of the transfer reports when all of their grants are over.
                for writer in self.registry.awaited().collect::<Vec<_>>() {
                    let truth = self.truth.get_mut(&writer).unwrap();
                    (truth.holds_grant, truth.may_write_late) = (false, true);
                }
                self.registry.handle_wait_over();
            }
            17 | 18 => {
                if let Some(record) = self.registry.take_record() {
                    self.journal = record.clone();
                }
            }
            _ => {
                if self.rng.random_bool(0.5) {
                    self.stop();
                }
                self.take_over();
            }
        }
    }

    /// Ends the run in order, perhaps with threads left behind.
    fn stop(&mut self) {
        for (writer, number) in self.numbers(|state| matches!(state, PeerState::Working { .. })) {
            let is_ended = self.rng.random_bool(0.7);
            self.registry.handle_run_over(number, is_ended);
            self.truth.get_mut(&writer).unwrap().holds_grant = !is_ended;
            if !is_ended && self.rng.random_bool(0.3) {
                self.registry.handle_silent(writer);
            }
        }
        if let Some(record) = self.registry.take_record() {
            self.journal = record.clone();
        }
    }

    fn join(&mut self, writer: WriterId, number: PeerNumber) {
        self.registry.handle_joined(number, writer == self.own);
        if *self.registry.record() != self.journal {
            if self.rng.random_bool(0.1) {
                // The controller dies before the record is written: the peer has received no work.
                self.truth.get_mut(&writer).unwrap().holds_grant = false;
                return self.take_over();
            }
            self.journal = self.registry.record().clone();
        }
        self.known.insert(writer);
        let truth = self.truth.get_mut(&writer).unwrap();
        (truth.holds_grant, truth.may_write_late) = (true, false);
    }

    fn end(&mut self, writer: WriterId, number: PeerNumber) {
        let truth = self.truth.get_mut(&writer).unwrap();
        let loss = match self.rng.random_range(0..4) {
            0 => Some(Loss::Hung),
            1 => Some(Loss::Lapsed),
            2 => {
                truth.process += 1;
                Some(Loss::Lapsed)
            }
            _ => None,
        };
        truth.may_write_late = loss.is_some();
        truth.holds_grant = loss != Some(Loss::Lapsed);
        self.registry.handle_stopping(number, loss);
        assert_eq!(self.registry.is_lost(number), loss.is_some());
    }

    fn leave(&mut self, writer: WriterId, number: PeerNumber) {
        let was_lost = self.registry.is_lost(number);
        let loss = self.rng.random_bool(0.3).then_some(Loss::Hung);
        self.registry.handle_left(number, loss);
        if !was_lost {
            let truth = self.truth.get_mut(&writer).unwrap();
            (truth.holds_grant, truth.may_write_late) = (loss.is_some(), loss.is_some());
        }
    }

    /// Checks the record: no writer that may hold a grant is *settled*, and none that may write
    /// late counts as heard.
    fn check(&self) {
        for (writer, truth) in &self.truth {
            if truth.holds_grant {
                assert!(!self.journal.settled.contains(writer), "{writer} {:?}", self.journal);
            }
            let late = self.registry.may_write_late(*writer, None);
            assert!(late || !truth.may_write_late, "{writer} {truth:?}");
        }
    }
}

/// B3: for any history of joins, losses, ends and crashes of controllers, a run waits for each
/// writer that may hold a grant, and the record never contradicts that.
#[test]
fn b3_no_writer_that_may_write_is_taken_for_settled() {
    for seed in 0..300 {
        let history = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..200 {
                world.step();
                world.check();
            }
        });
        assert!(history.is_ok(), "seed {seed}");
    }
}

/// B3: a peer that is lost for good is waited for by one run, and by no later one.
#[test]
fn b3_a_lost_peer_delays_one_run() {
    let known = BTreeSet::from([WriterId(1), WriterId(2)]);
    let (mut registry, followed) = Registry::follow(WriterStanding::default(), 1, &known, &[]);
    assert_eq!(followed.awaited, known);
    assert_eq!(registry.take_record(), None, "the journal has all of it");
    let number = join(&mut registry, &seen(1, 1));
    registry.handle_wait_over();
    registry.handle_stopping(number, None);
    registry.handle_left(number, None);
    let record = registry.take_record().unwrap().clone();
    let (_, followed) = Registry::follow(record, 1, &known, &[seen(1, 1)]);
    assert_eq!(followed.awaited, BTreeSet::new());
}
