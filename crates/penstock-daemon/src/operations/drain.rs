//! Orders about peers: drain one, take that back, forget one that is gone. The controller's alone.

use std::collections::BTreeMap;

use penstock_api::cluster::{DrainMark, PeerCard, StoreCard};
use penstock_api::fence::not_controller;
use penstock_api::keys::{RevokedKey, RotateReply};
use penstock_api::operate::{DrainRequest, PeerView, Presence};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::etcd::EtcdError;
use penstock_cluster::membership::ClusterNow;
use penstock_proto::id::{Name, TransferId};
use penstock_sys::now_seconds;

use super::{Operate, no_such_peer};
use crate::site::store_cards::store_cards;
use crate::site::store_reach::reaches;

impl Operate {
    fn check_leads(&self) -> Result<(), Problem> {
        self.controller().map(drop).ok_or_else(not_controller)
    }

    /// Returns a peer, for an order about it.
    fn ordered_peer(&self, peer: &Name) -> Result<PeerView, Problem> {
        self.check_leads()?;
        let view = self.peers();
        let found = view.peers.iter().find(|known| known.peer == *peer).cloned();
        found.ok_or_else(|| no_such_peer(peer, &view.peers))
    }

    /// Drains a peer, or cancels that; returns the peer's state afterwards. Blocks for some
    /// seconds.
    ///
    /// # Errors
    /// The peer is unknown, or is the last one that reaches a store of a running transfer; this
    /// peer is not the controller.
    pub(crate) fn drain(&self, peer: &Name, request: DrainRequest) -> Result<PeerView, Problem> {
        let view = self.ordered_peer(peer)?;
        let election = self.member.election().ok_or_else(|| {
            let title = format!("peer `{peer}` is the only one, so no other can take its work");
            Problem::new(ProblemCode::OnePeer, title).hint(
                "pause its transfers instead, or end the daemon: it resumes at its next start",
            )
        })?;
        let now = self.now();
        if request.undo {
            ordered(election.cluster.set_draining(peer, None))?;
            return Ok(PeerView { draining: None, ..view });
        }
        if !request.force {
            self.check_last(&self.with_stores_now(&now), peer)?;
        }
        let mark = match view.draining.clone() {
            Some(mark) if mark.forced || !request.force => mark,
            _ => DrainMark { peer: peer.clone(), since: now_seconds(), forced: request.force },
        };
        ordered(election.cluster.set_draining(peer, Some(&mark)))?;
        Ok(PeerView { draining: Some(mark), ..view })
    }

    /// Forgets a peer, and excludes it: its key is revoked, and the keys of the site that its host
    /// holds are replaced. A `stolen` peer may still be present; peers that do not answer are left
    /// behind. Blocks for some seconds.
    ///
    /// # Errors
    /// The peer is unknown, is this very peer, or is present and not called stolen. Another peer
    /// does not answer, and the peer is not stolen. This peer is not the controller.
    pub(crate) fn forget(&self, peer: &Name, stolen: bool) -> Result<RotateReply, Problem> {
        let view = self.ordered_peer(peer)?;
        let election = self.member.election().ok_or_else(|| {
            let title =
                format!("peer `{peer}` is the only one, and the site is nothing without it");
            Problem::new(ProblemCode::OnePeer, title).hint(
                "to give the site up, end its daemon and run `penstock site unpair` at the sites \
                 that it is paired with",
            )
        })?;
        if peer == self.own() {
            let title = format!("peer `{peer}` is this host, which leads the site");
            return Err(Problem::new(ProblemCode::PeerThere, title)
                .hint("cut it off, and run the command at another host of the site"));
        }
        if matches!(view.presence, Presence::Up | Presence::Silent) && !stolen {
            let title = format!("peer `{peer}` is up: its lease has not ended");
            return Err(Problem::new(ProblemCode::PeerThere, title)
                .hint("end its daemon first, or give `--stolen` if the host is in other hands"));
        }
        let now = self.now();
        let cards = now.peers.iter().map(|card| (&card.peer, &card.key));
        let known = now.known.iter().map(|known| (&known.peer, &known.key));
        let key = cards.chain(known).find(|(name, key)| *name == peer && !key.is_empty());
        let key = key.map(|(_, key)| key.clone()).unwrap_or_default();
        let reply = self.replace_keys(Some(RevokedKey { peer: peer.clone(), key }), stolen)?;
        election.put_out(peer);
        ordered(election.cluster.forget(peer))?;
        Ok(reply)
    }

    /// Replaces the keys of the site. Blocks for some seconds.
    ///
    /// # Errors
    /// A peer does not answer; the keys cannot be written; this peer is not the controller.
    pub(crate) fn rotate(&self) -> Result<RotateReply, Problem> {
        self.check_leads()?;
        self.replace_keys(None, false)
    }

    /// Returns the membership with the stores that each peer reaches at this moment: cards report
    /// them only at intervals. Blocks for some seconds at most.
    fn with_stores_now(&self, now: &ClusterNow) -> ClusterNow {
        let mut now = now.clone();
        let mut told = self.ask_all::<Vec<StoreCard>>(&now.peers, "/stores");
        for card in &mut now.peers {
            card.stores = match told.remove(&card.peer) {
                Some(Ok((stores, _))) => stores,
                None if card.peer == *self.own() => store_cards(&self.site.stores()),
                _ => Vec::new(),
            };
        }
        now
    }

    /// Refuses to drain the last peer that reaches a store of a running transfer.
    fn check_last(&self, now: &ClusterNow, peer: &Name) -> Result<(), Problem> {
        let others = |card: &&PeerCard| card.peer != *peer && !now.is_draining(&card.peer);
        let others: Vec<_> = now.peers.iter().filter(others).collect();
        for (store, transfers) in self.stores_in_use()? {
            let known = now.peers.iter().any(|card| reaches(card, &store));
            // Before anything was written there the store has no identity anywhere.
            let lists = |card: &PeerCard| card.stores.iter().any(|found| found.store == store);
            if others.iter().any(|card| if known { reaches(card, &store) } else { lists(card) }) {
                continue;
            }
            let first = transfers[0];
            let more = match transfers.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let title = format!("peer `{peer}` is the last one that reaches store `{store}`");
            return Err(Problem::new(ProblemCode::LastPeer, title)
                .because(format!("transfer {first}{more} would wait until another peer does"))
                .hint(
                    "wait until the transfer has ended, mount the store at another peer, or give \
                     `--force`",
                ));
        }
        Ok(())
    }

    /// Stores of this site that transfers use which have not ended, and these.
    fn stores_in_use(&self) -> Result<BTreeMap<Name, Vec<TransferId>>, Problem> {
        let (state, own) = (self.site.state(), &self.site.config.site);
        let mut used: BTreeMap<Name, Vec<TransferId>> = BTreeMap::new();
        let views = state.open_transfers()?.into_iter().map(|record| record.brief());
        for view in views.chain(state.open_stubs()?.into_iter().map(|stub| stub.view)) {
            for place in [&view.source, &view.target] {
                let ids = used.entry(place.store.clone()).or_default();
                if place.site == *own && !ids.contains(&view.id) {
                    ids.push(view.id);
                }
            }
        }
        used.retain(|_, ids| !ids.is_empty());
        Ok(used)
    }
}

/// Turns the result of an order in etcd into that of the operation.
fn ordered(result: Result<(), EtcdError>) -> Result<(), Problem> {
    result.map_err(|error| match error {
        EtcdError::Refused(why) => not_controller().because(why),
        error => Problem::new(ProblemCode::Etcd, "cannot store the order").because(error),
    })
}
