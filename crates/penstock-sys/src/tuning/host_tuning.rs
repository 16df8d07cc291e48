//! Settings of a host as a whole: the kernel's, the processors', the NUMA nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::card_tuning::CardTuning;
use super::cpu_list::parse_cpu_list;
use super::queue_discipline::queue_disciplines;
use super::receive_ring::receive_ring;
use crate::host::kernel_version;

/// Settings that are read, as sysctl(8) names them (Documentation/networking/ip-sysctl.rst and
/// Documentation/admin-guide/sysctl/net.rst of Linux).
pub const TUNED_SETTINGS: [&str; 11] = [
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_no_ssthresh_metrics_save",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Settings of a host that decide how fast it moves data. A setting that cannot be read is left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTuning {
    /// The kernel's version, major and minor.
    pub kernel: (u32, u32),
    /// The settings of [`TUNED_SETTINGS`] that this kernel has, words separated by one blank.
    pub settings: BTreeMap<String, String>,
    /// Numbers of processors by governor of their clock; empty where the kernel does not choose it.
    pub governors: BTreeMap<String, usize>,
    /// True if processors are threads that share cores; `None` where the kernel does not report it.
    pub shared_cores: Option<bool>,
    /// Processors of each NUMA node.
    pub nodes: BTreeMap<u32, Vec<usize>>,
    /// Packets that were dropped since the boot as the queue of a processor was full.
    pub backlog_dropped: u64,
    /// True if a process `irqbalance` is visible. A process that `/proc` hides is not visible.
    pub irqbalance: bool,
    /// Cards of hardware, by name.
    pub cards: Vec<CardTuning>,
}

impl HostTuning {
    /// Reads the settings of this host. Takes some milliseconds.
    #[must_use]
    pub fn read() -> Self {
        let mut tuning = Self::read_tree(Path::new("/"));
        tuning.kernel = kernel_version();
        let queues = queue_disciplines().unwrap_or_default();
        for card in &mut tuning.cards {
            card.ring = receive_ring(&card.device).ok();
            card.queues = queues.get(&card.index).cloned().unwrap_or_default();
        }
        tuning
    }

    /// Reads the settings in `proc` and `sys` below a directory: all but the kernel's version,
    /// rings and queues.
    #[must_use]
    pub fn read_tree(root: &Path) -> Self {
        let cpus = root.join("sys/devices/system/cpu");
        let text = |path: &Path| fs::read_to_string(path).ok();
        let mut governors = BTreeMap::new();
        for (_, cpu) in numbered(&cpus, "cpu") {
            if let Some(governor) = text(&cpu.join("cpufreq/scaling_governor")) {
                *governors.entry(governor.trim().to_owned()).or_insert(0) += 1;
            }
        }
        let nodes = numbered(&root.join("sys/devices/system/node"), "node").into_iter();
        Self {
            kernel: (0, 0),
            settings: settings(&root.join("proc/sys")),
            governors,
            shared_cores: text(&cpus.join("smt/active")).map(|active| active.trim() == "1"),
            nodes: nodes
                .filter_map(|(node, path)| {
                    Some((node, parse_cpu_list(&text(&path.join("cpulist"))?)))
                })
                .filter(|(_, cpus)| !cpus.is_empty())
                .collect(),
            backlog_dropped: dropped(
                &text(&root.join("proc/net/softnet_stat")).unwrap_or_default(),
            ),
            irqbalance: numbered(&root.join("proc"), "").iter().any(|(_, process)| {
                text(&process.join("comm")).is_some_and(|name| name.trim() == "irqbalance")
            }),
            cards: super::card_tuning::cards(root),
        }
    }
}

fn settings(root: &Path) -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let value = fs::read_to_string(root.join(name.replace('.', "/"))).ok()?;
        let words: Vec<_> = value.split_whitespace().collect();
        Some(((*name).to_owned(), words.join(" ")))
    };
    TUNED_SETTINGS.iter().filter_map(read).collect()
}

/// Returns the entries of a directory whose names are a word and a number, by number.
fn numbered(directory: &Path, word: &str) -> BTreeMap<u32, std::path::PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let numbered = |entry: fs::DirEntry| {
        let name = entry.file_name();
        Some((name.to_str()?.strip_prefix(word)?.parse().ok()?, entry.path()))
    };
    entries.filter_map(numbered).collect()
}

