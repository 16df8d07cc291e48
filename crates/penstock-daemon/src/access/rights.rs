//! Ends lanes whose rights have ended: with a pairing, by time, or by a change of the right to
//! read.

use std::sync::Arc;
use std::time::Duration;

use penstock_peer::{SourceService, TargetService};
use tokio::sync::watch;

use crate::site::context::Site;

/// The interval at which rights are checked that end without any event, as by time.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at the lanes of this peer whenever a pairing changes, and every second, until `stop` is
/// true.
pub(crate) async fn watch(
    site: Arc<Site>,
    (source, target): (Arc<SourceService>, Arc<TargetService>),
    mut stop: watch::Receiver<bool>,
) {
    let mut news = site.trust_news();
    let mut known = site.trust.endings();
    loop {
        tokio::select! {
            _ = news.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.changed() => return,
        }
        source.end_void_lanes();
        target.end_void_lanes();
        // The present list of sites does not show a pairing that began and ended between two looks.
        let now = site.trust.endings();
        for (other, _) in now.iter().filter(|(site, count)| known.get(*site) != Some(*count)) {
            target.end_lanes_from(other);
        }
        known = now;
    }
}
