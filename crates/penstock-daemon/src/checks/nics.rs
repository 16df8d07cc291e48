//! Checks whether each of several network cards carries the traffic that is bound to it (E5).

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use penstock_api::operate::{Finding, Level};
use penstock_net::InterfaceAddress;
use penstock_proto::network::Role;
use penstock_proto::units::format_rate;
use penstock_proto::units::parse_rate;

use crate::config::Config;
use crate::networks::{NetworkConfig, Networks};

/// Returns whether lanes leave from several interfaces.
pub(super) fn several(config: &Config) -> bool {
    devices(config).len() > 1
}

/// Returns the names of the interfaces for data; none if data goes by the routes.
pub(super) fn data_devices(config: &Config) -> Vec<String> {
    devices(config).into_keys().collect()
}

/// Returns the interfaces for data, with their first IPv4 address.
fn devices(config: &Config) -> BTreeMap<String, Option<Ipv4Addr>> {
    let mut devices = BTreeMap::new();
    for end in Networks::now(&config.networks).local_ends() {
        let Some(device) = end.device else { continue };
        let address = match end.address {
            Some(IpAddr::V4(address)) => Some(address),
            _ => None,
        };
        let known = devices.entry(device).or_insert(address);
        *known = known.or(address);
    }
    devices
}

pub(super) fn look(config: &Config, several: bool) -> Vec<Finding> {
    let interfaces = penstock_net::interface_addresses().unwrap_or_default();
    let mut findings: Vec<_> =
        config.networks.iter().filter_map(|network| present(network, &interfaces)).collect();
    let devices = devices(config);
    for device in devices.keys() {
        findings.extend(bindable(device));
        findings.extend(errors(device));
        findings.extend(speed(config, device));
    }
    if several {
        findings.extend(devices.keys().filter_map(|device| reverse_filter(device)));
        findings.extend(address_flux(&devices));
        findings.extend(devices.iter().filter_map(|(device, from)| routed(device, (*from)?)));
    }
    if findings.is_empty() {
        let what = match devices.len() {
            0 => "data goes by the routes: no [[network]] is configured".to_owned(),
            count => format!("{count} interfaces for data, each bindable, without errors"),
        };
        findings.push(Finding::ok("networks", what));
    }
    findings
}

/// Checks whether a configured network exists on this host.
fn present(network: &NetworkConfig, interfaces: &[InterfaceAddress]) -> Option<Finding> {
    let mut found = interfaces.iter().filter(|entry| network.has(&entry.device, entry.address));
    let name = &network.name;
    let why = "its paths are missing: everything goes over the others, or not at all";
    let level = if network.role == Role::Data { Level::Bad } else { Level::Warning };
    let first = found.clone().next();
    if first.is_none() {
        let what = format!("network `{name}`: this host has no address that belongs to it");
        let action = "`ip address`; correct `interface` or `prefix` in penstock.toml";
        return Some(Finding::new(level, "networks", what, why, action));
    }
    if found.any(|entry| entry.running) {
        return None;
    }
    let device = first.map_or("", |entry| entry.device.as_str());
    let what = format!("network `{name}`: interface {device} is down or has no carrier");
    Some(Finding::new(level, "networks", what, why, "check cable, switch port, `ip link`"))
}

fn bindable(device: &str) -> Option<Finding> {
    let error = penstock_net::device_is_bindable(device).err()?;
    Some(Finding::new(
        Level::Warning,
        "cap-net-raw",
        format!("lanes cannot be bound to interface {device}: {error}: {}", error.source),
        "an address alone does not choose the interface: with two in one subnet all leaves by one",
        "AmbientCapabilities=CAP_NET_RAW in the unit, or Linux 5.7",
    ))
}

