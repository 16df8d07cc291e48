//! The data plane of this host: its stores, its lanes, and the rights of the peers that dial them.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::fence::Fence;
use penstock_api::scan::SourcePeer;
use penstock_api::task::TargetPeer;
use penstock_net::SocketOptions;

use penstock_net::trust::{Purpose, TrustError, Vouched, client_config};
use penstock_peer::{
    LaneConfig, LaneRight, LaneVerifier, NoRight, SourceService, StoreKind, StoreSpec, Stores,
    TargetService, is_breach,
};
use penstock_proto::frame::{CipherSuite, Refusal, RefusalCode};
use penstock_proto::id::Name;
use penstock_proto::network::Role;

use crate::access::admission::RefusedKind;
use crate::config::{StoreAccount, StoreConfig};
use crate::http::port::LaneHandler;
use crate::site::context::Site;
use penstock_exit::{ExitCode, Failure};

/// The time that a peer has for the hello of a lane whose TLS handshake is done.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// The time after which a target may dial again that found no place for its lane.
const BUSY_MS: u32 = 5000;

/// The data plane of this host.
pub(crate) struct PeerParts {
    pub(crate) source: Arc<dyn SourcePeer>,
    pub(crate) target: Arc<dyn TargetPeer>,
    pub(crate) lane: LaneHandler,
    /// The service of `target`, for the state of paths.
    pub(crate) lanes_target: Arc<TargetService>,
    /// The service of `source`, for the lanes that it serves.
    pub(crate) lanes_source: Arc<SourceService>,
    /// Tells the source side whether this peer's controller may list data sets.
    pub(crate) set_fence: Arc<dyn Fn(Fence) + Send + Sync>,
}

/// Makes the data plane for a site's stores and keys; scans are kept below `journal`.
///
/// # Errors
/// The configuration of a store cannot be read.
pub(crate) fn peer(site: &Arc<Site>, journal: &Path) -> anyhow::Result<PeerParts> {
    penstock_sys::raise_file_limit();
    let stores = Arc::new(Stores::new(store_specs(&site.config.stores)?));
    let kept = Arc::clone(&stores);
    site.settings.on_reload(Box::new(move |config| {
        kept.replace(store_specs(&config.stores)?);
        Ok(())
    }));
    let source = Arc::new(SourceService::new(
        Arc::clone(&stores),
        &journal.join("source"),
        site.identity.peer().clone(),
        Some(verifier(site)),
    ));
    let own = Arc::clone(site);
    let target = TargetService::new(stores, Some(lane_config(site)), SocketOptions::default())
        .with_local_ends(Arc::new(move || own.networks().local_ends()));
    let target = Arc::new(target);
    let own = Arc::clone(site);
    let served = Arc::clone(&source);
    let lane: LaneHandler = Arc::new(move |tcp, connection, place| {
        let options = SocketOptions::default();
        let refusal = refusal_of(&own, &tcp);
        let from = tcp.peer_addr();
        match penstock_net::accept(tcp, connection, HELLO_DEADLINE, &options) {
            Ok(pending) => match (refusal, place) {
                (Some(refusal), _) => pending.refuse(refusal),
                (None, None) => pending.refuse(too_many_lanes()),
                (None, Some(place)) => {
                    let (peer, transfer) = (pending.peer().clone(), pending.hello().transfer);
                    let ended = match place.held_back() {
                        Some(refusal) => {
                            pending.refuse(refusal.clone());
                            Err(refusal)
                        }
                        None => served.serve(pending, place.memory()),
                    };
                    let refusal = match ended {
                        Ok(breach) => return breach.iter().for_each(|_| place.note_breach()),
                        Err(refusal) => refusal,
                    };
                    if let Ok(from) = from {
                        let why = format!("peer `{peer}`, transfer {transfer}: {refusal}");
                        own.admission.note_refused(from.ip(), RefusedKind::Lane, &why);
                    }
                }
            },
            Err(error) => {
                if let Some(place) = place.filter(|_| is_breach(&error)) {
                    place.note_breach();
                }
                tracing::info!(%error, "a lane did not open");
            }
        }
    });
    let fenced = Arc::clone(&source);
    let set_fence = Arc::new(move |fence| fenced.set_fence(fence));
    let (lanes_target, target) = (Arc::clone(&target), target as _);
    let (lanes_source, source) = (Arc::clone(&source), source as _);
    Ok(PeerParts { source, target, lane, lanes_target, lanes_source, set_fence })
}

