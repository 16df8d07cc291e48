//! Peers that were given up, and may write late (B1): the run's end calls them back and names them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use penstock_api::task::TargetPeer;
use penstock_proto::id::WriterId;

use super::task_set::TaskSet;

impl TaskSet {
    /// Calls back the peers that may write late and have a live process. Returns whether the end of
    /// the run waits for one. Never blocks.
    pub(crate) fn call_back(&mut self) -> bool {
        let late = self.late_writers();
        let (present, now) = (self.present(), self.now());
        self.registry.poll_calls(&late, &present, self.shares.peers_max(), now)
    }

    fn late_writers(&self) -> BTreeSet<WriterId> {
        self.late().iter().map(|(writer, ..)| *writer).collect()
    }

    /// Marks a peer as one that may write late, because it does not answer.
    pub(crate) fn handle_silent(&mut self, writer: WriterId) {
        self.registry.handle_silent(writer);
    }

    /// Returns the peer of `writer`, if its late writes are over. Its own client knows of these
    /// before others do.
    pub(crate) fn heard(&self, writer: WriterId) -> Option<Arc<dyn TargetPeer>> {
        let mut present = self.parts.peers.present().into_iter();
        let is_heard = !self.registry.may_write_late(writer, None);
        present.find(|member| is_heard && member.writer == writer).map(|member| member.peer)
    }

    /// Returns the writers that may still write late, in words as far as their names are known.
    pub(crate) fn silent(&self) -> BTreeMap<WriterId, String> {
        let silent = self.registry.late_writers(&self.late_writers(), &self.present());
        let told = silent.into_iter().map(|(writer, name)| {
            let told = name.map_or_else(
                || format!("a peer that has left the site (writer {writer})"),
                |name| format!("peer `{name}`"),
            );
            (writer, told)
        });
        told.collect()
    }
}
