//! Networks of this host: the interfaces and addresses that are for data, and those that are not.
//!
//! Without any `[[network]]` data goes over the advertised addresses, and the routes choose the
//! interfaces. With some, lanes leave from and arrive at addresses of data networks only, each
//! bound to its interface. Where only other networks are listed, every other address is for data.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use penstock_net::{InterfaceAddress, interface_addresses};
use penstock_peer::LocalEnd;
use penstock_proto::id::Name;
use penstock_proto::network::{DataAddress, Role};
use penstock_proto::units::{ParseRateError, parse_rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A network, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Its name. Networks that carry the same name at two sites are one: their addresses meet each
    /// other only. It may be listed again, for another interface or prefix.
    pub name: Name,
    /// The purpose of the network: `data` (lanes, and requests between sites), `control` (requests
    /// only) or `never`. Default: `data`.
    #[serde(default)]
    pub role: Role,
    /// All addresses of this interface belong to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// All addresses within this prefix belong to it, as `10.50.1.0/24`; with `interface`, those
    /// of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<Prefix>,
    /// The rate of an interface of the network, with the unit, as `100Gbit/s`. Lanes are shared
    /// among networks by it until rates are measured. Default: all alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Addresses that other sites receive for data instead of those of the interface, where they
    /// are reached by others, as behind address translation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<SocketAddr>,
}

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl Prefix {
    /// Returns whether an address begins with these bits.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let ((own, _), (other, _)) = (bits_of(self.address), bits_of(address));
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        self.address.is_ipv4() == address.is_ipv4() && (own ^ other) & mask == 0
    }
}

/// A text that is no prefix of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no prefix as `10.50.1.0/24` or `fd50::/64`")]
pub struct ParsePrefixError(String);

impl std::str::FromStr for Prefix {
    type Err = ParsePrefixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParsePrefixError(text.to_owned());
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        if bits > bits_of(address).1 { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}/{}", self.address, self.bits))
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl NetworkConfig {
    /// Returns whether an address of an interface belongs to the network.
    pub(crate) fn has(&self, device: &str, address: IpAddr) -> bool {
        self.interface.as_ref().is_none_or(|own| own == device)
            && self.prefix.is_none_or(|prefix| prefix.contains(address))
    }

    fn rate_bits_per_s(&self) -> Option<u64> {
        self.rate.as_ref().and_then(|text| parse_rate(text).ok())
    }
}

/// A statement about a network that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The network names no addresses.
    #[error("network `{0}` needs an `interface` or a `prefix`")]
    NoAddresses(Name),
    /// The rate is invalid.
    #[error("network `{network}`: {cause}")]
    Rate {
        /// The network.
        network: Name,
        /// The fault of the text.
        cause: ParseRateError,
    },
    /// An address is for data by one network and not by another.
    #[error("network `{0}` is listed with two roles")]
    TwoRoles(Name),
    /// The network advertises addresses for data, and is not for data.
    #[error("network `{0}` advertises addresses, but is not for data")]
    Advertises(Name),
}

/// Returns every statement about a network that cannot be followed, with the network's number.
pub(crate) fn wrong_statements(networks: &[NetworkConfig]) -> Vec<(usize, NetworkError)> {
    let mut wrong = Vec::new();
    for (at, network) in networks.iter().enumerate() {
        let name = || network.name.clone();
        if network.interface.is_none() && network.prefix.is_none() {
            wrong.push((at, NetworkError::NoAddresses(name())));
        }
        if let Some(Err(cause)) = network.rate.as_ref().map(|rate| parse_rate(rate)) {
            wrong.push((at, NetworkError::Rate { network: name(), cause }));
        }
        let other = networks[..at].iter().find(|other| other.name == network.name);
        if other.is_some_and(|other| other.role != network.role) {
            wrong.push((at, NetworkError::TwoRoles(name())));
        }
        if !network.advertise.is_empty() && network.role != Role::Data {
            wrong.push((at, NetworkError::Advertises(name())));
        }
    }
    wrong
}

/// The networks of this host, and its interfaces as they are at a moment.
pub(crate) struct Networks<'a> {
    configured: Cow<'a, [NetworkConfig]>,
    interfaces: Vec<InterfaceAddress>,
}