/// Returns the sum of the second column of `/proc/net/softnet_stat`, a line for each processor, in
/// hexadecimal (`softnet_seq_show`, net/core/net-procfs.c of Linux).
fn dropped(text: &str) -> u64 {
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(column).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from a virtual machine of two processors with one card of virtio.
    const VIRTUAL: &[(&str, &str)] = &[
        ("proc/sys/net/core/rmem_max", "4194304\n"),
        ("proc/sys/net/core/default_qdisc", "pfifo_fast\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n"),
        ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
        (
            "proc/net/softnet_stat",
            "0006e0c4 00000000 0000001f 00000000 00000000 00000000 00000000 00000000 00000000\n",
        ),
        ("sys/devices/system/cpu/cpu0/cpu_capacity", "1024\n"),
        ("sys/devices/system/cpu/cpu1/cpu_capacity", "1024\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/class/net/lo/mtu", "65536\n"),
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("sys/class/net/eth0/mtu", "1400\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/eth0/speed", "-1\n"),
        ("sys/class/net/eth0/statistics/rx_packets", "190038\n"),
        ("sys/class/net/eth0/device/status", "0x0000000f\n"),
    ];
    /// A server of two sockets with a card of 100 Gbit/s at the second one, as Documentation/ABI of
    /// Linux describes these files.
    const SERVER: &[(&str, &str)] = &[
        ("proc/1/comm", "systemd\n"),
        ("proc/812/comm", "irqbalance\n"),
        ("proc/self/comm", "penstock\n"),
        ("proc/irq/91/effective_affinity_list", "0\n"),
        ("proc/irq/91/smp_affinity_list", "0-3\n"),
        ("proc/irq/92/smp_affinity_list", "2-3\n"),
        ("proc/net/softnet_stat", "00000010 0000000a\n00000010 00000001\nx\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/x", "\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("sys/devices/system/node/node2/cpulist", "\n"),
        ("sys/devices/system/node/online", "0-2\n"),
        ("sys/class/net/bond0/mtu", "9000\n"),
        ("sys/class/net/ens1/ifindex", "4\n"),
        ("sys/class/net/ens1/mtu", "9000\n"),
        ("sys/class/net/ens1/operstate", "up\n"),
        ("sys/class/net/ens1/speed", "100000\n"),
        ("sys/class/net/ens1/statistics/rx_packets", "1000000\n"),
        ("sys/class/net/ens1/statistics/rx_missed_errors", "40\n"),
        ("sys/class/net/ens1/statistics/rx_fifo_errors", "2\n"),
        ("sys/class/net/ens1/device/numa_node", "1\n"),
        ("sys/class/net/ens1/device/msi_irqs/91", "msix\n"),
        ("sys/class/net/ens1/device/msi_irqs/92", "msix\n"),
    ];

    fn tree(files: &[(&str, &str)]) -> HostTuning {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        HostTuning::read_tree(root.path())
    }

    /// Promise: of a virtual machine, which shows little, nothing is made up.
    #[test]
    fn a_virtual_machine_is_read() {
        let host = tree(VIRTUAL);
        assert_eq!(host.settings["net.ipv4.tcp_rmem"], "4096 131072 33554432");
        assert_eq!(host.settings.len(), 4);
        assert!(host.governors.is_empty() && !host.irqbalance);
        assert_eq!((host.shared_cores, host.backlog_dropped), (Some(false), 0));
        assert_eq!(host.nodes, BTreeMap::from([(0, vec![0, 1])]));
        let [card] = &host.cards[..] else { panic!("{:?}", host.cards) };
        let expected = CardTuning {
            device: "eth0".to_owned(),
            index: 2,
            running: true,
            mtu: 1400,
            received: 190_038,
            ..CardTuning::default()
        };
        assert_eq!(*card, expected);
        assert_eq!(tree(&[]), HostTuning::default());
    }

    /// Promise: governors, nodes, interrupts and losses of a server are those of its files; nodes
    /// of memory alone and interfaces that are no cards are left out.
    #[test]
    fn a_server_is_read() {
        let host = tree(SERVER);
        let governors = [("performance".to_owned(), 1), ("powersave".to_owned(), 2)];
        assert_eq!(host.governors, BTreeMap::from(governors));
        assert_eq!((host.shared_cores, host.backlog_dropped), (Some(true), 11));
        assert!(host.irqbalance);
        assert_eq!(host.nodes, BTreeMap::from([(0, vec![0, 1]), (1, vec![2, 3])]));
        let [card] = &host.cards[..] else { panic!("{:?}", host.cards) };
        assert_eq!((card.speed_mbit, card.node, card.unbuffered), (Some(100_000), Some(1), 42));
        // The processor in effect counts before those that are allowed.
        assert_eq!(card.interrupts, BTreeMap::from([(91, vec![0]), (92, vec![2, 3])]));
    }

    /// Promise: the host of this test is read too, with the congestion control that each has.
    #[test]
    fn this_host_is_read() {
        let host = HostTuning::read();
        assert!(host.settings.contains_key("net.ipv4.tcp_congestion_control"), "{host:?}");
        assert!(!host.nodes.is_empty() || !Path::new("/sys/devices/system/node").exists());
    }
}
