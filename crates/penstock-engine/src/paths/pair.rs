//! Which pairs of addresses are paths.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use penstock_proto::id::Name;
use penstock_proto::network::DataAddress;

/// Most paths between two hosts.
pub const PATHS_MAX: usize = 64;

/// Where lanes leave from at this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalEnd {
    /// The address; none leaves it to the routes.
    pub address: Option<IpAddr>,
    /// The network interface. An address alone does not choose it (hard case E5).
    pub device: Option<String>,
    /// The network on which that is, if it has a name.
    pub network: Option<Name>,
    /// What the interface carries, if its operator has said so.
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
    /// Here.
    pub local: LocalEnd,
    /// There.
    pub remote: DataAddress,
    /// Paths of one link lead over the same interfaces, by other addresses: only the first of them
    /// that works carries.
    pub link: u16,
}

impl PathEnds {
    /// What both interfaces carry, in bits per second, as far as that was said.
    pub fn rate_bits_per_s(&self) -> Option<u64> {
        let rates = [self.local.rate_bits_per_s, self.remote.rate_bits_per_s];
        rates.into_iter().flatten().min()
    }

    /// The network, in words: `fast0`, or `fast0 to lan`, or nothing.
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

/// Pairs the local addresses with those of a site. Where both ends know a network by the same name,
/// its addresses meet each other only; all others meet whatever is of their family, and trying
/// tells which of these pairs lead anywhere. At most [`PATHS_MAX`], the first of each link first.
pub fn pair(locals: &[LocalEnd], remotes: &[DataAddress]) -> Vec<PathEnds> {
    let strict = pairs(locals, remotes, true);
    if strict.is_empty() { pairs(locals, remotes, false) } else { strict }
}

fn pairs(locals: &[LocalEnd], remotes: &[DataAddress], by_name: bool) -> Vec<PathEnds> {
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
    // IPv4 before IPv6 of one link: its heads are smaller.
    found.sort_by_key(|ends| !ends.remote.address.is_ipv4());
    let mut links = BTreeMap::new();
    let mut ordinals = BTreeMap::<u16, u16>::new();
    let mut ordered = Vec::new();
    for mut ends in found {
        let next = links.len() as u16;
        ends.link = *links.entry(link_of(&ends)).or_insert(next);
        let ordinal = ordinals.entry(ends.link).or_default();
        *ordinal += 1;
        ordered.push((*ordinal, ends));
    }
    ordered.sort_by_key(|(ordinal, ends)| (*ordinal, ends.link));
    ordered.truncate(PATHS_MAX);
    ordered.into_iter().map(|(_, ends)| ends).collect()
}

/// The pairs that are not among `known`, to be numbered after those. One over the same interfaces
/// as a known one is of the same link. All together they are [`PATHS_MAX`] at most.
pub fn pair_further(
    known: &[PathEnds],
    locals: &[LocalEnd],
    remotes: &[DataAddress],
) -> Vec<PathEnds> {
    let same = |a: &PathEnds, b: &PathEnds| {
        let ends = |of: &PathEnds| (of.local.address, of.remote.address);
        ends(a) == ends(b) && a.local.device == b.local.device
    };
    let mut links: BTreeMap<_, u16> = known.iter().map(|of| (link_of(of), of.link)).collect();
    let first_free = links.values().max().map_or(0, |link| link + 1);
    let mut further = pair(locals, remotes);
    further.retain(|new| known.iter().all(|old| !same(old, new)));
    further.truncate(PATHS_MAX.saturating_sub(known.len()));
    let mut next = first_free;
    for ends in &mut further {
        ends.link = *links.entry(link_of(ends)).or_insert_with(|| {
            next += 1;
            next - 1
        });
    }
    further
}

/// What makes two pairs of addresses one link: the interface here, and the network there, or where
/// that has no name the address.
fn link_of(ends: &PathEnds) -> (String, Name, String) {
    let local = &ends.local;
    let here = local.device.clone().unwrap_or_else(|| local.to_string());
    let there = match &ends.remote.network {
        Some(name) => name.to_string(),
        None => ends.remote.address.to_string(),
    };
    (here, ends.remote.peer.clone(), there)
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

    /// Promise: networks of one name meet each other only, and those of other names meet whatever
    /// may be reached; IPv4 and IPv6 of one pair of interfaces are one link, never two shares.
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
        assert_eq!(words(&pair(&locals, &remotes)), expected);
        let unnamed = [remote("10.9.1.1:1", ""), remote("10.9.2.1:1", "")];
        assert_eq!(pair(&locals, &unnamed).len(), 4, "all of one family are tried");
        let anywhere = [LocalEnd::default()];
        assert_eq!(pair(&anywhere, &remotes).len(), 3);
    }

    /// Promise: what comes later gets numbers of its own, and never a link that another interface
    /// has; what is known is not tried twice, and there are never more paths than may be tried.
    #[test]
    fn further_addresses_are_further_paths() {
        let locals = [local("10.0.1.1", "eth1", "fast0"), local("10.0.2.1", "eth2", "fast1")];
        let mut remotes = vec![remote("10.9.1.1:1", "fast0"), remote("10.9.2.1:1", "fast1")];
        let known = pair(&locals, &remotes);
        assert_eq!(pair_further(&known, &locals, &remotes), []);
        remotes.insert(0, remote("10.9.1.2:1", "fast0"));
        remotes[0].peer = "dtn2".parse().unwrap();
        remotes.push(remote("10.9.2.9:1", "fast1"));
        let expected = ["10.0.1.1%eth1 to 10.9.1.2:1 2", "10.0.2.1%eth2 to 10.9.2.9:1 1"];
        assert_eq!(words(&pair_further(&known, &locals, &remotes)), expected);
        let many: Vec<_> = (0..100).map(|at| remote(&format!("10.9.1.{at}:1"), "fast0")).collect();
        assert_eq!(known.len() + pair_further(&known, &locals, &many).len(), PATHS_MAX);
    }

    /// Promise: what two sites say of themselves never makes more paths than may be tried, and no
    /// link is left out for the second address of another.
    #[test]
    fn paths_are_bounded() {
        let locals: Vec<_> =
            (0..20).map(|at| local(&format!("10.0.1.{at}"), &format!("eth{at}"), "")).collect();
        let remotes: Vec<_> = (0..20).map(|at| remote(&format!("10.9.1.{at}:1"), "")).collect();
        assert_eq!(pair(&locals, &remotes).len(), PATHS_MAX);
        assert!(pair(&locals[..1], &[remote("[fd09::1]:1", "")]).is_empty());
    }
}
