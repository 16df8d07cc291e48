//! Makes the hosts (network namespaces) and networks (TUN devices at every host) of a lab.

use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, bail};

use crate::link::{Direction, Port, chance};
use crate::spec::{Spec, addresses};
use crate::tun;

/// Packets that the kernel of a host holds for the emulator.
const QUEUE_PACKETS: &str = "4000";

/// One network: an interface of every host, and what each site sends into it.
#[derive(Debug)]
pub(crate) struct Network {
    /// Site by site, and host by host within.
    pub(crate) ports: Vec<Port>,
    /// One for each site.
    pub(crate) directions: Vec<Direction>,
}

/// Settings of a network, or of one interface, that change while a lab runs; none: as it was.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) rate_bits_per_s: Option<u64>,
    pub(crate) loss: Option<f64>,
    pub(crate) corruption: Option<f64>,
    pub(crate) buffer_bytes: Option<u64>,
}

impl Port {
    /// Changes the settings of one interface; an interface neither corrupts nor has a buffer of
    /// another length than its network.
    pub(crate) fn apply(&self, settings: &Settings) {
        let pairs = [
            (&self.delay_ns, settings.rtt_ns.map(|rtt| rtt / 2)),
            (&self.rate_bits_per_s, settings.rate_bits_per_s),
            (&self.loss, settings.loss.map(chance)),
        ];
        for (to, value) in pairs {
            if let Some(value) = value {
                to.store(value, Relaxed);
            }
        }
    }
}

impl Network {
    /// Changes the settings of all directions.
    pub(crate) fn apply(&self, settings: &Settings) {
        for direction in &self.directions {
            let set = |to: &std::sync::atomic::AtomicU64, value: Option<u64>| {
                if let Some(value) = value {
                    to.store(value, Relaxed);
                }
            };
            set(&direction.delay_ns, settings.rtt_ns.map(|rtt| rtt / 2));
            set(&direction.rate_bits_per_s, settings.rate_bits_per_s);
            set(&direction.loss, settings.loss.map(chance));
            set(&direction.corruption, settings.corruption.map(chance));
            set(&direction.buffer_bytes, settings.buffer_bytes);
            direction.version.fetch_add(1, Relaxed);
        }
    }
}

/// Makes namespaces and devices, addresses set and up.
///
/// # Errors
/// This is not root, a namespace of that name exists, or `ip` or /dev/net/tun is missing. What was
/// made until then stays; [`remove`] removes it.
pub(crate) fn build(spec: &Spec) -> anyhow::Result<Vec<Network>> {
    for (site, host) in spec.hosts() {
        let namespace = spec.namespace(site, host);
        ip(&["netns", "add", &namespace])?;
        ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
        if spec.tcp_buf > 0 {
            set_tcp_buffers(&namespace, spec.tcp_buf)?;
        }
    }
    (0..spec.networks()).map(|network| build_network(spec, network)).collect()
}

fn build_network(spec: &Spec, number: usize) -> anyhow::Result<Network> {
    let sites = usize::from(spec.sites);
    let device_name = format!("net{number}");
    let mut ports = Vec::new();
    for (site, host) in spec.hosts() {
        let namespace = spec.namespace(site, host);
        let device = tun::open(&namespace, &device_name, !spec.no_offload)
            .with_context(|| format!("make {device_name} in {namespace}"))?;
        let addresses = addresses(number, site, host);
        let mtu = spec.mtu.to_string();
        let link = ["-n", &namespace, "link", "set", &device_name];
        ip(&[&link[..], &["mtu", &mtu, "txqueuelen", QUEUE_PACKETS, "up"]].concat())?;
        for (address, prefix) in addresses.iter().zip([16, 32]) {
            let address = format!("{address}/{prefix}");
            let add = ["-n", &namespace, "addr", "add", &address, "dev", &device_name];
            // Nobody else could have the address: no time is spent on asking.
            let detect = if prefix == 32 { &["nodad"][..] } else { &[] };
            ip(&[&add[..], detect].concat())?;
        }
        let port = Port::new(device, site, addresses);
        port.apply(&Settings {
            rate_bits_per_s: Some(spec.nic_rate(number)),
            ..Settings::default()
        });
        ports.push(port);
    }
    let direction = || Direction {
        cut: (0..sites).map(|_| AtomicBool::new(false)).collect(),
        ..Direction::default()
    };
    let network = Network { ports, directions: (0..sites).map(|_| direction()).collect() };
    network.apply(&Settings {
        rtt_ns: Some(spec.rtt(number)),
        rate_bits_per_s: Some(spec.rate(number)),
        loss: Some(spec.loss(number)),
        corruption: Some(spec.corruption(number)),
        buffer_bytes: Some(spec.buffer_bytes(number)),
    });
    Ok(network)
}

fn set_tcp_buffers(namespace: &str, bytes: u64) -> anyhow::Result<()> {
    tun::in_namespace(namespace, || {
        let set = |name: &str, initial: u64| {
            let path = format!("/proc/sys/net/ipv4/{name}");
            std::fs::write(path, format!("4096 {initial} {bytes}"))
        };
        set("tcp_rmem", 131_072)?;
        set("tcp_wmem", 65_536)
    })
    .with_context(|| format!("set the TCP buffers of {namespace}"))
}

/// Sets the carrier of a port.
///
/// # Errors
/// The kernel cannot.
pub(crate) fn set_carrier(port: &Port, on: bool) -> anyhow::Result<()> {
    tun::set_carrier(port.device.as_fd(), on).context("set the carrier")
}

/// Removes all namespaces of the lab `name`. Processes in them live on, without a network.
///
/// # Errors
/// This is not root, or `ip` is missing.
pub(crate) fn remove(name: &str) -> anyhow::Result<()> {
    for line in ip(&["netns", "list"])?.lines() {
        let namespace = line.split_whitespace().next().unwrap_or_default();
        if is_host_of(name, namespace) {
            ip(&["netns", "del", namespace])?;
        }
    }
    Ok(())
}

/// Whether a namespace is a host of the lab `name`: `name`, a hyphen, a letter and a number.
fn is_host_of(name: &str, namespace: &str) -> bool {
    let host = namespace.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    let number = host.and_then(|host| host.strip_prefix(|letter| ('a'..='h').contains(&letter)));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// Runs `ip`; its output.
fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("ip").args(arguments).output().context("start `ip` (iproute2)")?;
    if !output.status.success() {
        let says = String::from_utf8_lossy(&output.stderr);
        bail!("`ip {}`: {}", arguments.join(" "), says.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: taking a lab down touches the namespaces of no other.
    #[test]
    fn only_its_own_hosts_are_of_a_lab() {
        for (name, namespace, ours) in [
            ("lab", "lab-a0", true),
            ("lab", "lab-b12", true),
            ("lab", "lab-a", false),
            ("lab", "lab-z0", false),
            ("lab", "lab-two-a0", false),
            ("lab-two", "lab-two-a0", true),
            ("lab", "laboratory-a0", false),
        ] {
            assert_eq!(is_host_of(name, namespace), ours, "{name}, {namespace}");
        }
    }
}
