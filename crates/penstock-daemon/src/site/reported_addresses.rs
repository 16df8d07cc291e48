//! Addresses that another site reports, as far as this site believes them.

use std::net::IpAddr;

use penstock_api::site::SiteAddresses;

/// Returns the addresses that another site reports, without those that mean this host alone:
/// loopback, link-local, and addresses of no host. Such addresses stay where the site itself is at
/// one, as on one host: `from` are its addresses.
pub(crate) fn believable(mut told: SiteAddresses, from: &[IpAddr]) -> SiteAddresses {
    let is_kept = |address: IpAddr| {
        let at = |is: fn(IpAddr) -> bool| from.iter().any(|from| is(from.to_canonical()));
        let address = address.to_canonical();
        match address {
            _ if address.is_unspecified() || address.is_multicast() => false,
            IpAddr::V4(address) if address.is_broadcast() => false,
            _ if address.is_loopback() => at(|from| from.is_loopback()),
            _ if is_link_local(address) => at(is_link_local),
            _ => true,
        }
    };
    told.addresses.retain(|address| is_kept(address.ip()));
    told.data.retain(|data| is_kept(data.address.ip()));
    told
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D4: a site that is elsewhere has this host dial none of the addresses that it has alone.
    #[test]
    fn d4_nobody_names_addresses_of_this_host_alone() {
        let told = || SiteAddresses {
            addresses: ["127.0.0.1:22", "[::1]:22", "169.254.169.254:80", "[fe80::1]:80"]
                .into_iter()
                .chain(["0.0.0.0:80", "[::ffff:127.0.0.1]:22", "224.0.0.1:80", "10.0.0.7:7444"])
                .map(|address| address.parse().unwrap())
                .collect(),
            data: Vec::new(),
        };
        let kept = |from: &str| believable(told(), &[from.parse().unwrap()]).addresses;
        assert_eq!(kept("192.0.2.1"), ["10.0.0.7:7444".parse().unwrap()]);
        assert_eq!(kept("127.0.0.1").len(), 4);
        assert_eq!(kept("169.254.0.9").len(), 3);
    }
}
