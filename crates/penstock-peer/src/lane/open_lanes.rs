//! Open lanes, so that each of them ends with the right under which it was opened.
//!
//! A lane is checked when it opens, and may then be open for days. Its own thread may block for
//! long in a send that the other end does not read. Another thread therefore checks the right and
//! cuts the connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_net::LaneCloser;
use penstock_net::trust::{CapabilityError, TrustError};
use penstock_proto::id::Name;

/// The reason why a peer has no right to a lane, or no longer has it.
#[derive(Debug, thiserror::Error)]
pub enum NoRight {
    /// No authority that is trusted vouches for the peer.
    #[error(transparent)]
    Certificate(#[from] TrustError),
    /// The capability is invalid, or has expired.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// The site of the peer was unpaired.
    #[error("site `{0}` is no longer paired")]
    Unpaired(Name),
    /// The configuration no longer lets the site read the store.
    #[error("site `{site}` may no longer read from store `{store}`")]
    NotExported {
        /// The site.
        site: Name,
        /// The store.
        store: Name,
    },
}

/// Checks that a right holds. Does not block.
pub type RightHolds = Box<dyn Fn() -> Result<(), NoRight> + Send + Sync>;

/// The open lanes of one end.
#[derive(Default)]
pub(crate) struct OpenLanes(Mutex<Lanes>);

#[derive(Default)]
struct Lanes {
    next: u64,
    open: BTreeMap<u64, (LaneCloser, RightHolds)>,
}

impl OpenLanes {
    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches over a lane until the value that is returned is dropped. A right that has ended
    /// meanwhile ends the lane at the next look.
    pub(crate) fn enter(&self, closer: LaneCloser, holds: RightHolds) -> OpenLane<'_> {
        let mut lanes = self.lock();
        let number = lanes.next;
        lanes.next += 1;
        lanes.open.insert(number, (closer, holds));
        OpenLane { all: self, number }
    }

    /// Cuts the lanes whose rights have ended.
    pub(crate) fn end_void(&self) {
        self.lock().open.retain(|_, (closer, holds)| match holds() {
            Ok(()) => true,
            Err(why) => {
                tracing::info!(%why, "a lane is cut: its right has ended");
                closer.shutdown();
                false
            }
        });
    }
}

/// Counts how often the pairing with each site has ended.
#[derive(Default)]
pub(crate) struct PairingEndings(Mutex<BTreeMap<Name, u64>>);

impl PairingEndings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the pairing with a site has ended.
    pub(crate) fn note(&self, site: &Name) {
        *self.lock().entry(site.clone()).or_default() += 1;
    }

    /// Returns the right to lanes of a site, which ends with the present pairing.
    pub(crate) fn right(self: &Arc<Self>, site: &Name) -> RightHolds {
        let (endings, site) = (Arc::clone(self), site.clone());
        let then = endings.of(&site);
        Box::new(move || match endings.of(&site) == then {
            true => Ok(()),
            false => Err(NoRight::Unpaired(site.clone())),
        })
    }

    fn of(&self, site: &Name) -> u64 {
        self.lock().get(site).copied().unwrap_or_default()
    }
}

/// An open lane, for as long as it is kept.
pub(crate) struct OpenLane<'a> {
    all: &'a OpenLanes,
    number: u64,
}

impl Drop for OpenLane<'_> {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.number);
    }
}
