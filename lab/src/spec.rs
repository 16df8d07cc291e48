//! What a lab is made of: its sites, hosts and networks, and how those are called and written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, bail};
use clap::Args;

const MIB: u64 = 1 << 20;
/// Least that a router's queue holds, and the least round trip it is made for.
const BUFFER_BYTES_MIN: u64 = MIB;
const BUFFER_ROUND_TRIP_NS_MIN: u64 = 10_000_000;
/// Packets on their way and waiting, where no rate bounds them: 10 Gbit/s over 200 ms.
const RING_BYTES_UNBOUNDED: u64 = 256 * MIB;

/// A lab, as its command line says it. Where a list gives one value for each network or site, the
/// last one holds for those that follow.
#[derive(Args, Clone, Debug)]
pub(crate) struct Spec {
    /// Name of the lab, and beginning of its namespaces' names
    #[arg(long, default_value = "lab")]
    pub(crate) name: String,
    /// Sites, called a, b, c ...
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    pub(crate) sites: u8,
    /// Hosts of each site: `4`, or `4,2`
    #[arg(long, default_value = "1", value_delimiter = ',',
          value_parser = clap::value_parser!(u8).range(1..=200))]
    pub(crate) peers: Vec<u8>,
    /// Networks; each host has an interface, net0, net1 ..., at each of them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) nics: u8,
    /// Round trip between sites, for each network: `90ms,10ms`; units us, ms, s
    #[arg(long, default_value = "0ms", value_delimiter = ',', value_parser = nanos)]
    pub(crate) rtt: Vec<u64>,
    /// Bits a second from each site into each network: `1g`; units k, m, g; 0: no limit
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = bits)]
    pub(crate) rate: Vec<u64>,
    /// Chance that a segment is lost, either way: `0.001` or `0.1%`
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = share)]
    pub(crate) loss: Vec<f64>,
    /// Chance that a bit of a segment's payload is flipped, so that no TCP checksum sees it
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = share)]
    pub(crate) corrupt: Vec<f64>,
    /// Bytes that wait for the wire before more is dropped: `8m`; 0: what the rate carries in a
    /// round trip, and at least 1 MiB
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = bytes)]
    pub(crate) buffer: Vec<u64>,
    /// Largest packet of every network, in bytes
    #[arg(long, default_value_t = 1500)]
    #[arg(value_parser = clap::value_parser!(u16).range(1280..=65_000))]
    pub(crate) mtu: u16,
    /// Let the hosts cut their data into segments themselves
    #[arg(long)]
    pub(crate) no_offload: bool,
    /// Most bytes of a TCP socket's buffers inside the lab: `256m`; 0: as the kernel has it, where
    /// 4 MiB of send buffer carry about 300 Mbit/s over 90 ms
    #[arg(long, default_value = "0", value_parser = bytes)]
    pub(crate) tcp_buf: u64,
    /// Bytes held on their way and waiting, for each site and network; 0: from rate and round trip
    #[arg(long, default_value = "0", value_parser = bytes)]
    pub(crate) ring: u64,
}

impl Spec {
    /// Hosts of a site.
    pub(crate) fn peers_of(&self, site: usize) -> usize {
        usize::from(at(&self.peers, site))
    }

    /// All hosts, as site and number.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..usize::from(self.sites))
            .flat_map(|site| (0..self.peers_of(site)).map(move |host| (site, host)))
    }

    /// Name of a host's namespace, as `ip netns` has it.
    pub(crate) fn namespace(&self, site: usize, host: usize) -> String {
        format!("{}-{}{host}", self.name, letter(site))
    }

    /// Bytes that wait for the wire of a network before more is dropped.
    pub(crate) fn buffer_bytes(&self, network: usize) -> u64 {
        match at(&self.buffer, network) {
            0 => product(
                at(&self.rate, network),
                at(&self.rtt, network).max(BUFFER_ROUND_TRIP_NS_MIN),
            )
            .max(BUFFER_BYTES_MIN),
            bytes => bytes,
        }
    }

    /// Bytes of memory for what one site has on its way into a network.
    pub(crate) fn ring_bytes(&self, network: usize) -> usize {
        let (rate, rtt_ns) = (at(&self.rate, network), at(&self.rtt, network));
        let bytes = match (self.ring, rate) {
            (0, 0) => RING_BYTES_UNBOUNDED,
            (0, _) => 2 * (self.buffer_bytes(network) + product(rate, rtt_ns)) + 8 * MIB,
            (bytes, _) => bytes,
        };
        bytes as usize
    }
}

