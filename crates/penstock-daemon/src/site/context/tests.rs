//! A site without processes, for tests, and its statements about itself.

use std::path::Path;

use penstock_cluster::state::SqliteState;
use penstock_net::trust::SiteAuthority;
use penstock_proto::id::PeerId;

use super::*;

const RAW: &str = "raw";

/// Makes host `h1` of site `hpc`, which keeps its state in this directory.
pub(crate) fn site(directory: &Path) -> Site {
    site_of(directory, "")
}

/// Returns the same host with more lines in its configuration.
pub(crate) fn site_of(directory: &Path, more: &str) -> Site {
    let text = format!("site = \"hpc\"\npeer = \"h1\"\n{more}");
    let config: Config = toml::from_str(&text).unwrap();
    let authority = SiteAuthority::create(config.site.clone()).unwrap();
    let peer = PeerId { site: config.site.clone(), peer: config.peer.clone() };
    let identity = authority.issue_peer(&peer).unwrap();
    let state = Arc::new(SqliteState::open(&directory.join("state.db")).unwrap());
    let listen = config.listen;
    let keys = OwnKeys::of(authority);
    Site::new(config, directory.to_owned(), keys, identity, state, listen).unwrap()
}

/// Makes a peer with so many network cards, and its card if it reaches the store.
fn peer(number: usize, cards: usize, has_store: bool) -> (Name, SiteAddresses, Vec<StoreCard>) {
    let name: Name = format!("h{number:02}").parse().unwrap();
    let data = (0..cards).map(|card| DataAddress {
        peer: name.clone(),
        address: format!("10.{card}.0.{number}:7444").parse().unwrap(),
        network: None,
        rate_bits_per_s: None,
    });
    let addresses = SiteAddresses { addresses: Vec::new(), data: data.collect() };
    let card = StoreCard {
        store: RAW.parse().unwrap(),
        identity: String::new(),
        mounts: String::new(),
        rights: StoreRights::default(),
        trouble: String::new(),
        mapped: false,
    };
    (name, addresses, if has_store { vec![card] } else { Vec::new() })
}

fn with_peers(site: &Site, peers: Vec<(Name, SiteAddresses, Vec<StoreCard>)>) {
    let far = peers.iter().map(|(name, _, stores)| (name.clone(), stores.clone()));
    *site.far.lock().unwrap() = far.collect();
    site.set_others(peers.into_iter().map(|(name, data, _)| (name, data)).collect());
}

/// Promise: a peer whose configuration does not map a store that others map is no source of it:
/// it would read as its daemon.
#[test]
fn a_peer_that_does_not_map_a_mapped_store_is_no_source() {
    let directory = tempfile::tempdir().unwrap();
    let site = site(directory.path());
    let text = "site = \"hpc\"\npeer = \"h1\"\n[[store]]\nname = \"raw\"\npath = \"/raw\"\n";
    site.exports.take(&toml::from_str(text).unwrap());
    let (name, addresses, mut cards) = peer(2, 1, true);
    let of = |site: &Site| -> Vec<Name> {
        let found = site.data_known_for(&RAW.parse().unwrap());
        found.into_iter().map(|data| data.peer).collect()
    };
    with_peers(&site, vec![(name.clone(), addresses.clone(), cards.clone())]);
    assert!(of(&site).contains(&name) && of(&site).contains(&site.config.peer));
    cards[0].mapped = true;
    with_peers(&site, vec![(name.clone(), addresses, cards)]);
    assert_eq!(of(&site), [name]);
}

/// Promise: a store that few peers reach is read from those, in any position among the others. No
/// peer of a store that many reach is left out, whatever other addresses are.
#[test]
fn a_store_is_read_from_all_who_have_it() {
    let directory = tempfile::tempdir().unwrap();
    let (site, raw) = (site(directory.path()), RAW.parse().unwrap());
    with_peers(&site, (2..40).map(|at| peer(at, 4, at >= 38)).collect());
    let of = |data: &[DataAddress]| {
        let mut peers: Vec<String> = data.iter().map(|data| data.peer.to_string()).collect();
        peers.dedup();
        peers
    };
    let found = site.data_for(&raw);
    assert_eq!((found.len(), of(&found)), (8, vec!["h38".to_owned(), "h39".to_owned()]));
    assert_eq!(site.left_out.load(Ordering::Relaxed), 0);
    with_peers(&site, (2..20).map(|at| peer(at, 4, true)).collect());
    let found = site.data_known_for(&raw);
    assert_eq!((found.len(), of(&found).len()), (ADDRESSES_MAX, 18));
    assert_eq!(site.left_out.load(Ordering::Relaxed), 18 * 4 - ADDRESSES_MAX);
}
