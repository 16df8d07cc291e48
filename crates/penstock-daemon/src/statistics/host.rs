//! Reads the counters of the kernel, and turns their growth into figures.

use std::borrow::Cow;
use std::collections::BTreeMap;

use penstock_api::statistics::ProcessorTime;
use penstock_sys::{
    CardCounters, CpuSeconds, CpuTimes, DeviceNumber, DiskCounters, EnergyMeter, LOOPBACK,
    card_counters, cpu_times, disk_counters, host_memory, is_hardware_card, process_memory_bytes,
};

use super::sample::{
    CARD_IN, CARD_OUT, CARDS_IN, CARDS_OUT, CPU_BUSIEST, CPU_BUSY, CPU_GUEST, CPU_IOWAIT,
    CPU_STEAL, DISK_READ, DISK_WRITTEN, DISKS_READ, DISKS_WRITTEN, DRAM_WATTS, MEMORY_DAEMON,
    MEMORY_USED, PACKAGE_WATTS, Values, column_of,
};
use super::store_devices::StoreDevices;

/// Most cards, and most disks, that have columns of their own.
const PARTS_MAX: usize = 12;

/// Figures of the host between two looks.
#[derive(Clone, Debug, Default)]
pub(super) struct HostFigures {
    /// Figures of the whole host.
    pub(super) whole: Values,
    /// Figures of single cards and disks.
    pub(super) parts: Values,
    /// Busy time of each processor, in percent.
    pub(super) cores: Vec<(u32, f64)>,
}

/// The counters as they were at the last look.
#[derive(Debug)]
pub(super) struct HostCounters {
    cpus: BTreeMap<u32, CpuTimes>,
    cards: BTreeMap<String, CardCounters>,
    disks: BTreeMap<DeviceNumber, DiskCounters>,
    energy: EnergyMeter,
    devices: StoreDevices,
    /// Reason why energy cannot be measured; `None` if it can.
    pub(super) no_energy: Option<String>,
}

impl HostCounters {
    /// Creates counters that have not been looked at; `devices` are the disks that are shown.
    pub(super) fn new(energy: EnergyMeter, devices: StoreDevices) -> Self {
        Self {
            cpus: BTreeMap::new(),
            cards: BTreeMap::new(),
            disks: BTreeMap::new(),
            energy,
            devices,
            no_energy: None,
        }
    }

    /// Looks at all counters; returns the figures since the last look, `seconds` ago. Figures that
    /// the kernel does not show are missing. Does not block.
    pub(super) fn look(&mut self, seconds: f64) -> HostFigures {
        let mut figures = HostFigures::default();
        self.look_at_processors(&mut figures);
        self.look_at_cards(&mut figures, seconds);
        self.look_at_disks(&mut figures, seconds);
        if let Ok(memory) = host_memory() {
            push(&mut figures.whole, MEMORY_USED, memory.used_bytes() as f64);
        }
        if let Some(bytes) = process_memory_bytes() {
            push(&mut figures.whole, MEMORY_DAEMON, bytes as f64);
        }
        match self.energy.look() {
            Ok(joules) => {
                self.no_energy = None;
                if let Some(joules) = joules {
                    push(&mut figures.whole, PACKAGE_WATTS, joules.package / seconds);
                    let dram = joules.dram.map(|dram| dram / seconds);
                    dram.into_iter().for_each(|watts| push(&mut figures.whole, DRAM_WATTS, watts));
                }
            }
            Err(why) => self.no_energy = Some(why.to_string()),
        }
        figures
    }

    fn look_at_processors(&mut self, figures: &mut HostFigures) {
        let Ok(now) = cpu_times() else { return };
        let shares = now
            .iter()
            .filter_map(|(core, times)| Some((*core, times.shares_since(self.cpus.get(core)?)?)));
        let shares: Vec<_> = shares.collect();
        figures.cores = shares.iter().map(|(core, shares)| (*core, shares.busy)).collect();
        let means = [
            (CPU_BUSY, shares.iter().map(|(_, shares)| shares.busy).sum::<f64>()),
            (CPU_STEAL, shares.iter().map(|(_, shares)| shares.steal).sum()),
            (CPU_GUEST, shares.iter().map(|(_, shares)| shares.guest).sum()),
            (CPU_IOWAIT, shares.iter().map(|(_, shares)| shares.iowait).sum()),
        ];
        if !shares.is_empty() {
            let cores = shares.len() as f64;
            means.into_iter().for_each(|(name, sum)| push(&mut figures.whole, name, sum / cores));
            let busiest = figures.cores.iter().map(|(_, busy)| *busy).fold(0.0, f64::max);
            push(&mut figures.whole, CPU_BUSIEST, busiest);
        }
        self.cpus = now;
    }

