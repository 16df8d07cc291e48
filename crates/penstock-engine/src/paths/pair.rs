//! Pairs of addresses that are paths.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use penstock_proto::id::Name;
use penstock_proto::network::DataAddress;

use super::spread::{Link, spread};

/// Most paths between two hosts.
pub const PATHS_MAX: usize = 64;

/// Local end of lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalEnd {
    /// The address; none leaves it to the routes.
    pub address: Option<IpAddr>,
    /// The network interface. An address alone does not choose it (hard case E5).
    pub device: Option<String>,
    /// The network of the interface, if it has a name.
    pub network: Option<Name>,
    /// Rate of the interface, if its operator has configured it.
    pub rate_bits_per_s: Option<u64>,
}

impl fmt::Display for LocalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, &self.device) {
            (Some(address), Some(device)) => write!(f, "{address}%{device}"),
            (Some(address), None) => write!(f, "{address}"),
            (None, Some(device)) => write!(f, "{device}"),
            (None, None) => f.write_str("any address"),
        }
    }
}

/// A pair of addresses over which lanes may go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathEnds {
    /// The local end.
    pub local: LocalEnd,
    /// The remote end.
    pub remote: DataAddress,
    /// Number of the link. Paths of one link lead over the same interfaces, by other addresses:
    /// only the first of them that works carries.
    pub link: u16,
}

impl PathEnds {
    /// Returns the rate of both interfaces, in bits per second, as far as it is configured.
    pub fn rate_bits_per_s(&self) -> Option<u64> {
        let rates = [self.local.rate_bits_per_s, self.remote.rate_bits_per_s];
        rates.into_iter().flatten().min()
    }

    /// Returns whether an end is on one of these networks; without networks, always.
    fn is_over(&self, networks: &[Name]) -> bool {
        let mut names = [&self.local.network, &self.remote.network].into_iter().flatten();
        networks.is_empty() || names.any(|name| networks.contains(name))
    }

    /// Returns the network, in words: `fast0`, or `fast0 to lan`, or nothing.
    pub fn network(&self) -> String {
        match (&self.local.network, &self.remote.network) {
            (Some(here), Some(there)) if here != there => format!("{here} to {there}"),
            (Some(name), _) | (None, Some(name)) => name.to_string(),
            (None, None) => String::new(),
        }
    }
}

impl fmt::Display for PathEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local, self.remote.address)
    }
}

/// Pairs to be tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// The pairs, numbered in this order.
    pub paths: Vec<PathEnds>,
    /// Number of links of which no path is tried, since there are too many.
    pub links_left_out: usize,
}

/// Pairs the local addresses with those of a site. Where both ends know a network by the same name,
/// its addresses are paired with each other only. All others are paired with any address of their
/// family, and trying shows which of these pairs work. At most [`PATHS_MAX`], the first of each
/// link first.
///
/// If there are more links than that, some are left out. As far as possible, none of these is the
/// only one of a device here, or of a network card there; hosts with other addresses choose others.
///
/// With `networks`, returns only the pairs of which one end at least is on one of these.
pub fn pair(locals: &[LocalEnd], remotes: &[DataAddress], networks: &[Name]) -> Pairs {
    pair_further(&[], locals, remotes, networks)
}

/// Returns the pairs that are not among `known`, to be numbered after those. A pair over the same
/// interfaces as a known one is of the same link. All together they are at most [`PATHS_MAX`].
pub fn pair_further(
    known: &[PathEnds],
    locals: &[LocalEnd],
    remotes: &[DataAddress],
    networks: &[Name],
) -> Pairs {
    let same = |a: &PathEnds, b: &PathEnds| {
        let ends = |of: &PathEnds| (of.local.address, of.remote.address);
        ends(a) == ends(b) && a.local.device == b.local.device
    };
    let mut ordinals = BTreeMap::<Link, (usize, usize)>::new();
    for ends in known {
        let place = ordinals.len();
        ordinals.entry(link_of(ends)).or_insert((place, 0)).1 += 1;
    }
    let mut new = Vec::new();
    for ends in pairs(locals, remotes) {
        if ends.is_over(networks) && !known.iter().any(|old| same(old, &ends)) {
            let next = ordinals.len();
            let (place, ordinal) = ordinals.entry(link_of(&ends)).or_insert((next, 0));
            *ordinal += 1;
            new.push((*ordinal, *place, ends));
        }
    }
    new.sort_by_key(|(ordinal, place, _)| (*ordinal, *place));
    let first_ones = new.iter().take_while(|(ordinal, ..)| *ordinal == 1).count();
    let mut new: Vec<PathEnds> = new.into_iter().map(|(.., ends)| ends).collect();
    let room = PATHS_MAX.saturating_sub(known.len());
    if first_ones > room {
        let offered: Vec<Link> = new[..first_ones].iter().map(link_of).collect();
        let known: Vec<Link> = known.iter().map(link_of).collect();
        let chosen = spread(&known, &offered, start_of(locals), room);
        new = chosen.into_iter().map(|at| new[at].clone()).collect();
    }
    new.truncate(room);
    number_links(known, &mut new);
    Pairs { paths: new, links_left_out: first_ones.saturating_sub(room) }
}

