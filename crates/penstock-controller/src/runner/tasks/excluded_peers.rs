//! Peers of the site that take no part in a run, and the reasons, for users.

use std::collections::BTreeMap;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::PeerShare;

use super::task_set::TaskSet;

impl TaskSet {
    /// Reports the peers that cannot take part, once for each reason.
    pub(super) fn report_excluded(&mut self) {
        let excluded: BTreeMap<String, String> = self.parts.peers.left_out().into_iter().collect();
        let is_news = |peer: &String, why: &String| self.excluded.get(peer) != Some(why);
        for (peer, why) in excluded.iter().filter(|(peer, why)| is_news(peer, why)) {
            let title = format!("peer `{peer}` takes no part: {why}");
            self.parts.control.note(Problem::new(ProblemCode::PeerLeftOut, title));
        }
        self.excluded = excluded;
    }

    /// Their lines beside those of the peers that do.
    pub(super) fn shares_excluded(&self) -> impl Iterator<Item = PeerShare> + '_ {
        self.excluded.iter().map(|(peer, why)| PeerShare {
            peer: peer.clone(),
            state: format!("left out: {why}"),
            ..PeerShare::default()
        })
    }
}
