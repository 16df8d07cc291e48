//! Peers of the site that take no part in a run, and the reasons, for users.

use std::collections::BTreeMap;

use penstock_api::problem::{Problem, ProblemCode};

/// The peers that could not take part at the last look, with the reasons.
#[derive(Debug, Default)]
pub(super) struct ExcludedPeers {
    known: BTreeMap<String, String>,
}

impl ExcludedPeers {
    /// Handles the peers that cannot take part now. Returns an event for each new reason.
    pub(super) fn handle(&mut self, excluded: Vec<(String, String)>) -> Vec<Problem> {
        let excluded: BTreeMap<String, String> = excluded.into_iter().collect();
        let before = std::mem::replace(&mut self.known, excluded);
        let news = self.known.iter().filter(|(peer, why)| before.get(*peer) != Some(*why));
        let events = news.map(|(peer, why)| {
            let title = format!("peer `{peer}` takes no part: {why}");
            Problem::new(ProblemCode::PeerLeftOut, title)
        });
        events.collect()
    }

    /// Returns these peers with the reasons.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.known.iter().map(|(peer, why)| (peer.as_str(), why.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an excluded peer causes one event for each reason, and another if it was back in
    /// between.
    #[test]
    fn a_reason_is_one_event() {
        let mut peers = ExcludedPeers::default();
        let out = |peer: &str, why: &str| (peer.to_owned(), why.to_owned());
        let told = peers.handle(vec![out("a", "no store"), out("b", "old release")]);
        assert_eq!(told.len(), 2);
        assert_eq!(told[0].title, "peer `a` takes no part: no store");
        assert_eq!(peers.handle(vec![out("a", "no store"), out("b", "draining")]).len(), 1);
        assert_eq!(peers.handle(vec![out("b", "draining")]), []);
        assert_eq!(peers.iter().collect::<Vec<_>>(), [("b", "draining")]);
        assert_eq!(peers.handle(vec![out("a", "no store"), out("b", "draining")]).len(), 1);
    }
}