/// Returns all pairs that may be paths, IPv4 first.
fn pairs(locals: &[LocalEnd], remotes: &[DataAddress]) -> Vec<PathEnds> {
    let strict = pairs_of(locals, remotes, true);
    if strict.is_empty() { pairs_of(locals, remotes, false) } else { strict }
}

fn pairs_of(locals: &[LocalEnd], remotes: &[DataAddress], by_name: bool) -> Vec<PathEnds> {
    let here = |name: &Option<Name>| name.is_some() && locals.iter().any(|l| l.network == *name);
    let there = |name: &Option<Name>| name.is_some() && remotes.iter().any(|r| r.network == *name);
    let mut found = Vec::new();
    for local in locals {
        for remote in remotes {
            let family = |ip: IpAddr| ip.is_ipv4() == remote.address.is_ipv4();
            let named = here(&remote.network) || there(&local.network);
            if local.address.is_none_or(family)
                && (!by_name || !named || local.network == remote.network)
            {
                found.push(PathEnds { local: local.clone(), remote: remote.clone(), link: 0 });
            }
        }
    }
    // IPv4 comes before IPv6 of one link: its headers are smaller.
    found.sort_by_key(|ends| !ends.remote.address.is_ipv4());
    found
}

/// Numbers the links of `new`, after those of `known`, in their order.
fn number_links(known: &[PathEnds], new: &mut [PathEnds]) {
    let mut links: BTreeMap<Link, u16> = known.iter().map(|of| (link_of(of), of.link)).collect();
    let mut next = links.values().max().map_or(0, |link| link + 1);
    for ends in new {
        ends.link = *links.entry(link_of(ends)).or_insert_with(|| {
            next += 1;
            next - 1
        });
    }
}

fn link_of(ends: &PathEnds) -> Link {
    let local = &ends.local;
    let card = match &ends.remote.network {
        Some(name) => name.to_string(),
        None => ends.remote.address.to_string(),
    };
    Link {
        device: local.device.clone().unwrap_or_else(|| local.to_string()),
        peer: ends.remote.peer.clone(),
        card,
    }
}