fn too_many_lanes() -> Refusal {
    let text = "this peer has too many lanes of the site".to_owned();
    Refusal { code: RefusalCode::Busy, retry_after_ms: BUSY_MS, text }
}

/// Returns the reason to refuse a lane that arrived at an address which is not for data.
fn refusal_of(site: &Site, tcp: &TcpStream) -> Option<Refusal> {
    if site.settings.now().networks.is_empty() {
        return None;
    }
    let address = tcp.local_addr().ok()?.ip();
    let networks = site.networks();
    let (role, network) = match networks.role_of(address) {
        (Role::Data, _) => return None,
        other => other,
    };
    let network = network.map_or("no network".to_owned(), |name| format!("network `{name}`"));
    let role = role.as_str();
    let text = format!("{address} is on {network}, which is not for data (role {role})");
    tracing::info!(%text, "lane refused");
    // Another address may do: the target tries its other paths.
    Some(Refusal { code: RefusalCode::Busy, retry_after_ms: 0, text })
}

fn store_specs(stores: &[StoreConfig]) -> anyhow::Result<Vec<StoreSpec>> {
    stores.iter().map(store_spec).collect()
}

/// Returns a configured store in the terms of the peer crate.
///
/// # Errors
/// The path is neither a directory nor one of the special stores.
fn store_spec(store: &StoreConfig) -> anyhow::Result<StoreSpec> {
    let kind = match store.path.as_str() {
        "null:" => StoreKind::Null,
        text if text.starts_with("mem:") => StoreKind::Mem(text.parse().map_err(|error| {
            let message = format!("store `{}`: cannot read `{text}`", store.name);
            Failure::new(ExitCode::Usage, message).caused_by(error)
        })?),
        path => StoreKind::Posix(PathBuf::from(path)),
    };
    Ok(StoreSpec {
        name: store.name.clone(),
        kind,
        read_only: store.read_only,
        ephemeral: false,
        allow_privileged: store.allow_privileged,
        io: store.io.into(),
        mapped: store.account == StoreAccount::Mapped,
    })
}

/// Checks capabilities with this site's own key, as this site issued them (C4). The site that shows
/// one must still be paired by the authority that vouched for it, and allowed to read the store:
/// pairings end, and configurations change.
fn verifier(site: &Arc<Site>) -> LaneVerifier {
    let site = Arc::clone(site);
    Arc::new(move |certificates, bytes| {
        let now = u64::try_from(penstock_sys::wall_clock_now().seconds).unwrap_or(0);
        let vouched = site.trust.vouched(certificates)?;
        let capability = site.verify_capability(bytes, now)?;
        let (site, store) = (Arc::clone(&site), capability.store.clone());
        let may_be_clear = site.exports.may_be_clear(&store);
        let holds = move || may_read_on(&site, &vouched, &store);
        holds()?;
        Ok(LaneRight { capability, holds: Box::new(holds), may_be_clear })
    })
}

/// Checks that a peer may still read a store over lanes.
fn may_read_on(site: &Site, vouched: &Vouched, store: &Name) -> Result<(), NoRight> {
    let target = &vouched.peer.site;
    if !site.trust.vouches(vouched) {
        return Err(NoRight::Unpaired(target.clone()));
    }
    // The controller may grant other peers of its own site any capability.
    if *target != site.config.site && !site.exports.may_read(target, store) {
        return Err(NoRight::NotExported { site: target.clone(), store: store.clone() });
    }
    Ok(())
}