fn read(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Checks for damaged frames: a cable, a module, a switch port.
fn errors(device: &str) -> Option<Finding> {
    let count = |name: &str| read(&format!("/sys/class/net/{device}/statistics/{name}"));
    let damaged = count("rx_crc_errors").unwrap_or(0) + count("rx_frame_errors").unwrap_or(0);
    if damaged == 0 {
        return None;
    }
    let packets = count("rx_packets").unwrap_or(0);
    Some(Finding::new(
        Level::Warning,
        "nic-errors",
        format!("interface {device}: {damaged} of {packets} frames came damaged since it is up"),
        "each is a lost packet: TCP slows down for it",
        format!(
            "clean or replace cable and module; `ethtool -S {device}` shows whether the number \
                 grows"
        ),
    ))
}

/// Checks for a link that runs below its configured rate.
fn speed(config: &Config, device: &str) -> Option<Finding> {
    let mbit = fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    let bits = mbit.trim().parse::<i64>().ok().filter(|mbit| *mbit > 0)? as f64 * 1e6;
    let networks = config.networks.iter();
    let said = networks
        .filter(|network| network.interface.as_deref() == Some(device))
        .filter_map(|network| parse_rate(network.rate.as_ref()?).ok())
        .max()? as f64;
    (bits < said * 0.99).then(|| {
        Finding::new(
            Level::Warning,
            "nic-speed",
            format!("interface {device} runs at {}, not {}", format_rate(bits), format_rate(said)),
            "lanes are shared out by the configured rate until it is measured",
            format!("`ethtool {device}`: a port that fell back; or correct `rate`"),
        )
    })
}

/// Returns the value in force of a setting that is there for all interfaces and for each.
fn setting(device: &str, name: &str) -> u64 {
    let of = |of: &str| read(&format!("/proc/sys/net/ipv4/conf/{of}/{name}")).unwrap_or(0);
    of("all").max(of(device))
}

fn reverse_filter(device: &str) -> Option<Finding> {
    (setting(device, "rp_filter") == 1).then(|| {
        Finding::new(
            Level::Warning,
            "rp-filter",
            format!(
                "interface {device} drops what the routes would answer by another (rp_filter 1)"
            ),
            "with several interfaces, replies to lanes bound to this one may be dropped: the path \
             looks dead although the cable is good",
            format!(
                "sysctl -w net.ipv4.conf.{device}.rp_filter=2 (loose), or a route table for each"
            ),
        )
    })
}

/// Checks for two interfaces in one subnet: they answer for each other's addresses, unless
/// configured otherwise.
fn address_flux(devices: &BTreeMap<String, Option<Ipv4Addr>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let all: Vec<_> = devices.iter().filter_map(|(device, at)| Some((device, (*at)?))).collect();
    for (number, (device, address)) in all.iter().enumerate() {
        let subnet = |address: Ipv4Addr| u32::from(address) >> 8;
        let other = all[..number].iter().find(|(_, other)| subnet(*other) == subnet(*address));
        let Some((other, _)) = other else { continue };
        if setting(device, "arp_ignore") >= 1 && setting(device, "arp_announce") >= 2 {
            continue;
        }
        findings.push(Finding::new(
            Level::Warning,
            "arp-flux",
            format!("interfaces {other} and {device} are in one subnet, and each answers for both"),
            "switch and neighbours send what is for one to the other: one carries twice its share, \
             and a cut of one takes both along",
            "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2, or a \
             subnet for each",
        ));
    }
    findings
}

/// Checks whether an interface reaches an address beyond its own subnet.
fn routed(device: &str, from: Ipv4Addr) -> Option<Finding> {
    // Documentation addresses (RFC 5737): only a default route leads there. No packet is sent.
    let error =
        penstock_net::leads_to(device, from.into(), Ipv4Addr::new(192, 0, 2, 1).into()).err()?;
    Some(Finding::new(
        Level::Note,
        "routes",
        format!("interface {device} ({from}) leads to its own networks only: {}", error.source),
        "lanes that are bound to it reach another site only if that is in one of these networks",
        format!(
            "if there is a router in between, add a default route for it, as in `ip route add \
             default via GATEWAY dev {device} metric 200`, or a rule with a routing table of its \
             own"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a network without an address, or without a cable, is reported; for data it is bad.
    #[test]
    fn a_missing_network_is_said() {
        let network = NetworkConfig {
            name: "fast0".parse().unwrap(),
            role: Role::Data,
            interface: Some("eth1".to_owned()),
            prefix: None,
            rate: None,
            advertise: Vec::new(),
        };
        let entry = |running| InterfaceAddress {
            device: "eth1".to_owned(),
            address: "10.50.1.1".parse().unwrap(),
            running,
            loopback: false,
        };
        assert_eq!(present(&network, &[]).unwrap().level, Level::Bad);
        assert!(present(&network, &[entry(false)]).unwrap().what.contains("no carrier"));
        assert_eq!(present(&network, &[entry(true)]), None);
    }
}
