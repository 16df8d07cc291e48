//! Follows the addresses of this host: listens at those for data, and sends changes to paired
//! sites, so that no site has to pair again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::site::SiteAddresses;
use penstock_proto::id::Name;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::Sites;
use super::context::Site;
use crate::http::port::Port;

/// The interval at which interfaces are read.
const LOOK: Duration = Duration::from_secs(5);
/// The interval at which unchanged addresses are sent to a site again: it may have been away, or
/// may have lost its own.
const TELL: Duration = Duration::from_secs(600);
/// Wait after a failure before the addresses are sent to a site again; it doubles up to [`TELL`].
const RETRY: Duration = Duration::from_secs(10);

/// The state of the messages to a site.
struct Told {
    addresses: SiteAddresses,
    next: Instant,
    pause: Duration,
}

/// The listeners beside the general one, by address and interface.
#[derive(Default)]
struct Listeners {
    open: BTreeMap<(SocketAddr, Option<String>), JoinHandle<()>>,
    /// Addresses at which no listener could be made, which was reported once.
    failed: BTreeSet<SocketAddr>,
}

/// Listens at the addresses for data from now on, and informs other sites, until `stop` is true.
pub(crate) fn start(
    site: &Arc<Site>,
    sites: Arc<Sites>,
    port: &Port,
    stop: &watch::Receiver<bool>,
) {
    let mut listeners = Listeners::default();
    listen(site, port, stop, &mut listeners);
    let (site, port, mut stop) = (Arc::clone(site), port.clone(), stop.clone());
    tokio::spawn(async move {
        let mut told: BTreeMap<Name, Told> = BTreeMap::new();
        loop {
            tell(&site, &sites, &mut told).await;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = stop.changed() => return,
            }
            listen(&site, &port, &stop, &mut listeners);
        }
    });
}

/// Listens at new addresses, and no longer at removed ones.
fn listen(site: &Site, port: &Port, stop: &watch::Receiver<bool>, listeners: &mut Listeners) {
    let wanted = site.networks().listeners(site.listen);
    listeners.open.retain(|key, task| {
        let keep = wanted.contains(key);
        if !keep {
            tracing::info!(address = %key.0, "no longer listening: the address is gone");
            task.abort();
        }
        keep
    });
    for (address, device) in wanted {
        if listeners.open.contains_key(&(address, device.clone())) {
            continue;
        }
        let listener = penstock_net::listen(address, device.as_deref())
            .map_err(|error| format!("{error}: {}", error.source))
            .and_then(|listener| TcpListener::from_std(listener).map_err(|e| e.to_string()));
        match listener {
            Ok(listener) => {
                tracing::info!(%address, device, "listening");
                let task = tokio::spawn(port.clone().serve(listener, stop.clone()));
                listeners.failed.remove(&address);
                listeners.open.insert((address, device), task);
            }
            Err(error) if listeners.failed.insert(address) => {
                tracing::warn!(%address, device, error, "cannot listen; it is tried again");
            }
            Err(_) => {}
        }
    }
}

/// Tells each paired site where this one is reached, if that is due.
async fn tell(site: &Arc<Site>, sites: &Arc<Sites>, told: &mut BTreeMap<Name, Told>) {
    let own = site.addresses();
    let pairings = site.state().pairings().unwrap_or_default();
    site.expect_known(&pairings);
    let paired: Vec<Name> = pairings.into_iter().map(|pairing| pairing.site).collect();
    told.retain(|name, _| paired.contains(name));
    for name in paired {
        let now = Instant::now();
        let due = told.get(&name).is_none_or(|told| told.next <= now || told.addresses != own);
        if !due {
            continue;
        }
        let (asked, other) = (Arc::clone(sites), name.clone());
        let reply = tokio::task::spawn_blocking(move || asked.exchange_addresses(&other)).await;
        let pause = match reply {
            Ok(Ok(_)) => TELL,
            Ok(Err(problem)) => {
                tracing::debug!(site = %name, %problem, "cannot announce our addresses yet");
                let last = told.get(&name).map_or(RETRY, |told| told.pause * 2);
                last.clamp(RETRY, TELL)
            }
            Err(_) => TELL,
        };
        told.insert(name, Told { addresses: own.clone(), next: Instant::now() + pause, pause });
    }
}
