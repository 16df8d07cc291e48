//! The tasks that peers are asked to start.
//!
//! All peers of a run get one task. Three things differ: the identity under which a peer writes,
//! the epoch of its last sync in the ledger, and its grant. The controller's own peer has no grant:
//! it stops with the controller (B4).

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_api::peers::Member;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{SourceAccess, TaskSpec, TaskStart};
use penstock_proto::id::WriterId;
use penstock_proto::network::DataAddress;

/// Marker of a store that has none, as nothing is synced there.
const NO_MARKER: u64 = u64::MAX;

/// The task of a run, and how it differs from peer to peer.
#[derive(Clone, Debug)]
pub(crate) struct TaskSpecs {
    /// The task for every peer; its writer, epoch and grant are not set.
    common: TaskSpec,
    /// The epoch of each writer in the heads.
    epochs: BTreeMap<WriterId, u64>,
    /// Duration of a grant; `None` where one peer is the whole site.
    grant: Option<Duration>,
}

impl TaskSpecs {
    pub(crate) fn new(
        common: TaskSpec,
        epochs: BTreeMap<WriterId, u64>,
        grant: Option<Duration>,
    ) -> Self {
        Self { common, epochs, grant }
    }

    /// Returns the task for one peer.
    pub(crate) fn of(&self, member: &Member) -> TaskSpec {
        TaskSpec {
            writer: member.writer,
            epoch: self.epoch(member.writer).unwrap_or(0),
            grant: self.grant_of(member),
            ..self.common.clone()
        }
    }

    /// Returns the part of the task that is the same for every peer.
    pub(super) fn common(&self) -> &TaskSpec {
        &self.common
    }

    /// Returns the duration of a grant; `None` where one peer is the whole site.
    pub(super) fn grant(&self) -> Option<Duration> {
        self.grant
    }

    /// Returns the duration of the grants of a peer, which the controller's own peer does not need.
    pub(super) fn grant_of(&self, member: &Member) -> Option<Duration> {
        self.grant.filter(|_| !member.is_own)
    }

    /// Returns the epoch of a writer in the heads, if these name it.
    pub(super) fn epoch(&self, writer: WriterId) -> Option<u64> {
        self.epochs.get(&writer).copied()
    }

    /// Returns the epoch from which a peer that has started counts its syncs: neither the ledger
    /// nor the marker of its store has a later one.
    pub(super) fn epoch_at_start(&self, writer: WriterId, start: &TaskStart) -> u64 {
        let marker = if start.marker == NO_MARKER { 0 } else { start.marker };
        self.epoch(writer).unwrap_or(0).max(marker)
    }

    /// Returns the writers that the heads name.
    pub(super) fn writers(&self) -> impl Iterator<Item = WriterId> + '_ {
        self.epochs.keys().copied()
    }

    /// Handles epochs that were committed.
    pub(super) fn handle_committed(&mut self, epochs: &[(WriterId, u64)]) {
        self.epochs.extend(epochs.iter().copied());
    }

    /// Handles the end of the doubt about the store: all that the ledger knows was looked at again.
    pub(super) fn handle_doubt_over(&mut self) {
        self.common.doubt = false;
    }

    /// Handles addresses of the source's peers. Returns whether tasks use such addresses.
    pub(super) fn handle_source_peers(&mut self, found: &[DataAddress]) -> bool {
        let SourceAccess::Remote { peers, .. } = &mut self.common.source else { return false };
        found.clone_into(peers);
        true
    }
}

/// Checks that the store which a peer has found is the one of the run.
///
/// # Errors
/// The store is older than the ledger, or another file system is mounted in it there. Both may
/// pass.
pub(super) fn check_store(spec: &TaskSpec, start: &TaskStart) -> Result<(), Problem> {
    let offline = |title: &str| Err(Problem::new(ProblemCode::StoreOffline, title));
    if start.marker < spec.epoch && !spec.doubt {
        return offline("the store is older at that peer than the ledger");
    }
    if start.mounts != spec.mounts {
        // A missing mount is an error that the peer itself reports.
        return offline("that peer has more file systems mounted in the target than other peers");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use penstock_api::place::PathText;
    use penstock_api::task::MountSeen;
    use penstock_proto::id::TransferId;

    use super::super::tests::member;
    use super::*;

    const GRANT: Duration = Duration::from_secs(60);

    fn common() -> TaskSpec {
        let store = "data".parse().unwrap();
        TaskSpec::of_cleaning(TransferId([7; 16]), store, PathText::default())
    }

    fn start(marker: u64) -> TaskStart {
        TaskStart { store: 1, marker, durable_by: String::new(), mounts: Vec::new() }
    }

    /// Promise: each peer writes as itself from its last sync on; the controller's own peer has no
    /// grant, as its right ends with the controller (B4).
    #[test]
    fn b4_the_own_peer_has_no_grant() {
        let epochs = BTreeMap::from([(WriterId(8), 3)]);
        let mut specs = TaskSpecs::new(common(), epochs, Some(GRANT));
        let (mut own, other) = (member(7), member(8));
        own.is_own = true;
        let (for_own, for_other) = (specs.of(&own), specs.of(&other));
        assert_eq!((for_own.writer, for_own.epoch, for_own.grant), (WriterId(7), 0, None));
        assert_eq!((for_other.writer, for_other.epoch), (WriterId(8), 3));
        assert_eq!(for_other.grant, Some(GRANT));
        specs.handle_committed(&[(WriterId(7), 1), (WriterId(8), 4)]);
        assert_eq!((specs.of(&own).epoch, specs.of(&other).epoch), (1, 4));
        assert_eq!(specs.writers().collect::<Vec<_>>(), [WriterId(7), WriterId(8)]);
    }

    /// Promise: no epoch is used twice, neither one that the ledger has nor one that only the store
    /// has; a store without markers proves nothing (A5).
    #[test]
    fn a5_a_peer_counts_on_from_the_later_of_ledger_and_store() {
        let specs = TaskSpecs::new(common(), BTreeMap::from([(WriterId(8), 3)]), Some(GRANT));
        let at = |writer, marker| specs.epoch_at_start(WriterId(writer), &start(marker));
        assert_eq!([at(8, 2), at(8, 5), at(8, NO_MARKER)], [3, 5, 3]);
        assert_eq!([at(9, 2), at(9, NO_MARKER)], [2, 0]);
    }

    /// Promise: a peer that sees another state of the store than the run takes no part. If the
    /// store itself went back, all of it is in doubt and is checked again (A5).
    #[test]
    fn a5_a_peer_with_another_store_takes_no_part() {
        let spec = TaskSpec { epoch: 3, ..common() };
        assert!(check_store(&spec, &start(3)).is_ok() && check_store(&spec, &start(2)).is_err());
        assert!(check_store(&TaskSpec { doubt: true, ..spec.clone() }, &start(2)).is_ok());
        let seen = MountSeen { at: PathText::default(), kind: "xfs".to_owned() };
        let more = TaskStart { mounts: vec![seen], ..start(3) };
        let refused = check_store(&spec, &more).unwrap_err();
        assert_eq!(refused.code, ProblemCode::StoreOffline);
    }
}
