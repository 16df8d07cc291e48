//! What a lab is made of: its sites, hosts and networks, and how those are called and written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Parser};

const MIB: u64 = 1 << 20;
/// Least that a router's queue holds, and the least round trip it is made for.
const BUFFER_BYTES_MIN: u64 = MIB;
const BUFFER_ROUND_TRIP_NS_MIN: u64 = 10_000_000;
/// Packets on their way and waiting, where no rate bounds them: 10 Gbit/s over 200 ms.
const RING_BYTES_UNBOUNDED: u64 = 256 * MIB;
/// The same for requests, pages and commands.
const RING_BYTES_MANAGEMENT: u64 = 16 * MIB;

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
    /// Networks for data; each host has an interface, net1, net2 ..., at each of them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) nics: u8,
    /// Hosts and networks alone, without daemons, etcd, and the network net0 for management; the
    /// first network for data is net0 then
    #[arg(long)]
    pub(crate) bare: bool,
    /// Round trip between sites, for each network for data: `90ms,10ms`; units us, ms, s
    #[arg(long, default_value = "0ms", value_delimiter = ',', value_parser = nanos)]
    pub(crate) rtt: Vec<u64>,
    /// Bits a second from each site into each network: `1g`; units k, m, g; 0: no limit
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = bits)]
    pub(crate) rate: Vec<u64>,
    /// Bits a second of each host's interface at each network, either way; 0: no limit
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = bits)]
    pub(crate) nic_rate: Vec<u64>,
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
    /// Peers of each site that take part at once: `3,1`; the other hosts wait for `join`. Default:
    /// all
    #[arg(long, value_delimiter = ',', conflicts_with = "bare",
          value_parser = clap::value_parser!(u8).range(1..=200))]
    pub(crate) joined: Vec<u8>,
    /// A further store of every peer, beside `data`: `null=null:`, `mem=mem:files=16,size=1G`. May
    /// be given again
    #[arg(long = "store", value_name = "NAME=PLACE", conflicts_with = "bare")]
    pub(crate) stores: Vec<String>,
    /// Seconds after which a silent controller is replaced
    #[arg(long, default_value_t = 5, conflicts_with = "bare")]
    pub(crate) lease_seconds: u64,
    /// Seconds after which what a silent target peer has in hand is given to others
    #[arg(long, default_value_t = 60, conflicts_with = "bare")]
    pub(crate) grant_seconds: u64,
    /// Where stores, journals, site directories and logs lie; removed by `down`. Default:
    /// penstock-lab-NAME in the directory for temporary files
    #[arg(long, conflicts_with = "bare")]
    pub(crate) root: Option<PathBuf>,
    /// The program whose daemons are run. Default: `penstock` beside this program
    #[arg(long, conflicts_with = "bare")]
    pub(crate) penstock: Option<PathBuf>,
}

/// The options alone, for whoever has them as words.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Options {
    #[command(flatten)]
    spec: Spec,
}

impl Spec {
    /// Understands the options of `up`.
    ///
    /// # Errors
    /// They are wrong; in words.
    pub(crate) fn read(options: &[String]) -> anyhow::Result<Self> {
        Ok(Options::try_parse_from(options)?.spec)
    }

    /// Hosts of a site.
    pub(crate) fn peers_of(&self, site: usize) -> usize {
        usize::from(at(&self.peers, site))
    }

    /// Peers of a site that take part from the beginning.
    pub(crate) fn joined_of(&self, site: usize) -> usize {
        match self.joined.as_slice() {
            [] => self.peers_of(site),
            joined => usize::from(at(joined, site)).min(self.peers_of(site)),
        }
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

    /// Networks, with the one for management.
    pub(crate) fn networks(&self) -> usize {
        usize::from(self.nics) + usize::from(!self.bare)
    }

    /// Whether a network is for management: nothing limits it but the least round trip.
    fn is_management(&self, network: usize) -> bool {
        !self.bare && network == 0
    }

    /// What a list says of a network; `management` of that for management.
    fn of<T: Copy>(&self, list: &[T], network: usize, management: T) -> T {
        match (self.is_management(network), self.bare) {
            (true, _) => management,
            (false, true) => at(list, network),
            (false, false) => at(list, network - 1),
        }
    }

    /// Round trip over a network, in nanoseconds.
    pub(crate) fn rtt(&self, network: usize) -> u64 {
        let least = self.rtt.iter().copied().min().unwrap_or(0);
        self.of(&self.rtt, network, least)
    }

    /// Bits a second from each site into a network; 0: no limit.
    pub(crate) fn rate(&self, network: usize) -> u64 {
        self.of(&self.rate, network, 0)
    }

    /// Bits a second of each interface at a network; 0: no limit.
    pub(crate) fn nic_rate(&self, network: usize) -> u64 {
        self.of(&self.nic_rate, network, 0)
    }

    /// Chance that a segment is lost in a network.
    pub(crate) fn loss(&self, network: usize) -> f64 {
        self.of(&self.loss, network, 0.0)
    }

    /// Chance that a bit of a segment is flipped in a network.
    pub(crate) fn corruption(&self, network: usize) -> f64 {
        self.of(&self.corrupt, network, 0.0)
    }

    /// The least rate that bounds a packet in a network; 0: none does.
    fn least_rate(&self, network: usize) -> u64 {
        match (self.rate(network), self.nic_rate(network)) {
            (0, rate) | (rate, 0) => rate,
            (site, nic) => site.min(nic),
        }
    }

    /// The most that a site sends into a network at once; 0: no limit.
    fn most_rate(&self, network: usize) -> u64 {
        let hosts = self.peers.iter().copied().max().map_or(1, u64::from);
        match (self.rate(network), self.nic_rate(network)) {
            (0, nic) => nic * hosts,
            (site, _) => site,
        }
    }

    /// Bytes that wait for the wire of a network before more is dropped.
    pub(crate) fn buffer_bytes(&self, network: usize) -> u64 {
        match self.of(&self.buffer, network, 0) {
            0 => product(self.least_rate(network), self.rtt(network).max(BUFFER_ROUND_TRIP_NS_MIN))
                .max(BUFFER_BYTES_MIN),
            bytes => bytes,
        }
    }

    /// Bytes of memory for what one site has on its way into a network.
    pub(crate) fn ring_bytes(&self, network: usize) -> usize {
        let rate = self.most_rate(network);
        let bytes = match (self.ring, rate) {
            (0, 0) if self.is_management(network) => RING_BYTES_MANAGEMENT,
            (0, 0) => RING_BYTES_UNBOUNDED,
            (0, _) => {
                let hosts = self.peers.iter().copied().max().map_or(1, u64::from);
                let waits = self.buffer_bytes(network) * hosts;
                2 * (waits + product(rate, self.rtt(network))) + 8 * MIB
            }
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

/// The site and number that a host's name says: `b1` is (1, 1).
pub(crate) fn host_of(name: &str) -> Option<(usize, usize)> {
    let mut letters = name.chars();
    let site = letters.next().filter(|letter| ('a'..='h').contains(letter))?;
    Some((site as usize - 'a' as usize, letters.as_str().parse().ok()?))
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
