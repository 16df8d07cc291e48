//! The peers of a site that write, as its controller drives them.

use std::sync::Arc;

use penstock_api::peers::OnePeer;
use penstock_api::task::TargetPeer;
use penstock_controller::manager::PeersOf;
use penstock_proto::id::Name;

/// The site's target side, as its controller drives it.
pub(crate) struct TargetSide {
    /// The peer that works for all.
    pub(crate) target: Arc<dyn TargetPeer>,
    /// The peers that take part in a run.
    pub(crate) peers: Arc<PeersOf>,
}

impl TargetSide {
    /// Returns the target side of a site of one peer.
    pub(crate) fn own(target: &Arc<dyn TargetPeer>) -> Self {
        let only = Arc::clone(target);
        let peers =
            Arc::new(move |_: &Name, _: Option<&Name>| Arc::new(OnePeer(Arc::clone(&only))) as _);
        Self { target: Arc::clone(target), peers }
    }
}
