//! The ways to a source: its store on this host, or lanes.

use std::sync::Arc;

use penstock_proto::id::Name;
use penstock_store::Source;

use crate::lane::dialer::Dialer;
use crate::stores::guard::Guard;

/// The ways in which lanes reach a source.
pub(crate) enum Reach {
    /// This host reads the source's store itself. Only a benchmark, whose bytes are dropped, reads
    /// without digests.
    Local { source: Source, root: Vec<u8>, guard: Box<Guard>, digests: bool },
    /// Over lanes.
    Remote { dialer: Arc<Dialer> },
}

impl Reach {
    /// Returns the site that lanes lead to; `None` for a store of this host.
    pub(crate) fn site(&self) -> Option<&Name> {
        match self {
            Self::Local { .. } => None,
            Self::Remote { dialer } => Some(&dialer.site),
        }
    }
}
