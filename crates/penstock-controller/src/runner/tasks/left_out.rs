//! Peers of the site that take no part in a run, and the reasons, for users.

use std::collections::BTreeMap;

use penstock_api::problem::{Exit, Problem};
use penstock_api::transfer::PeerShare;

use super::Tasks;

impl Tasks {
    /// Reports the peers that cannot take part, once for each reason.
    pub(super) fn note_left_out(&mut self) {
        let left: BTreeMap<String, String> = self.parts.peers.left_out().into_iter().collect();
        for (peer, why) in left.iter().filter(|(peer, why)| self.left_out.get(*peer) != Some(*why))
        {
            let title = format!("peer `{peer}` takes no part: {why}");
            self.parts.control.note(Problem::new(Exit::Temporary, "peer-left-out", title));
        }
        self.left_out = left;
    }

    /// Their lines beside those of the peers that do.
    pub(super) fn shares_left_out(&self) -> impl Iterator<Item = PeerShare> + '_ {
        self.left_out.iter().map(|(peer, why)| PeerShare {
            peer: peer.clone(),
            state: format!("left out: {why}"),
            ..PeerShare::default()
        })
    }
}
