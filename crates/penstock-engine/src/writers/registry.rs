//! The registry: the states of all peers, and the transitions between them.

use std::collections::{BTreeMap, BTreeSet};

use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::WriterStanding;
use penstock_proto::units::Instant;

use super::peer::{Loss, Peer, PeerState, PresentPeer, Writes};

/// The target peers of one run. `R` is the reason that the edge keeps with a failure.
#[derive(Debug)]
pub struct WriterRegistry<R> {
    pub(super) peers: BTreeMap<WriterId, Peer<R>>,
    /// The writer of each number in use.
    pub(super) numbers: BTreeMap<PeerNumber, WriterId>,
    pub(super) next_number: u16,
    /// Set once the peers that were present when the run began are marked.
    pub(super) is_begun: bool,
    /// The facts that the journal has.
    pub(super) recorded: WriterStanding,
    /// The epoch of the controller that led the transfer before.
    pub(super) follows: u64,
    /// Time of the first call to peers that may write late.
    pub(super) called: Option<Instant>,
}

impl<R> Default for WriterRegistry<R> {
    fn default() -> Self {
        Self {
            peers: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
            is_begun: false,
            recorded: WriterStanding::default(),
            follows: 0,
            called: None,
        }
    }
}

impl<R> WriterRegistry<R> {
    /// Returns the state of a peer in the run.
    pub fn state(&self, writer: WriterId) -> PeerState {
        self.peers.get(&writer).map(|peer| peer.state).unwrap_or_default()
    }

    /// Returns the writes that a peer may still make.
    pub fn writes(&self, writer: WriterId) -> Writes {
        self.peers.get(&writer).map(|peer| peer.writes).unwrap_or_default()
    }

    /// Returns whether the peer of this number gets no new work.
    pub fn is_draining(&self, number: PeerNumber) -> bool {
        matches!(self.state_of(number), PeerState::Working { is_draining: true, .. })
    }

    /// Returns whether the last reports of the peer of this number do not count.
    pub fn is_lost(&self, number: PeerNumber) -> bool {
        self.numbers.get(&number).is_some_and(|writer| !self.writes(*writer).is_heard())
            && matches!(self.state_of(number), PeerState::Stopping { .. })
    }

    /// Returns how many peers take part or are about to, without those that drain.
    pub fn taking(&self) -> usize {
        let takes = |peer: &&Peer<R>| {
            let state = peer.state;
            matches!(
                state,
                PeerState::Starting { .. } | PeerState::Working { is_draining: false, .. }
            )
        };
        self.peers.values().filter(takes).count()
    }

