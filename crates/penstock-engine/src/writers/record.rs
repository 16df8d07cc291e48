//! Writers that hold no grant, as the journal records them for later attempts (B3, B4).
//!
//! A new controller does not know which grants its predecessor issued. It waits one grant period
//! for every writer in the ledger, except writers that the record calls settled. The same holds for
//! a later attempt of one controller. A writer is removed from the record, durably, before it gets
//! work. It is added when it has ended in order, when its process is known to have ended, or when
//! its grant is over. A peer that is lost for good thus delays one run, and no later one.
//!
//! The own peer of a controller has no grant. Its right to write ends with the tenure of its
//! controller, and the next one is elected after that (B4). So no controller waits for an own peer.
//! If that did not end in order, it may be stopped in a call, which completes when its process
//! wakes: files begun by then are checked again (B1).

use std::collections::BTreeSet;

use penstock_proto::id::WriterId;
use penstock_proto::journal::WriterStanding;

use super::peer::{Peer, PresentPeer, Writes};
use super::registry::WriterRegistry;

/// Effects of an earlier run on this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Writers that may hold a grant of the earlier run: extents of large files wait for these.
    pub awaited: BTreeSet<WriterId>,
    /// The previous controller's own peer, if it did not end in order: it may write late (B1).
    pub stopped: Option<WriterId>,
    /// Writers of the earlier run that are present, and report their writes.
    pub reporting: BTreeSet<WriterId>,
}

impl<R> WriterRegistry<R> {
    /// Returns the registry of a run that follows the `last` record, under a controller of `epoch`.
    /// `known` are the writers of the ledger. The edge writes [`WriterRegistry::record`] before any
    /// peer gets work.
    pub fn follow(
        last: WriterStanding,
        epoch: u64,
        known: &BTreeSet<WriterId>,
        present: &[PresentPeer],
    ) -> (Self, Followed) {
        let is_present = |writer: &WriterId| present.iter().any(|seen| seen.writer == *writer);
        // The peer of this host is an exception: its process is this one, or has ended.
        let is_own =
            |writer: &WriterId| present.iter().any(|seen| seen.is_own && seen.writer == *writer);
        let stopped = last.own.filter(|writer| !last.settled.contains(writer) && !is_own(writer));
        let mut settled = last.settled;
        settled.extend(last.own);
        // Writes of a site of one peer, before it had others, ended with its process.
        settled.insert(WriterId::SOLE);
        let awaited: BTreeSet<_> = known.difference(&settled).copied().collect();
        // Present peers are about to join: one record covers all of them. A writer that may write
        // late is recorded after the files that it may write.
        let recorded =
            settled.iter().copied().filter(|it| !is_present(it) && Some(*it) != stopped).collect();
        let mut registry = Self {
            recorded: WriterStanding { own: None, epoch, settled: recorded },
            follows: last.epoch,
            ..Self::default()
        };
        let writes = settled.into_iter().map(|writer| (writer, Writes::Settled));
        let writes = writes.chain(awaited.iter().map(|writer| (*writer, Writes::Awaited)));
        registry.peers =
            writes.map(|(writer, writes)| (writer, Peer { writes, ..Peer::default() })).collect();
        registry.check();
        let reporting = known.iter().copied().filter(is_present).collect();
        (registry, Followed { awaited, stopped, reporting })
    }

    /// Returns the epoch of the controller that led this transfer before.
    pub fn follows(&self) -> u64 {
        self.follows
    }

    /// Returns the writers of an earlier run that may hold a grant.
    pub fn awaited(&self) -> impl Iterator<Item = WriterId> {
        let awaited = self.peers.iter().filter(|(_, peer)| peer.writes == Writes::Awaited);
        awaited.map(|(writer, _)| *writer)
    }

    /// Handles the end of the wait for writers of an earlier run: their grants are over. The files
    /// that they may write late are known by now.
    pub fn handle_wait_over(&mut self) {
        for peer in self.peers.values_mut().filter(|peer| peer.writes == Writes::Awaited) {
            peer.writes = Writes::Settled;
        }
        self.check();
    }

    /// Returns the record that the journal has, or is about to get.
    pub fn record(&self) -> &WriterStanding {
        &self.recorded
    }

    /// Returns the record if a writer holds no grant and the journal does not have that yet. The
    /// edge writes it with, or after, the files that these writers may write late.
    pub fn take_record(&mut self) -> Option<&WriterStanding> {
        let settled = self.peers.iter().filter(|(_, peer)| peer.writes.is_settled());
        let settled: BTreeSet<_> = settled.map(|(writer, _)| *writer).collect();
        debug_assert!(self.recorded.settled.is_subset(&settled), "a record that is too wide");
        if settled == self.recorded.settled {
            return None;
        }
        self.recorded.settled = settled;
        self.check();
        Some(&self.recorded)
    }
}