impl<'a> Networks<'a> {
    /// Returns the interfaces of this moment.
    pub(crate) fn now(configured: impl Into<Cow<'a, [NetworkConfig]>>) -> Self {
        let configured = configured.into();
        let interfaces = interface_addresses().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the network interfaces");
            Vec::new()
        });
        Self { configured, interfaces }
    }

    /// Returns the purpose of an address of an interface, and the network that sets it.
    fn of(&self, entry: &InterfaceAddress) -> (Role, Option<&NetworkConfig>) {
        let mut networks = self.configured.iter();
        if let Some(network) = networks.find(|network| network.has(&entry.device, entry.address)) {
            return (network.role, Some(network));
        }
        // If a network for data is configured, no other address is for data.
        let named = self.configured.iter().any(|network| network.role == Role::Data);
        (if named || entry.loopback { Role::Control } else { Role::Data }, None)
    }

    /// Returns the purpose of an address of this host. Any other address is for data if no network
    /// is configured.
    pub(crate) fn role_of(&self, address: IpAddr) -> (Role, Option<&Name>) {
        if self.configured.is_empty() {
            return (Role::Data, None);
        }
        let address = address.to_canonical();
        let entry = self.interfaces.iter().find(|entry| entry.address == address);
        entry.map_or((Role::Control, None), |entry| {
            let (role, network) = self.of(entry);
            (role, network.map(|network| &network.name))
        })
    }

    fn with_role(
        &self,
        role: Role,
    ) -> impl Iterator<Item = (&InterfaceAddress, Option<&NetworkConfig>)> {
        let entries = self.interfaces.iter().map(move |entry| (entry, self.of(entry)));
        entries
            .filter(move |(_, (of, _))| *of == role)
            .map(|(entry, (_, network))| (entry, network))
    }

    /// Returns the addresses from which lanes may leave.
    pub(crate) fn local_ends(&self) -> Vec<LocalEnd> {
        if self.configured.is_empty() {
            return vec![LocalEnd::default()];
        }
        let end = |(entry, network): (&InterfaceAddress, Option<&NetworkConfig>)| LocalEnd {
            address: Some(entry.address),
            device: Some(entry.device.clone()),
            network: network.map(|network| network.name.clone()),
            rate_bits_per_s: network.and_then(NetworkConfig::rate_bits_per_s),
        };
        self.with_role(Role::Data).map(end).collect()
    }

    /// Returns the addresses that accept lanes. Without a configured network `advertised` holds.
    pub(crate) fn data_addresses(
        &self,
        peer: &Name,
        port: u16,
        advertised: &[SocketAddr],
    ) -> Vec<DataAddress> {
        let data = |address, network: Option<&NetworkConfig>| DataAddress {
            peer: peer.clone(),
            address,
            network: network.map(|network| network.name.clone()),
            rate_bits_per_s: network.and_then(NetworkConfig::rate_bits_per_s),
        };
        if self.configured.is_empty() {
            return advertised.iter().map(|address| data(*address, None)).collect();
        }
        let mut found = Vec::new();
        for network in self.configured.iter() {
            found.extend(network.advertise.iter().map(|address| data(*address, Some(network))));
        }
        for (entry, network) in self.with_role(Role::Data) {
            if network.is_none_or(|network| network.advertise.is_empty()) {
                found.push(data(SocketAddr::new(entry.address, port), network));
            }
        }
        found
    }

    /// Returns the addresses that accept requests of other sites, control networks first.
    pub(crate) fn control_addresses(&self, port: u16) -> Vec<SocketAddr> {
        let listed = |role| {
            let entries = self.with_role(role).filter(|(entry, network)| {
                // An address in no configured network is advertised only if it is for data.
                (network.is_some() || role == Role::Data) && (network.is_some() || !entry.loopback)
            });
            entries.map(move |(entry, _)| SocketAddr::new(entry.address, port)).collect::<Vec<_>>()
        };
        [listed(Role::Control), listed(Role::Data)].concat()
    }

    /// Sockets to listen with beside the general one at `bound`: one for each address for data,
    /// bound to its interface, and for each named one for control that `bound` leaves out.
    pub(crate) fn listeners(&self, bound: SocketAddr) -> Vec<(SocketAddr, Option<String>)> {
        if self.configured.is_empty() {
            return Vec::new();
        }
        let port = bound.port();
        // A socket at `[::]` takes IPv4 as well (ipv6(7)).
        let covered = |address: IpAddr| {
            bound.ip() == address
                || (bound.ip().is_unspecified() && (bound.is_ipv6() || address.is_ipv4()))
        };
        let data = self
            .with_role(Role::Data)
            .filter(|(entry, _)| entry.address != bound.ip())
            .map(|(entry, _)| (SocketAddr::new(entry.address, port), Some(entry.device.clone())));
        let control = self
            .with_role(Role::Control)
            .filter(|(entry, network)| network.is_some() && !covered(entry.address))
            .map(|(entry, _)| (SocketAddr::new(entry.address, port), None));
        data.chain(control).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(device: &str, address: &str) -> InterfaceAddress {
        let loopback = device == "lo";
        let (device, address) = (device.to_owned(), address.parse().unwrap());
        InterfaceAddress { device, address, running: true, loopback }
    }

    fn network(name: &str, role: Role, interface: Option<&str>, prefix: &str) -> NetworkConfig {
        NetworkConfig {
            name: name.parse().unwrap(),
            role,
            interface: interface.map(str::to_owned),
            prefix: prefix.parse().ok(),
            rate: None,
            advertise: Vec::new(),
        }
    }

    fn here(configured: &[NetworkConfig]) -> Networks<'_> {
        let interfaces = vec![
            entry("lo", "127.0.0.1"),
            entry("eth0", "192.168.7.4"),
            entry("eth1", "10.50.1.1"),
            entry("eth1", "fd50::1"),
            entry("eth2", "10.51.1.1"),
        ];
        Networks { configured: configured.into(), interfaces }
    }

    fn ends(networks: &Networks<'_>) -> String {
        let ends: Vec<_> = networks.local_ends().iter().map(ToString::to_string).collect();
        ends.join(" ")
    }

    /// Promise: management networks never carry data silently: once a data network is named, no
    /// other address is for data; where only others are named, the rest is.
    #[test]
    fn only_data_networks_carry() {
        let fast = [
            network("fast0", Role::Data, Some("eth1"), ""),
            network("fast1", Role::Data, None, "10.51.0.0/16"),
        ];
        let named = here(&fast);
        assert_eq!(ends(&named), "10.50.1.1%eth1 fd50::1%eth1 10.51.1.1%eth2");
        assert_eq!(named.role_of("192.168.7.4".parse().unwrap()).0, Role::Control);
        assert_eq!(named.role_of("::ffff:10.50.1.1".parse().unwrap()).0, Role::Data);
        let told = named.data_addresses(&"dtn1".parse().unwrap(), 7444, &[]);
        let told: Vec<_> = told.iter().map(|told| told.address.to_string()).collect();
        assert_eq!(told, ["10.50.1.1:7444", "[fd50::1]:7444", "10.51.1.1:7444"]);

        let others = [
            network("mgmt", Role::Control, Some("eth0"), ""),
            network("san", Role::Never, None, "10.51.1.0/24"),
        ];
        let rest = here(&others);
        assert_eq!(ends(&rest), "10.50.1.1%eth1 fd50::1%eth1");
        assert_eq!(rest.role_of("10.51.1.1".parse().unwrap()).0, Role::Never);
        let first = rest.control_addresses(7444)[0];
        assert_eq!(first, "192.168.7.4:7444".parse().unwrap());

        assert_eq!(ends(&here(&[])), "any address");

        // An address of the general listener gets no listener of its own.
        let beside = |bound: &str| rest.listeners(bound.parse().unwrap());
        assert!(beside("0.0.0.0:1").iter().all(|(_, device)| device.is_some()));
        assert!(beside("[::]:1").iter().all(|(_, device)| device.is_some()));
        let mgmt = ("192.168.7.4:1".parse().unwrap(), None);
        assert!(beside("127.0.0.1:1").contains(&mgmt));
    }

    /// Promise: a network that cannot work is refused before anything is started.
    #[test]
    fn a_wrong_network_is_refused() {
        let good = network("a", Role::Data, Some("eth1"), "10.0.0.0/8");
        assert_eq!(wrong_statements(std::slice::from_ref(&good)), []);
        let empty = network("a", Role::Data, None, "");
        let rate = NetworkConfig { rate: Some("fast".to_owned()), ..good.clone() };
        let role = [good.clone(), NetworkConfig { role: Role::Never, ..good }];
        let count = |networks: &[_]| wrong_statements(networks).len();
        assert_eq!((count(&[empty]), count(&[rate]), count(&role)), (1, 1, 1));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "x/8", "fd00::/129"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
        let all: Prefix = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("10.1.2.3".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }
}
