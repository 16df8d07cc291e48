//! Peers that may write late (B1).
//!
//! When all else is done, those with a live process are called back at once, however long they were
//! to be left alone. A store that hung usually answers all its peers again within a moment. A peer
//! that joins again can no longer write late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use penstock_proto::id::WriterId;
use penstock_proto::units::Instant;

use super::peer::{PresentPeer, Writes};
use super::registry::WriterRegistry;

/// The longest wait of a call for the peers that were called back.
pub const CALL_MAX: Duration = Duration::from_secs(5);
/// The longest time after a call until the peer is tried again.
const CALL_INTERVAL: Duration = Duration::from_millis(500);

impl<R> WriterRegistry<R> {
    /// Calls back those of `writers` that may write late and have a live process. Returns whether
    /// the end of the run waits for one of them: [`CALL_MAX`] at the longest, from the first call.
    pub fn poll_calls(
        &mut self,
        writers: &BTreeSet<WriterId>,
        present: &[PresentPeer],
        peers_max: usize,
        now: Instant,
    ) -> bool {
        let is_silent = |seen: &&PresentPeer| {
            let never = self.retry_of(seen.writer).is_some_and(|retry| retry.until.is_none());
            writers.contains(&seen.writer)
                && self.may_write_late(seen.writer, Some(seen.process))
                && !never
                && !seen.is_draining
        };
        let silent: Vec<WriterId> =
            present.iter().filter(is_silent).map(|seen| seen.writer).collect();
        // If the limits have no room for the peer, it cannot join.
        if silent.is_empty() || self.taking() >= peers_max {
            return false;
        }
        if now.since(*self.called.get_or_insert(now)) >= CALL_MAX {
            return false;
        }
        for writer in silent {
            let retry = self.peers.get_mut(&writer).and_then(|peer| peer.retry.as_mut());
            if let Some(until) = retry.and_then(|retry| retry.until.as_mut()) {
                *until = (*until).min(now.plus(CALL_INTERVAL));
            }
        }
        true
    }

    /// Returns whether peers that may write late were called back.
    pub fn has_called(&self) -> bool {
        self.called.is_some()
    }

    /// Returns whether a writer may still complete a call of work that it no longer has. `process`
    /// is its process of now, if it is present: another one than the process that was lost writes
    /// nothing of that.
    pub fn may_write_late(&self, writer: WriterId, process: Option<u64>) -> bool {
        let writes = self.writes(writer);
        let is_other = match (writes.lost_process(), process) {
            (Some(lost), Some(now)) => lost != now,
            _ => false,
        };
        !writes.is_heard() && !is_other
    }

    /// Returns those of `writers` that may write late, with their names as far as these are known.
    pub fn late_writers(
        &self,
        writers: &BTreeSet<WriterId>,
        present: &[PresentPeer],
    ) -> BTreeMap<WriterId, Option<String>> {
        let late = writers.iter().filter_map(|writer| {
            let here = present.iter().find(|seen| seen.writer == *writer);
            if !self.may_write_late(*writer, here.map(|seen| seen.process)) {
                return None;
            }
            let known = self.peers.get(writer).and_then(|peer| peer.name.clone());
            Some((*writer, known.or_else(|| here.map(|seen| seen.name.clone()))))
        });
        late.collect()
    }

    /// Handles a peer that does not report whether its late writes are over: it may write late.
    pub fn handle_silent(&mut self, writer: WriterId) {
        let peer = self.peers.entry(writer).or_default();
        debug_assert_ne!(peer.writes, Writes::Active, "{writer} takes part");
        peer.writes = match peer.writes {
            Writes::Ended => Writes::Settled,
            Writes::Unended => Writes::Unknown,
            writes => writes,
        };
        self.check();
    }
}
