//! Abandoned peers that have been silent since: they may still write (B1).
//!
//! When all else is done, those with a live process are called back at once, however long they were
//! to be left alone. A store that hung usually answers all its peers again within a moment. A peer
//! that joins again writes nothing late any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::peers::Member;
use penstock_api::task::TargetPeer;
use penstock_proto::id::WriterId;

use super::{COMING_MAX, Tasks};

/// Interval of the calls, and the longest time that a run that is done waits for the peers.
const CALL_INTERVAL: Duration = Duration::from_millis(500);
const CALL_MAX: Duration = Duration::from_secs(5);
/// The longest wait then for a peer that is about to begin.
const CALL_LEAVE: Duration = Duration::from_secs(1);

/// The peers that were heard of in a run, and the peers that were lost.
#[derive(Default)]
pub(super) struct Silence {
    /// Peers that have joined and were not lost since: their earlier work is over.
    heard: BTreeSet<WriterId>,
    /// Name and process of the peers that were lost last.
    lost: BTreeMap<WriterId, (String, u64)>,
    /// Time of the first call.
    called: Option<Instant>,
}

impl Silence {
    /// Records that a task of the peer has begun, which ends its earlier work.
    pub(super) fn handle_joined(&mut self, member: &Member) {
        self.heard.insert(member.writer);
        self.lost.remove(&member.writer);
    }

    /// Records that the peer's activity is unknown.
    pub(super) fn handle_lost(&mut self, member: &Member) {
        self.heard.remove(&member.writer);
        self.lost.insert(member.writer, (member.name.clone(), member.instance));
    }
}

impl Tasks {
    /// Calls back those of `writers` that may still write and have a live process. Returns whether
    /// the end of the run waits for one. Never blocks.
    pub(crate) fn call_back(&mut self, writers: &BTreeSet<WriterId>) -> bool {
        let is_silent = |member: &Member| {
            let silence = &self.silence;
            let other = |(_, process): &(String, u64)| *process != member.instance;
            let never = self.away.get(&member.writer).is_some_and(|away| away.until.is_none());
            let ended = silence.heard.contains(&member.writer)
                || silence.lost.get(&member.writer).is_some_and(other);
            writers.contains(&member.writer) && !ended && !never && !member.is_draining
        };
        let present = self.parts.peers.present().into_iter();
        let silent: Vec<WriterId> = present.filter(is_silent).map(|member| member.writer).collect();
        // If the limits have no room for the peer, it cannot join.
        if silent.is_empty() || self.taking() >= self.shares.peers_max() {
            return false;
        }
        let now = Instant::now();
        if now.duration_since(*self.silence.called.get_or_insert(now)) >= CALL_MAX {
            return false;
        }
        for writer in silent {
            if let Some(until) = self.away.get_mut(&writer).and_then(|away| away.until.as_mut()) {
                *until = (*until).min(now + CALL_INTERVAL);
            }
        }
        true
    }

    /// Returns how long the end of the run waits for peers that are about to begin. The wait is
    /// short for peers that were called back.
    pub(super) fn coming_max(&self) -> Duration {
        if self.silence.called.is_some() { CALL_LEAVE } else { COMING_MAX }
    }

    /// Marks a peer as silent because it does not answer: its late writes are unknown.
    pub(crate) fn unhear(&mut self, writer: WriterId) {
        self.silence.heard.remove(&writer);
    }

    /// Returns the peer of `writer`, if its late writes are over. Its own client knows of these
    /// before others do.
    pub(crate) fn heard(&self, writer: WriterId) -> Option<Arc<dyn TargetPeer>> {
        let mut present = self.parts.peers.present().into_iter();
        let known = self.silence.heard.contains(&writer);
        present.find(|member| known && member.writer == writer).map(|member| member.peer)
    }

    /// Returns those of `writers` that may still write, in words as far as their names are known. A
    /// peer that runs in another process than the one that was lost writes no more.
    pub(crate) fn silent(&self, writers: BTreeSet<WriterId>) -> BTreeMap<WriterId, String> {
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