/// Returns the position from which this host starts to choose: hosts of a site mostly have
/// consecutive addresses.
fn start_of(locals: &[LocalEnd]) -> u64 {
    match locals.iter().filter_map(|local| local.address).min() {
        Some(IpAddr::V4(address)) => address.to_bits().into(),
        Some(IpAddr::V6(address)) => address.to_bits() as u64,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(address: &str, device: &str, network: &str) -> LocalEnd {
        LocalEnd {
            address: Some(address.parse().unwrap()),
            device: Some(device.to_owned()),
            network: network.parse().ok(),
            rate_bits_per_s: None,
        }
    }

    fn remote(address: &str, network: &str) -> DataAddress {
        DataAddress {
            peer: "dtn1".parse().unwrap(),
            address: address.parse().unwrap(),
            network: network.parse().ok(),
            rate_bits_per_s: None,
        }
    }

    fn words(paths: &[PathEnds]) -> Vec<String> {
        paths.iter().map(|path| format!("{path} {}", path.link)).collect()
    }

    /// Promise: networks of one name are paired with each other only, and those of other names with
    /// any that may be reached. IPv4 and IPv6 of one pair of interfaces are one link, never two
    /// shares.
    #[test]
    fn networks_of_one_name_meet() {
        let locals = [
            local("10.0.1.1", "eth1", "fast0"),
            local("fd00:1::1", "eth1", "fast0"),
            local("10.0.2.1", "eth2", "fast1"),
        ];
        let remotes = [
            remote("10.9.1.1:1", "fast0"),
            remote("10.9.2.1:1", "wan"),
            remote("[fd09::1]:1", "fast0"),
        ];
        let expected = [
            "10.0.1.1%eth1 to 10.9.1.1:1 0",
            "10.0.2.1%eth2 to 10.9.2.1:1 1",
            "fd00:1::1%eth1 to [fd09::1]:1 0",
        ];
        assert_eq!(words(&pair(&locals, &remotes, &[]).paths), expected);
        let unnamed = [remote("10.9.1.1:1", ""), remote("10.9.2.1:1", "")];
        assert_eq!(pair(&locals, &unnamed, &[]).paths.len(), 4, "all of one family are tried");
        let anywhere = [LocalEnd::default()];
        assert_eq!(pair(&anywhere, &remotes, &[]).paths.len(), 3);
    }

    /// Promise: with networks, exactly the paths remain of which one end at least is on one of
    /// them; also later.
    #[test]
    fn only_paths_over_wanted_networks_remain() {
        let locals = [local("10.0.1.1", "eth1", "fast0"), local("10.0.2.1", "eth2", "fast1")];
        let remotes = [remote("10.9.1.1:1", "fast0"), remote("10.9.2.1:1", "wan")];
        let over = |names: &[&str]| {
            let names: Vec<Name> = names.iter().map(|name| name.parse().unwrap()).collect();
            words(&pair(&locals, &remotes, &names).paths)
        };
        let (first, second) = ("10.0.1.1%eth1 to 10.9.1.1:1 0", "10.0.2.1%eth2 to 10.9.2.1:1 ");
        assert_eq!(over(&["fast0"]), [first]);
        assert_eq!(over(&["wan"]), [format!("{second}0")]);
        assert_eq!(over(&["fast1"]), over(&["wan"]), "either site may have named it");
        assert_eq!(over(&["fast0", "wan"]), [first.to_owned(), format!("{second}1")]);
        assert!(over(&["mgmt"]).is_empty());
        let fast1 = ["fast1".parse().unwrap()];
        let further = pair_further(&[], &locals, &remotes, &fast1).paths;
        assert_eq!(words(&further), over(&["fast1"]));
    }

    /// Promise: later paths get numbers of their own, and never a link that another interface has.
    /// Known paths are not tried twice, and there are never more paths than may be tried.
    #[test]
    fn further_addresses_are_further_paths() {
        let locals = [local("10.0.1.1", "eth1", "fast0"), local("10.0.2.1", "eth2", "fast1")];
        let mut remotes = vec![remote("10.9.1.1:1", "fast0"), remote("10.9.2.1:1", "fast1")];
        let known = pair(&locals, &remotes, &[]).paths;
        assert_eq!(pair_further(&known, &locals, &remotes, &[]), Pairs::default());
        remotes.insert(0, remote("10.9.1.2:1", "fast0"));
        remotes[0].peer = "dtn2".parse().unwrap();
        remotes.push(remote("10.9.2.9:1", "fast1"));
        let expected = ["10.0.1.1%eth1 to 10.9.1.2:1 2", "10.0.2.1%eth2 to 10.9.2.9:1 1"];
        assert_eq!(words(&pair_further(&known, &locals, &remotes, &[]).paths), expected);
        let many: Vec<_> = (0..100).map(|at| remote(&format!("10.9.1.{at}:1"), "fast0")).collect();
        let further = pair_further(&known, &locals, &many, &[]);
        assert_eq!(known.len() + further.paths.len(), PATHS_MAX);
        assert_eq!(further.links_left_out, 0, "they are other addresses of one link");
    }

    /// Promise: the descriptions of two sites never make more paths than may be tried, and no link
    /// is left out for the second address of another.
    #[test]
    fn paths_are_bounded() {
        let locals: Vec<_> =
            (0..20).map(|at| local(&format!("10.0.1.{at}"), &format!("eth{at}"), "")).collect();
        let remotes: Vec<_> = (0..20).map(|at| remote(&format!("10.9.1.{at}:1"), "")).collect();
        let Pairs { paths, links_left_out } = pair(&locals, &remotes, &[]);
        assert_eq!((paths.len(), links_left_out), (PATHS_MAX, 400 - PATHS_MAX));
        assert!(pair(&locals[..1], &[remote("[fd09::1]:1", "")], &[]).paths.is_empty());
    }

    /// Returns the cards of so many peers, by networks whose names the other site does not know.
    fn site_of(peers: usize, cards: usize) -> Vec<DataAddress> {
        let card = |peer: usize, card: usize| DataAddress {
            peer: format!("dtn{peer}").parse().unwrap(),
            ..remote(&format!("10.9.{card}.{peer}:1"), &format!("rail{card}"))
        };
        (0..peers).flat_map(|peer| (0..cards).map(move |at| card(peer, at))).collect()
    }

    /// Returns the cards of a host whose number in each network is `host`.
    fn host(host: u8, cards: u8) -> Vec<LocalEnd> {
        let card = |at| local(&format!("10.0.{at}.{host}"), &format!("eth{at}"), &format!("f{at}"));
        (0..cards).map(card).collect()
    }

    fn counts<K: Ord>(paths: &[PathEnds], of: impl Fn(&PathEnds) -> K) -> Vec<usize> {
        let mut counts = BTreeMap::new();
        paths.iter().for_each(|ends| *counts.entry(of(ends)).or_insert(0) += 1);
        counts.into_values().collect()
    }

    /// Promise: where there are more links than may be tried, no device here, no peer and no card
    /// there is left out for the others. Each device meets each peer and each network: one that
    /// leads to one network only has paths there. The number of links left out is reported.
    #[test]
    fn too_many_links_leave_nobody_out() {
        let locals = host(7, 4);
        let Pairs { paths, links_left_out } = pair(&locals, &site_of(8, 4), &[]);
        assert_eq!((paths.len(), links_left_out), (64, 64));
        let device = |ends: &PathEnds| ends.local.device.clone();
        let peer = |ends: &PathEnds| ends.remote.peer.clone();
        let network = |ends: &PathEnds| ends.remote.network.clone();
        assert_eq!(counts(&paths, device), [16; 4]);
        assert_eq!(counts(&paths, peer), [8; 8]);
        assert_eq!(counts(&paths, |ends| ends.remote.address), [2; 32]);
        assert_eq!(counts(&paths, |ends| (device(ends), network(ends))), [4; 16]);
        assert_eq!(counts(&paths, |ends| (device(ends), peer(ends))), [2; 32]);
        let links: Vec<u16> = paths.iter().map(|ends| ends.link).collect();
        assert_eq!(links, (0..64).collect::<Vec<_>>());
        for lanes in [4, 8, 16] {
            let devices = counts(&paths[..lanes], device);
            assert_eq!(devices, [lanes / 4; 4], "with so few lanes too");
        }
        for (peers, cards) in [(16, 4), (64, 1), (3, 16), (9, 7)] {
            let paths = pair(&locals, &site_of(peers, cards), &[]).paths;
            assert_eq!(counts(&paths, device), [16; 4], "{peers} peers of {cards} cards");
            assert_eq!(counts(&paths, |ends| ends.remote.address).len(), peers * cards);
        }
    }

    /// Promise: hosts of one site with many links do not all begin at one peer of the other site,
    /// and each chooses the same paths whenever it is asked.
    #[test]
    fn hosts_begin_at_different_peers() {
        let remotes = site_of(8, 4);
        let first = |host_number| pair(&host(host_number, 4), &remotes, &[]).paths[0].clone();
        let begun: Vec<PathEnds> = (1..9).map(first).collect();
        assert_eq!(counts(&begun, |ends| ends.remote.peer.clone()), [1; 8]);
        assert_eq!(pair(&host(1, 4), &remotes, &[]), pair(&host(1, 4), &remotes, &[]));
    }

    /// Promise: later addresses are paired, as far as there is room, where the fewest pairs are.
    #[test]
    fn what_comes_later_fills_gaps() {
        let locals = host(7, 4);
        let known = pair(&locals, &site_of(5, 3), &[]).paths;
        assert_eq!(known.len(), 60);
        let Pairs { paths, links_left_out } = pair_further(&known, &locals, &site_of(7, 3), &[]);
        assert_eq!((paths.len(), links_left_out), (4, 20));
        assert_eq!(counts(&paths, |ends| ends.local.device.clone()), [1; 4]);
        assert_eq!(counts(&paths, |ends| ends.remote.peer.to_string()), [2; 2]);
        let known = [known, paths].concat();
        let full = pair_further(&known, &locals, &site_of(7, 3), &[]);
        assert_eq!(full, Pairs { paths: Vec::new(), links_left_out: 20 });
    }
}
