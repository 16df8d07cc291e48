//! Settings of the network cards of a host.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::cpu_list::parse_cpu_list;
use super::queue_discipline::QueueDiscipline;
use super::receive_ring::ReceiveRing;

/// Settings of one network card. A setting that cannot be read is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardTuning {
    /// Name of the interface.
    pub device: String,
    /// Number of the interface.
    pub index: u32,
    /// True if it is up and has a carrier.
    pub running: bool,
    /// Speed of the link in Mbit/s; `None` where the driver does not know it, as in most virtual
    /// machines.
    pub speed_mbit: Option<u64>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// The NUMA node that it is at; `None` where there is one node only.
    pub node: Option<u32>,
    /// Its interrupts, each with the processors that serve it.
    pub interrupts: BTreeMap<u32, Vec<usize>>,
    /// Packets received since it came up.
    pub received: u64,
    /// Packets lost since then because no buffer was free for them.
    pub unbuffered: u64,
    /// Its receive ring.
    pub ring: Option<ReceiveRing>,
    /// Its queues of packets to be sent.
    pub queues: Vec<QueueDiscipline>,
}

/// Reads the cards of hardware below a directory: those with a device (sysfs(5)).
pub(super) fn cards(root: &Path) -> Vec<CardTuning> {
    let entries = fs::read_dir(root.join("sys/class/net")).into_iter().flatten().flatten();
    let mut cards: Vec<_> = entries
        .filter(|entry| entry.path().join("device").exists())
        .filter_map(|entry| Some(card(root, &entry.path(), entry.file_name().to_str()?)))
        .collect();
    cards.sort_by(|a, b| a.device.cmp(&b.device));
    cards
}

/// Reads one card (Documentation/ABI/testing/sysfs-class-net and sysfs-bus-pci of Linux).
fn card(root: &Path, path: &Path, device: &str) -> CardTuning {
    let text = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    // Unknown speeds and nodes are -1, which is no number here.
    let number = |name: &str| text(name).trim().parse::<u64>().ok();
    let count = |name: &str| number(&format!("statistics/{name}")).unwrap_or(0);
    CardTuning {
        device: device.to_owned(),
        index: number("ifindex").and_then(|it| it.try_into().ok()).unwrap_or(0),
        running: text("operstate").trim() == "up",
        speed_mbit: number("speed").filter(|speed| (1..u64::from(u32::MAX)).contains(speed)),
        mtu: number("mtu").and_then(|it| it.try_into().ok()).unwrap_or(0),
        node: number("device/numa_node").and_then(|it| it.try_into().ok()),
        interrupts: interrupts(root, &path.join("device/msi_irqs")),
        received: count("rx_packets"),
        unbuffered: count("rx_missed_errors") + count("rx_fifo_errors"),
        ring: None,
        queues: Vec::new(),
    }
}

/// Reads the interrupts of a device, each with the processors in effect, else with those allowed
/// (Documentation/core-api/irq/irq-affinity.rst of Linux).
fn interrupts(root: &Path, directory: &Path) -> BTreeMap<u32, Vec<usize>> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let processors = |number: u32| {
        let file = |name: &str| {
            let path = root.join(format!("proc/irq/{number}/{name}"));
            fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty())
        };
        let list = file("effective_affinity_list").or_else(|| file("smp_affinity_list"))?;
        Some((number, parse_cpu_list(&list)))
    };
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(processors).collect()
}