/// Makes the TLS configuration for lanes to a paired site. A suite that a transfer asks for has to
/// be one of those that this site allows.
fn lane_config(site: &Arc<Site>) -> LaneConfig {
    let site = Arc::clone(site);
    Arc::new(move |name: &Name, suite: Option<CipherSuite>| {
        let expected = Some(name.clone());
        let suites = match &suite {
            Some(suite) if !site.suites.contains(suite) => {
                return Err(TrustError::SuiteNotAllowed(*suite));
            }
            Some(suite) => slice::from_ref(suite),
            None => &site.suites,
        };
        client_config(Purpose::Lane, &site.identity, &site.trust, expected, suites)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::keys::OwnKeys;
    use crate::config::Config;
    use penstock_cluster::state::{Pairing, SqliteState};
    use penstock_net::trust::SiteAuthority;
    use penstock_proto::capability::Capability;
    use penstock_proto::id::{PeerId, TransferId};

    /// Makes a site `lab` with a store `raw` for `hpc`, and one `own` for no other site, paired
    /// with `hpc`.
    fn lab(directory: &std::path::Path) -> (Arc<Site>, SiteAuthority) {
        let text = r#"
            site = "lab"
            peer = "dtn1"
            [[store]]
            name = "raw"
            path = "null:"
            read = ["hpc"]
            [[store]]
            name = "own"
            path = "null:"
            read = []
        "#;
        let config: Config = toml::from_str(text).unwrap();
        let authority = SiteAuthority::create(config.site.clone()).unwrap();
        let peer = PeerId { site: config.site.clone(), peer: config.peer.clone() };
        let identity = authority.issue_peer(&peer).unwrap();
        let state = Arc::new(SqliteState::open(&directory.join("state.db")).unwrap());
        let listen = config.listen;
        let directory = directory.to_owned();
        let keys = OwnKeys::of(authority);
        let site = Site::new(config, directory, keys, identity, state, listen).unwrap();
        let other = SiteAuthority::create("hpc".parse().unwrap()).unwrap();
        let pairing = Pairing {
            site: "hpc".parse().unwrap(),
            ca: other.certificate().to_vec(),
            capability_key: Vec::new(),
            addresses: Vec::new(),
            paired: 1,
            keys: 0,
            revoked: Vec::new(),
            told: 0,
        };
        site.pair(&pairing).unwrap();
        (Arc::new(site), other)
    }

    /// C4: an issued capability is void once its owner may no longer read the store, or is no
    /// longer paired.
    #[test]
    fn c4_a_capability_ends_with_what_it_was_issued_for() {
        let directory = tempfile::tempdir().unwrap();
        let (site, hpc) = lab(directory.path());
        let peer = PeerId { site: "hpc".parse().unwrap(), peer: "h1".parse().unwrap() };
        let certificates = hpc.issue_peer(&peer).unwrap().chain();
        let verify = verifier(&site);
        let shown = |store: &str| {
            let capability = Capability {
                transfer: TransferId([1; 16]),
                source: "lab".parse().unwrap(),
                target: "hpc".parse().unwrap(),
                store: store.parse().unwrap(),
                root: Vec::new(),
                remove: false,
                expires: u64::MAX,
            };
            verify(&certificates, &site.keys().authority.capability_key().sign(&capability))
        };
        let why = |store: &str| shown(store).err().unwrap().to_string();
        let standing = shown("raw").unwrap_or_else(|why| panic!("{why}"));
        (standing.holds)().unwrap();
        assert!(why("own").contains("may no longer read"));
        site.trust.unpin(&peer.site);
        assert!(why("raw").contains("not paired"));
        assert!(matches!((standing.holds)(), Err(NoRight::Unpaired(_))));
        let anew = SiteAuthority::create(peer.site.clone()).unwrap();
        site.trust.pin(anew.certificate().clone()).unwrap();
        assert!((standing.holds)().is_err(), "the old keys are not the new site");
        assert!(why("raw").contains("authority"), "{}", why("raw"));
    }
}
