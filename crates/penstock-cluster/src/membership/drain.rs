//! Draining peers, peers that have left or are lost, and the orderly end of a controllership.
//!
//! A mark to drain a peer is a key without a lease: it outlives the peer's daemon and the process
//! that set it. Only the controller writes it, under its epoch (B4). A draining peer does not stand
//! for election while another one may lead. If there is no controller for three leases, the peer
//! stands all the same, since a site without a controller does no work at all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use penstock_api::cluster::{DrainMark, KnownPeer, PeerCard};
use penstock_proto::id::Name;

use super::{Cluster, ClusterNow, Member, Seen, value_of};
use crate::clock::now_seconds;
use crate::etcd::{Compare, EtcdError, OPERATIONS_MAX, Operation};

/// The longest time that an order of an operator may take in etcd.
const ORDER: Duration = Duration::from_secs(5);
/// Number of leases without a controller after which a draining peer stands for election.
const LEASES_WITHOUT: u64 = 3;

impl ClusterNow {
    /// Returns whether a peer gets no new work.
    pub fn is_draining(&self, peer: &Name) -> bool {
        self.draining.iter().any(|mark| mark.peer == *peer)
    }
}

impl Cluster {
    /// Marks a peer as draining, or removes the mark. Blocks for a transaction of etcd.
    ///
    /// # Errors
    /// This peer is not the controller, or no longer; etcd does not answer.
    pub fn set_draining(&self, peer: &Name, mark: Option<&DrainMark>) -> Result<(), EtcdError> {
        let key = self.keys.at(&format!("draining/{peer}"));
        self.order(match mark {
            Some(mark) => Operation::Put(key, value_of(mark)?, 0),
            None => Operation::Delete(key),
        })
    }

    /// Forgets a peer that is gone for good. Blocks for a transaction of etcd.
    ///
    /// # Errors
    /// As [`Cluster::set_draining`].
    pub fn forget(&self, peer: &Name) -> Result<(), EtcdError> {
        self.set_draining(peer, None)?;
        self.order(Operation::Delete(self.keys.at(&format!("known/{peer}"))))
    }

    /// Ends the tenure, if there is one, so that another peer is elected. The caller has stopped
    /// all runs under it. Returns at once.
    pub fn step_down(&self) {
        self.shared.yields.store(true, Ordering::Release);
        self.shared.wake.notify_all();
    }

    fn order(&self, operation: Operation) -> Result<(), EtcdError> {
        let tenure = self.shared.now.borrow().tenure.clone().filter(|tenure| tenure.holds());
        let other = || EtcdError::Refused("another peer is the controller".to_owned());
        let tenure = tenure.ok_or_else(other)?;
        let stands = tenure.stands(&self.keys);
        let answer = self.shared.etcd.transact(&stands, &[operation], ORDER)?;
        if answer.succeeded { Ok(()) } else { Err(other()) }
    }
}

impl Member {
    fn own(&self) -> Name {
        let card = self.shared.card.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        card.peer.clone()
    }

    /// Returns whether this peer stands for election when there is no leader.
    pub(super) fn may_stand(&mut self, seen: &Seen) -> bool {
        let now = (self.clock)();
        let since = *self.leaderless.get_or_insert(now);
        let own = self.own();
        if !seen.draining.iter().any(|(mark, _)| mark.peer == own) || !seen.has_other(&own) {
            return true;
        }
        now.saturating_sub(since) > LEASES_WITHOUT * self.lease_seconds * 1_000_000_000
    }

    /// Returns whether this peer ends its tenure: it was marked since it was elected, and another
    /// peer may lead.
    pub(super) fn gives_up(&mut self, seen: &Seen) -> bool {
        if seen.leader.is_some() || self.tenure.is_some() {
            self.leaderless = None;
        }
        let Some(tenure) = &self.tenure else { return false };
        let own = self.own();
        let marked = seen.draining.iter().find(|(mark, _)| mark.peer == own);
        marked.is_some_and(|(_, made)| *made > tenure.revision()) && seen.has_other(&own)
    }

    /// Removes the leader's key, and keeps the lease: this peer stays.
    pub(super) fn step_down(&mut self) -> Result<(), EtcdError> {
        let Some(tenure) = self.tenure.take() else { return Ok(()) };
        tenure.end();
        tracing::info!(epoch = tenure.epoch(), "this peer gives the controllership up");
        let key = self.keys.leader();
        let leader = Compare::Created(key.clone(), tenure.revision());
        let gone = [Operation::Delete(key)];
        self.shared.etcd.transact(&[leader], &gone, self.patience()).map(drop)
    }

    /// Records, as the controller, the peers that are lost: those without a card for a lease,
    /// without notice. That time comes on top of the lease by which their card has outlived them.
    pub(super) fn miss_peers(&mut self, seen: &Seen) -> Result<(), EtcdError> {
        let Some(tenure) = &self.tenure else {
            self.missing.clear();
            return Ok(());
        };
        let (now, lease) = ((self.clock)(), self.lease_seconds * 1_000_000_000);
        let here = |peer: &Name| seen.peers.iter().any(|card| card.peer == *peer);
        let missed = |known: &&KnownPeer| known.left == 0 && known.lost == 0 && !here(&known.peer);
        let missed: Vec<_> = seen.known.iter().filter(missed).collect();
        self.missing.retain(|peer, _| missed.iter().any(|known| known.peer == *peer));
        let mut puts = Vec::new();
        for known in missed {
            let since = *self.missing.entry(known.peer.clone()).or_insert(now);
            if now.saturating_sub(since) >= lease && puts.len() < OPERATIONS_MAX {
                let lost = KnownPeer { lost: now_seconds(), ..known.clone() };
                puts.push(Operation::Put(self.known_key(&known.peer), value_of(&lost)?, 0));
            }
        }
        if puts.is_empty() {
            return Ok(());
        }
        let stands = tenure.stands(&self.keys);
        self.shared.etcd.transact(&stands, &puts, self.patience()).map(drop)
    }

    fn known_key(&self, peer: &Name) -> String {
        self.keys.at(&format!("known/{peer}"))
    }

    /// Returns the operation that records that this peer belongs to the site; with `leaves`, that
    /// it ends in order.
    pub(super) fn known_put(&self, card: &PeerCard, leaves: bool) -> Result<Operation, EtcdError> {
        let (joined, left) = (card.since, if leaves { now_seconds() } else { 0 });
        let (peer, instance, lost) = (card.peer.clone(), card.instance, 0);
        let key = card.key.clone();
        let known = KnownPeer { peer, instance, joined, left, lost, key };
        Ok(Operation::Put(self.known_key(&card.peer), value_of(&known)?, 0))
    }

    /// Records that this peer ends in order; if etcd is out of reach, the others find out.
    pub(super) fn tell_leaving(&self) {
        let Some((_, card)) = &self.told else { return };
        if let Ok(put) = self.known_put(card, true) {
            let _ = self.shared.etcd.transact(&[], &[put], self.patience());
        }
    }
}

impl Seen {
    /// Returns whether another peer is present and may lead. A witness, which has no address, may
    /// not.
    fn has_other(&self, own: &Name) -> bool {
        let drains = |peer: &Name| self.draining.iter().any(|(mark, _)| mark.peer == *peer);
        let may_lead = |card: &PeerCard| !card.addresses.is_empty() && !drains(&card.peer);
        self.peers.iter().any(|card| card.peer != *own && may_lead(card))
    }
}
