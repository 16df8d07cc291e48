//! Ends lanes whose rights have ended: with a pairing, by time, or by a change of what may be read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use penstock_net::trust::Fingerprint;
use penstock_peer::{SourceService, TargetService};
use penstock_proto::id::Name;
use tokio::sync::watch;

use crate::site::context::Site;

/// How often rights are looked at that end without any event, as by time.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at the lanes of this peer whenever a pairing changes, and every second, until `stop` says
/// so.
pub(crate) async fn watch(
    site: Arc<Site>,
    (source, target): (Arc<SourceService>, Arc<TargetService>),
    mut stop: watch::Receiver<bool>,
) {
    let mut news = site.trust_news();
    let mut known: BTreeMap<Name, Fingerprint> = site.trust.sites().into_iter().collect();
    loop {
        tokio::select! {
            _ = news.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.changed() => return,
        }
        source.end_void_lanes();
        target.end_void_lanes();
        let now: BTreeMap<Name, Fingerprint> = site.trust.sites().into_iter().collect();
        for (other, _) in known.iter().filter(|(site, before)| now.get(*site) != Some(*before)) {
            target.end_lanes_from(other);
        }
        known = now;
    }
}