    fn look_at_cards(&mut self, figures: &mut HostFigures, seconds: f64) {
        let Ok(now) = card_counters() else { return };
        let now = counted_cards(now, is_hardware_card);
        let (mut sums, mut is_known) = ([0.0; 2], false);
        for (at, (device, card)) in now.iter().enumerate() {
            let Some(before) = self.cards.get(device) else { continue };
            is_known = true;
            let grown = [
                card.received_bytes.saturating_sub(before.received_bytes),
                card.sent_bytes.saturating_sub(before.sent_bytes),
            ];
            for ((sum, bytes), name) in sums.iter_mut().zip(grown).zip([CARD_IN, CARD_OUT]) {
                let rate = 8.0 * bytes as f64 / seconds;
                *sum += rate;
                if at < PARTS_MAX {
                    figures.parts.push((column_of(name, device).into(), rate));
                }
            }
        }
        if is_known {
            push(&mut figures.whole, CARDS_IN, sums[0]);
            push(&mut figures.whole, CARDS_OUT, sums[1]);
        }
        self.cards = now;
    }

    fn look_at_disks(&mut self, figures: &mut HostFigures, seconds: f64) {
        let Ok(now) = disk_counters() else { return };
        let (mut sums, mut is_known) = ([0.0; 2], false);
        for (at, device) in self.devices.found().iter().enumerate() {
            let (Some(disk), Some(before)) = (now.get(device), self.disks.get(device)) else {
                continue;
            };
            is_known = true;
            let grown = [
                disk.read_bytes.saturating_sub(before.read_bytes),
                disk.written_bytes.saturating_sub(before.written_bytes),
            ];
            for ((sum, bytes), name) in sums.iter_mut().zip(grown).zip([DISK_READ, DISK_WRITTEN]) {
                let rate = bytes as f64 / seconds;
                *sum += rate;
                if at < PARTS_MAX {
                    figures.parts.push((column_of(name, &disk.name).into(), rate));
                }
            }
        }
        if is_known {
            push(&mut figures.whole, DISKS_READ, sums[0]);
            push(&mut figures.whole, DISKS_WRITTEN, sums[1]);
        }
        self.disks = now;
    }
}

/// Returns the time of the processors until now; `None` if the kernel does not show it.
pub(super) fn processor_time() -> Option<ProcessorTime> {
    let times = cpu_times().ok().filter(|times| !times.is_empty())?;
    let CpuSeconds { busy, steal, iowait, total } = CpuSeconds::sum_of(times.values());
    Some(ProcessorTime {
        processors: times.len() as u32,
        busy_s: busy,
        iowait_s: iowait,
        steal_s: steal,
        total_s: total,
    })
}

/// Returns the cards whose bytes are counted, by their names. Bonds, VLANs, bridges and the ends of
/// containers carry bytes that a card of hardware carries too. Without such a card all interfaces
/// but the loop-back are counted.
fn counted_cards(
    cards: Vec<CardCounters>,
    is_hardware: impl Fn(&str) -> bool,
) -> BTreeMap<String, CardCounters> {
    let cards = cards.into_iter().filter(|card| card.device != LOOPBACK);
    let (hardware, others): (Vec<_>, Vec<_>) = cards.partition(|card| is_hardware(&card.device));
    let counted = if hardware.is_empty() { others } else { hardware };
    counted.into_iter().map(|card| (card.device.clone(), card)).collect()
}

fn push(values: &mut Values, name: &'static str, value: f64) {
    values.push((Cow::Borrowed(name), value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Promise: bytes are counted once: at cards of hardware, or, without such a card, at all
    /// interfaces but the loop-back.
    #[test]
    fn bytes_are_counted_once() {
        let counted = |hardware: &[&str]| {
            let card = |device: &str| CardCounters {
                device: device.to_owned(),
                received_bytes: 1,
                sent_bytes: 2,
            };
            let cards = ["lo", "eth0", "bond0", "eth1", "veth7"].map(card).to_vec();
            let counted = counted_cards(cards, |device| hardware.contains(&device));
            counted.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(counted(&["eth0", "eth1"]), ["eth0", "eth1"]);
        assert_eq!(counted(&[]), ["bond0", "eth0", "eth1", "veth7"]);
    }

    /// Promise: the second look at a host has figures of its processors, its memory and the disk of
    /// a store, and the reason why it has none of energy.
    #[test]
    fn a_host_has_figures() {
        let devices = StoreDevices::default();
        devices.look(vec![std::env::current_dir().unwrap()]);
        let energy = EnergyMeter::new(Path::new("/nowhere-at-all"));
        let mut counters = HostCounters::new(energy, devices);
        let first = counters.look(1.0);
        assert!(first.cores.is_empty());
        // Counters of processors grow by hundredths of a second.
        let names = loop {
            let figures = counters.look(1.0);
            if !figures.cores.is_empty() {
                break figures.whole.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            }
        };
        for name in [CPU_BUSY, CPU_BUSIEST, CPU_STEAL, MEMORY_USED, MEMORY_DAEMON] {
            assert!(names.contains(&Cow::Borrowed(name)), "{name} in {names:?}");
        }
        let why = counters.no_energy.unwrap();
        assert!(why.contains("/nowhere-at-all"), "{why}");
    }
}
