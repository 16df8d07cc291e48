//! Peers that were given up, and of which nothing has been heard since: they may still write (B1).

use std::collections::{BTreeMap, BTreeSet};

use penstock_api::peers::Member;
use penstock_proto::id::WriterId;

use super::Tasks;

/// Who was heard of in a run, and who was lost.
#[derive(Default)]
pub(super) struct Silence {
    /// Those that have joined and were not lost since: what they did before is over.
    heard: BTreeSet<WriterId>,
    /// Name and process of those that were lost last.
    lost: BTreeMap<WriterId, (String, u64)>,
}

impl Silence {
    /// A task of it has begun, which ends what it did before.
    pub(super) fn handle_joined(&mut self, member: &Member) {
        self.heard.insert(member.writer);
        self.lost.remove(&member.writer);
    }

    /// Nobody knows what it still does.
    pub(super) fn handle_lost(&mut self, member: &Member) {
        self.heard.remove(&member.writer);
        self.lost.insert(member.writer, (member.name.clone(), member.instance));
    }
}

impl Tasks {
    /// Those of `writers` that may still write: in words, as far as their names are known. Who runs
    /// in another process than the one that was lost does not.
    pub(in crate::runner) fn silent(
        &self,
        writers: BTreeSet<WriterId>,
    ) -> BTreeMap<WriterId, String> {
        let present = self.parts.peers.present();
        let silent = writers.into_iter().filter(|writer| !self.silence.heard.contains(writer));
        let told = silent.filter_map(|writer| {
            let here = present.iter().find(|member| member.writer == writer);
            let name = match (self.silence.lost.get(&writer), here) {
                (Some((_, process)), Some(member)) if member.instance != *process => return None,
                (Some((name, _)), _) => format!("peer `{name}`"),
                (None, Some(member)) => format!("peer `{}`", member.name),
                (None, None) => format!("a peer that has left the site (writer {writer})"),
            };
            Some((writer, name))
        });
        told.collect()
    }
}
