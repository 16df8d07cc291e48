//! The etcd that Penstock runs for its site.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::OwnEtcdError;

/// Port at which the own etcd accepts clients unless configured; its members meet at the next one.
/// Not etcd's 2379, so that an operator's etcd may run beside it.
pub const ETCD_PORT_DEFAULT: u16 = 7445;

/// etcd on the site's own hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnEtcdConfig {
    /// On how many hosts it runs: 1, 2, 3 or 5, the first that join. As many as half of them,
    /// rounded down, may be lost.
    pub hosts: usize,
    /// The address at which this host's member accepts clients; members meet at the port after it.
    /// The other hosts of the site must reach both.
    pub address: SocketAddr,
    /// The program. Default: `etcd`, as PATH finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

impl OwnEtcdConfig {
    /// Returns every statement that cannot be followed, with its key.
    pub(crate) fn wrong_statements(&self) -> Vec<(&'static str, OwnEtcdError)> {
        let mut wrong = Vec::new();
        wrong.extend(check_hosts(self.hosts).err().map(|error| ("hosts", error)));
        let ip = self.address.ip();
        if ip.is_unspecified() || ip.is_multicast() {
            wrong.push(("address", OwnEtcdError::Address(ip)));
        }
        if matches!(self.address.port(), 0 | u16::MAX) {
            wrong.push(("address", OwnEtcdError::Port));
        }
        wrong
    }

    /// Returns the URL at which clients reach this host's member.
    pub fn client_url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the URL at which the other members reach this one.
    pub fn peer_url(&self) -> String {
        let port = self.address.port().saturating_add(1);
        format!("https://{}", SocketAddr::new(self.address.ip(), port))
    }

    /// Returns the address of the member's host.
    pub fn ip(&self) -> IpAddr {
        self.address.ip()
    }
}

/// Refuses numbers of hosts that would be no gain.
fn check_hosts(hosts: usize) -> Result<(), OwnEtcdError> {
    match hosts {
        1 | 2 | 3 | 5 => Ok(()),
        4 => Err(OwnEtcdError::FourHosts),
        _ => Err(OwnEtcdError::Hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a faulty statement is refused before any process is started, and the two addresses
    /// of a member differ.
    #[test]
    fn an_own_etcd_that_cannot_work_is_refused() {
        let own = |hosts, address: &str| OwnEtcdConfig {
            hosts,
            address: address.parse().unwrap(),
            program: None,
        };
        let good = own(3, "10.0.0.1:7445");
        assert_eq!(good.wrong_statements(), []);
        assert_eq!(good.client_url(), "https://10.0.0.1:7445");
        assert_eq!(good.peer_url(), "https://10.0.0.1:7446");
        assert_eq!(own(3, "[fd00::1]:7445").peer_url(), "https://[fd00::1]:7446");
        for bad in [own(4, "10.0.0.1:7445"), own(3, "0.0.0.0:7445"), own(3, "10.0.0.1:0")] {
            assert_eq!(bad.wrong_statements().len(), 1, "{bad:?}");
        }
    }
}
