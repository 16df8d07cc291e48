//! Looks at the transfers for which this peer works: as a source, as a target, as the controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_api::transfer::{PeerShare, Progress};
use penstock_peer::{SourceService, TargetService, TransferTraffic};
use penstock_proto::id::TransferId;

use crate::cluster::member::Member;

/// The parts of this peer that work for transfers.
pub(crate) struct Work {
    pub(crate) source: Arc<SourceService>,
    pub(crate) target: Arc<TargetService>,
    pub(crate) member: Arc<Member>,
}

/// Counters of one transfer at this peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WorkCounters {
    /// Bytes of payload that lanes have sent.
    pub(super) sent_bytes: u64,
    /// Bytes of payload that the task has verified.
    pub(super) verified_bytes: u64,
    /// Lanes that are open.
    pub(super) lanes: u64,
    /// Cipher of the lanes, if it is known.
    pub(super) cipher: Option<&'static str>,
    /// True if a lane or a task of this peer moves its payload.
    pub(super) moves: bool,
    /// Counters of the whole transfer, at its controller.
    pub(super) whole: Option<WholeCounters>,
}

/// Counters of a whole transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WholeCounters {
    /// Bytes of payload that all peers have verified.
    pub(super) bytes: u64,
    /// Files that are complete.
    pub(super) files: u64,
    /// True if earlier runs left something, so that files do not begin at none.
    pub(super) is_resumed: bool,
    /// True at a site of one peer.
    pub(super) is_alone: bool,
    /// Lanes of all peers.
    pub(super) lanes: u32,
    /// Target peers that work.
    pub(super) peers: u32,
}

/// The result of a look at the transfers.
#[derive(Debug, Default)]
pub(super) struct WorkLook {
    /// Transfers for which this peer works now.
    pub(super) working: BTreeMap<TransferId, WorkCounters>,
    /// Last counters of transfers that this peer led at the look before, and no longer leads.
    pub(super) ended: BTreeMap<TransferId, WholeCounters>,
}

impl Work {
    /// Returns the counters of all transfers for which this peer works now, and the last ones of
    /// those of `led` that have ended. Waits for the table of the controller, which is held while a
    /// record is stored.
    pub(super) fn look(&self, led: &[TransferId]) -> WorkLook {
        let mut look = WorkLook::default();
        for traffic in self.source.transfers() {
            let counters = look.working.entry(traffic.transfer).or_default();
            counters.sent_bytes = traffic.bytes;
            counters.add_lanes(&traffic);
        }
        for traffic in self.target.transfers() {
            let counters = look.working.entry(traffic.transfer).or_default();
            counters.verified_bytes += traffic.bytes;
            counters.add_lanes(&traffic);
        }
        let Some(controller) = self.member.controller() else { return look };
        for running in controller.manager.running() {
            let counters = look.working.entry(running.id).or_default();
            counters.whole = Some(WholeCounters::of(&running.progress));
        }
        let is_led = |id: &TransferId| look.working.get(id).is_some_and(|it| it.whole.is_some());
        for id in led.iter().filter(|id| !is_led(id)) {
            let progress = controller.manager.last_progress(*id);
            look.ended.extend(progress.map(|progress| (*id, WholeCounters::of(&progress))));
        }
        look
    }
}

impl WorkCounters {
    fn add_lanes(&mut self, traffic: &TransferTraffic) {
        self.lanes += traffic.lanes;
        self.cipher = self.cipher.or(traffic.cipher);
        self.moves = true;
    }
}

impl WholeCounters {
    fn of(progress: &Progress) -> Self {
        let works = |peer: &&PeerShare| ["working", "draining"].contains(&peer.state.as_str());
        let peers = match progress.peers.is_empty() {
            // A site of one peer has no list of them.
            true => 1,
            false => progress.peers.iter().filter(works).count(),
        };
        Self {
            bytes: progress.bytes_verified,
            files: progress.files,
            is_resumed: progress.bytes_resumed > 0,
            is_alone: progress.peers.is_empty(),
            lanes: progress.lanes,
            peers: peers as u32,
        }
    }
}