    /// Marks the peers that are present when the run begins: that these join is no event. Later
    /// calls do nothing.
    pub fn handle_begun(&mut self, present: &[PresentPeer]) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        for seen in present {
            let peer = self.peers.entry(seen.writer).or_default();
            peer.is_expected = !matches!(peer.state, PeerState::Working { .. });
        }
    }

    /// Returns whether a peer is to be asked to take part, in a run that has room for `peers_max`
    /// peers. `stays` is true if a present peer does not drain: a draining peer is used only if
    /// there is no other.
    pub fn may_invite(
        &self,
        seen: &PresentPeer,
        stays: bool,
        peers_max: usize,
        now: Instant,
    ) -> bool {
        self.state(seen.writer) == PeerState::Absent
            && !(seen.is_draining && stays)
            && !self.is_away(seen, now)
            && self.taking() < peers_max
    }

    /// Returns whether one of these peers stays: it does not drain, and is not left alone.
    pub fn any_stays(&self, present: &[PresentPeer], now: Instant) -> bool {
        present.iter().any(|seen| !seen.is_draining && !self.is_away(seen, now))
    }

    /// Handles a peer that is asked to take part. Returns its number, which no peer has now.
    /// Numbers repeat after weeks. The greatest number is never used.
    ///
    /// # Panics
    /// The peer takes part already.
    pub fn handle_invited(&mut self, seen: &PresentPeer) -> PeerNumber {
        while self.next_number == u16::MAX
            || self.numbers.contains_key(&PeerNumber(self.next_number))
        {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let number = PeerNumber(self.next_number);
        self.next_number = self.next_number.wrapping_add(1);
        let peer = self.peers.entry(seen.writer).or_default();
        assert_eq!(peer.state, PeerState::Absent, "{} takes part already", seen.writer);
        peer.state = PeerState::Starting { number, process: seen.process };
        peer.name = Some(seen.name.clone());
        self.numbers.insert(number, seen.writer);
        self.check();
        number
    }

    /// Handles a peer that did not start a task. Its earlier work is as it was.
    ///
    /// # Panics
    /// The peer is not about to start.
    pub fn handle_refused(&mut self, number: PeerNumber) {
        let peer = self.of(number);
        assert!(matches!(peer.state, PeerState::Starting { .. }), "{number} has started");
        peer.is_expected = false;
        self.leave(number);
    }

    /// Handles a peer whose task has started, which ends its earlier work. The edge writes the
    /// record before the peer gets work. Returns whether the peer was not present when the run
    /// began: an event for operators.
    ///
    /// # Panics
    /// The peer is not about to start.
    pub fn handle_joined(&mut self, number: PeerNumber, is_own: bool) -> bool {
        let is_begun = self.is_begun;
        let writer = self.numbers[&number];
        let peer = self.of(number);
        let PeerState::Starting { process, .. } = peer.state else {
            panic!("peer {number} has not been about to start: {:?}", peer.state);
        };
        peer.state = PeerState::Working { number, process, is_draining: false };
        peer.writes = Writes::Active;
        let is_news = is_begun && !std::mem::take(&mut peer.is_expected);
        if let Some(retry) = &mut peer.retry {
            retry.is_met = false;
        }
        self.recorded.settled.remove(&writer);
        if is_own {
            self.recorded.own = Some(writer);
        }
        self.check();
        is_news
    }

    /// Handles a task that has started, and was stopped before it got any work: the earlier work of
    /// its peer is over, and there is no other.
    ///
    /// # Panics
    /// The peer is not about to start.
    pub fn handle_unused(&mut self, number: PeerNumber) {
        let peer = self.of(number);
        assert!(matches!(peer.state, PeerState::Starting { .. }), "{number} has got work");
        peer.writes = Writes::Ended;
        self.leave(number);
    }

    /// Handles a peer that is to get no new work.
    ///
    /// # Panics
    /// The peer does not work.
    pub fn handle_draining(&mut self, number: PeerNumber) {
        match &mut self.of(number).state {
            PeerState::Working { is_draining, .. } => *is_draining = true,
            state => panic!("peer {number} drains, and does not work: {state:?}"),
        }
    }

    /// Handles a task that receives an order to stop, or that was lost.
    ///
    /// # Panics
    /// The peer does not work.
    pub fn handle_stopping(&mut self, number: PeerNumber, loss: Option<Loss>) {
        let peer = self.of(number);
        let PeerState::Working { process, .. } = peer.state else {
            panic!("peer {number} stops, and does not work: {:?}", peer.state);
        };
        peer.state = PeerState::Stopping { number, process };
        peer.lose(process, loss);
        self.check();
    }

    /// Handles a task that is over. A task that was to end in order, and was lost meanwhile, counts
    /// as lost.
    ///
    /// # Panics
    /// The task got no order to stop.
    pub fn handle_left(&mut self, number: PeerNumber, loss: Option<Loss>) {
        let peer = self.of(number);
        let PeerState::Stopping { process, .. } = peer.state else {
            panic!("peer {number} has left, and was not stopping: {:?}", peer.state);
        };
        if peer.writes == Writes::Active {
            peer.writes = Writes::Ended;
            peer.lose(process, loss);
        }
        self.leave(number);
    }

    /// Handles a task that was stopped because the run is over. `is_ended` is false if the task has
    /// left a thread in a system call.
    ///
    /// # Panics
    /// The peer does not work.
    pub fn handle_run_over(&mut self, number: PeerNumber, is_ended: bool) {
        let peer = self.of(number);
        assert!(matches!(peer.state, PeerState::Working { .. }), "{number}: {:?}", peer.state);
        peer.writes = if is_ended { Writes::Ended } else { Writes::Unended };
        self.leave(number);
    }

    /// Returns the peers whose processes are others than those that work: their tasks are lost.
    pub fn poll_restarted(&self, present: &[PresentPeer]) -> Vec<PeerNumber> {
        let restarted = present.iter().filter_map(|seen| match self.state(seen.writer) {
            PeerState::Working { number, process, .. } if process != seen.process => Some(number),
            _ => None,
        });
        restarted.collect()
    }

    /// Returns the working peers that are to drain, and have no order yet. `stays` as in
    /// [`WriterRegistry::may_invite`].
    pub fn poll_draining(&self, present: &[PresentPeer], stays: bool) -> Vec<PeerNumber> {
        let drains = present.iter().filter(|seen| seen.is_draining && stays);
        let numbers = drains.filter_map(|seen| match self.state(seen.writer) {
            PeerState::Working { number, is_draining: false, .. } => Some(number),
            _ => None,
        });
        numbers.collect()
    }

    /// Returns the working peers for which a run of `peers_max` peers no longer has room: those
    /// that joined last.
    pub fn poll_surplus(&self, peers_max: usize) -> Vec<PeerNumber> {
        let surplus = self.taking().saturating_sub(peers_max);
        let works = |number: &PeerNumber| {
            matches!(self.state_of(*number), PeerState::Working { is_draining: false, .. })
        };
        self.numbers.keys().rev().copied().filter(works).take(surplus).collect()
    }

    /// Adds pages in which a peer may have left temporary files.
    pub fn handle_left_pages(&mut self, writer: WriterId, pages: impl IntoIterator<Item = u32>) {
        self.peers.entry(writer).or_default().left.extend(pages);
    }

    /// Returns the writers that may have left temporary files, with the pages.
    pub fn left_pages(&self) -> impl Iterator<Item = (WriterId, &BTreeSet<u32>)> {
        let left = self.peers.iter().map(|(writer, peer)| (*writer, &peer.left));
        left.filter(|(_, pages)| !pages.is_empty())
    }

    fn state_of(&self, number: PeerNumber) -> PeerState {
        self.numbers.get(&number).map(|writer| self.state(*writer)).unwrap_or_default()
    }

    fn of(&mut self, number: PeerNumber) -> &mut Peer<R> {
        let writer = self.numbers.get(&number);
        let peer = writer.and_then(|writer| self.peers.get_mut(writer));
        peer.unwrap_or_else(|| panic!("no peer has the number {number}"))
    }

    fn leave(&mut self, number: PeerNumber) {
        self.of(number).state = PeerState::Absent;
        self.numbers.remove(&number);
        self.check();
    }

    /// Asserts the relations of the state, the writes and the record: see the module.
    pub(super) fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (writer, peer) in &self.peers {
            match peer.state {
                PeerState::Absent => assert_ne!(peer.writes, Writes::Active, "{writer}"),
                PeerState::Starting { number, .. } => {
                    assert_ne!(peer.writes, Writes::Active, "{writer}");
                    assert_eq!(self.numbers.get(&number), Some(writer));
                }
                PeerState::Working { number, .. } => {
                    assert_eq!(peer.writes, Writes::Active, "{writer}");
                    assert_eq!(self.numbers.get(&number), Some(writer));
                }
                PeerState::Stopping { number, .. } => {
                    let is_lost = peer.writes.lost_process().is_some();
                    assert!(peer.writes == Writes::Active || is_lost, "{writer}");
                    assert_eq!(self.numbers.get(&number), Some(writer));
                }
            }
        }
        let present = self.peers.values().filter(|peer| peer.state != PeerState::Absent).count();
        assert_eq!(present, self.numbers.len(), "a number belongs to one peer");
        for writer in &self.recorded.settled {
            assert!(self.writes(*writer).is_settled(), "{writer} is recorded, and may write");
        }
    }
}