/// Bytes that `rate` bits a second carry in a time.
fn product(rate: u64, nanos: u64) -> u64 {
    (u128::from(rate) * u128::from(nanos) / 8_000_000_000) as u64
}

/// The value of a list that holds at `index`; what clap has read is never empty.
pub(crate) fn at<T: Copy>(list: &[T], index: usize) -> T {
    list[index.min(list.len() - 1)]
}

/// A site's letter.
pub(crate) fn letter(site: usize) -> char {
    char::from(b'a' + site as u8)
}

/// A host's addresses at a network: 10.(50+network).(1+site).(1+host), and the same in fd50::.
pub(crate) fn addresses(network: usize, site: usize, host: usize) -> [IpAddr; 2] {
    let [network, site, host] = [network as u8, site as u8 + 1, host as u8 + 1];
    let groups = [0xfd50, u16::from(network), 0, 0, 0, 0, u16::from(site), u16::from(host)];
    [Ipv4Addr::new(10, 50 + network, site, host).into(), Ipv6Addr::from(groups).into()]
}

/// Where the emulator of a lab listens for commands.
pub(crate) fn socket_path(name: &str) -> String {
    format!("/run/penstock-lab-{name}.sock")
}

fn number(text: &str, units: &[(&str, f64)]) -> anyhow::Result<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic() || c == '%').unwrap_or(text.len());
    let value: f64 = text[..end].parse().with_context(|| format!("`{text}` is no number"))?;
    let unit = text[end..].to_ascii_lowercase();
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let known: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        bail!("`{text}` has no unit of `{}`", known.join("`, `"));
    };
    if value < 0.0 {
        bail!("`{text}` is less than nothing");
    }
    Ok(value * factor)
}

/// Reads a time; a bare number is in milliseconds.
pub(crate) fn nanos(text: &str) -> anyhow::Result<u64> {
    let units = [("", 1e6), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    number(text, &units).map(|value| value as u64)
}

/// Reads a rate in bits a second, in powers of 1,000.
pub(crate) fn bits(text: &str) -> anyhow::Result<u64> {
    let units = [("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9)];
    number(text, &units).map(|value| value as u64)
}

/// Reads a size in bytes, in powers of 1,024.
pub(crate) fn bytes(text: &str) -> anyhow::Result<u64> {
    let units = [("", 1.0), ("k", 1024.0), ("m", 1_048_576.0), ("g", 1_073_741_824.0)];
    number(text, &units).map(|value| value as u64)
}

/// Reads a chance, as a share of one or in per cent.
pub(crate) fn share(text: &str) -> anyhow::Result<f64> {
    let value = number(text, &[("", 1.0), ("%", 0.01)])?;
    if value > 1.0 {
        bail!("`{text}` is more than always");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: numbers mean what they say in every unit, and what is no number is refused.
    #[test]
    fn numbers_have_units() {
        assert_eq!(nanos("90ms").unwrap(), 90_000_000);
        assert_eq!(nanos("1.5").unwrap(), 1_500_000);
        assert_eq!(bits("2.5G").unwrap(), 2_500_000_000);
        assert_eq!(bytes("256m").unwrap(), 256 << 20);
        assert_eq!(share("0.1%").unwrap(), share("0.001").unwrap());
        for wrong in ["", "ms", "1x", "-1ms", "1 ms"] {
            assert!(nanos(wrong).is_err(), "`{wrong}`");
        }
        assert!(share("101%").is_err());
    }

    /// Promise: no two interfaces of the largest lab share an address.
    #[test]
    fn addresses_differ() {
        assert_eq!(addresses(0, 1, 0)[0].to_string(), "10.50.2.1");
        assert_eq!(addresses(1, 0, 3)[1].to_string(), "fd50:1::1:4");
        let last = addresses(99, 7, 199);
        assert_eq!(last[0].to_string(), "10.149.8.200");
    }
}
