//! Networks: their purposes, and the addresses of peers for data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::Name;

/// Most data addresses of one site that another site accepts.
pub const ADDRESSES_MAX: usize = 64;

/// Purpose of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Lanes, and requests between sites.
    #[default]
    Data,
    /// Requests between sites; no lanes.
    Control,
    /// Neither lanes nor requests.
    Never,
}

impl Role {
    /// Returns its word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Control => "control",
            Self::Never => "never",
        }
    }
}

/// An address at which a peer takes lanes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DataAddress {
    /// The peer.
    pub peer: Name,
    /// Address at which it listens.
    pub address: SocketAddr,
    /// The network of that address, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Name>,
    /// Rate of the interface, if its operator has configured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_s: Option<u64>,
}

/// Returns at most [`ADDRESSES_MAX`] of the addresses, in their order. Addresses of peers with the
/// most addresses are dropped first: the second ones on one network, then the last ones.
#[must_use]
pub fn bounded(addresses: Vec<DataAddress>) -> Vec<DataAddress> {
    if addresses.len() <= ADDRESSES_MAX {
        return addresses;
    }
    let mut on_network = BTreeMap::<_, usize>::new();
    let mut of_peer = BTreeMap::<_, usize>::new();
    let mut count = |address: &DataAddress| {
        let DataAddress { peer, network, .. } = address;
        let second = network.as_ref().map_or(0, |network| {
            let known = on_network.entry((peer.clone(), network.clone())).or_default();
            *known += 1;
            *known - 1
        });
        let nth = of_peer.entry((peer.clone(), second)).or_default();
        *nth += 1;
        (second, *nth)
    };
    let mut ordered: Vec<_> = addresses.iter().map(&mut count).enumerate().collect();
    ordered.sort_by_key(|(at, ordinal)| (*ordinal, *at));
    ordered.truncate(ADDRESSES_MAX);
    let mut chosen: Vec<usize> = ordered.into_iter().map(|(at, _)| at).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|at| addresses[at].clone()).collect()
}

/// Returns the addresses of at most so many peers, or of all peers without a limit. Peers with an
/// address on one of the networks come first, then those with the first names.
#[must_use]
pub fn of_first_peers(
    addresses: Vec<DataAddress>,
    peers_max: Option<u32>,
    networks: &[Name],
) -> Vec<DataAddress> {
    let Some(peers_max) = peers_max else { return addresses };
    let is_on = |address: &DataAddress| {
        address.network.as_ref().is_some_and(|network| networks.contains(network))
    };
    let on_network: BTreeSet<&Name> =
        addresses.iter().filter(|address| is_on(address)).map(|address| &address.peer).collect();
    let peers: BTreeSet<(bool, &Name)> = addresses
        .iter()
        .map(|address| (!on_network.contains(&address.peer), &address.peer))
        .collect();
    let first: BTreeSet<Name> =
        peers.into_iter().take(peers_max as usize).map(|(_, peer)| peer.clone()).collect();
    addresses.into_iter().filter(|address| first.contains(&address.peer)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(peers: usize, networks: usize, on_each: usize) -> Vec<DataAddress> {
        let mut all = Vec::new();
        for peer in 0..peers {
            for at in 0..networks * on_each {
                all.push(DataAddress {
                    peer: format!("h{peer:02}").parse().unwrap(),
                    address: format!("10.{peer}.{at}.1:7444").parse().unwrap(),
                    network: format!("fast{}", at / on_each).parse().ok(),
                    rate_bits_per_s: None,
                });
            }
        }
        all
    }

    fn count<K: Ord>(of: &[DataAddress], key: impl Fn(&DataAddress) -> K) -> Vec<usize> {
        let mut counts = BTreeMap::new();
        of.iter().for_each(|address| *counts.entry(key(address)).or_insert(0) += 1);
        counts.into_values().collect()
    }

    /// Promise: for any number of addresses of a site, no peer of it is left out for the addresses
    /// of others. No network of a peer is left out for second addresses of another one.
    #[test]
    fn no_peer_is_left_out() {
        let few = addresses(16, 4, 1);
        assert_eq!(bounded(few.clone()), few);
        let bound = bounded(addresses(17, 4, 1));
        let of_peer = count(&bound, |address| address.peer.clone());
        assert_eq!((of_peer.len(), of_peer.iter().min()), (17, Some(&3)));
        assert!(bound.is_sorted_by_key(|address| address.peer.clone()));
        let bound = bounded(addresses(9, 4, 2));
        let networks = count(&bound, |address| (address.peer.clone(), address.network.clone()));
        assert_eq!((bound.len(), networks.len()), (ADDRESSES_MAX, 36));
        assert_eq!(count(&bounded(addresses(80, 2, 1)), |address| address.peer.clone()), [1; 64]);
    }

    /// Promise: a limit of peers keeps all addresses of the peers that remain, and the same peers
    /// in any order of the addresses. Peers on a wanted network come first.
    #[test]
    fn the_first_peers_remain() {
        let mut all = addresses(3, 2, 1);
        let two = of_first_peers(all.clone(), Some(2), &[]);
        assert_eq!(two, all[..4]);
        assert_eq!(of_first_peers(all.clone(), None, &[]), all);
        let fast9: Name = "fast9".parse().unwrap();
        all[5].network = Some(fast9.clone());
        assert_eq!(of_first_peers(all.clone(), Some(1), &[fast9]), all[4..]);
        all.reverse();
        let two = of_first_peers(all, Some(2), &[]);
        assert_eq!(count(&two, |address| address.peer.clone()), [2, 2]);
    }
}
