//! What the hosts of a lab use, by the kernel's own counters.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;

use crate::lab::Lab;

/// What a tick in /proc/PID/stat is: USER_HZ, which is 100 on every Linux of today (proc(5)).
const TICK: Duration = Duration::from_millis(10);
/// In /proc/PID/stat, behind the name: CPU time in user and in kernel mode.
const FIELDS_CPU: [usize; 2] = [11, 12];

impl Lab {
    /// Bytes that each interface of a host has received and sent, all read at the same moment: what
    /// /sys/class/net/*/statistics has there.
    ///
    /// # Errors
    /// No daemon runs at that host.
    pub fn counters(&self, host: &str) -> anyhow::Result<BTreeMap<String, [u64; 2]>> {
        let path = format!("/proc/{}/net/dev", self.process_id(host)?);
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        Ok(read_counters(&text))
    }

    /// CPU time that the daemons and members of etcd which run now have used since they were
    /// started.
    pub fn cpu_time(&self) -> Duration {
        let processes = self.saved.daemons.values().chain(self.saved.members.values());
        processes.map(|process| cpu_time_of(process.id())).sum()
    }
}

/// Understands /proc/PID/net/dev: a line `name: received … sent …` for each interface.
fn read_counters(text: &str) -> BTreeMap<String, [u64; 2]> {
    let line = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> =
            numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        Some((name.trim().to_owned(), [*numbers.first()?, *numbers.get(8)?]))
    };
    text.lines().filter_map(line).collect()
}

/// None is used by a process that has ended.
fn cpu_time_of(id: i32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let Some((_, fields)) = text.rsplit_once(") ") else { return Duration::ZERO };
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = FIELDS_CPU.iter().filter_map(|&at| fields.get(at)?.parse::<u32>().ok());
    TICK * ticks.sum::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: counters are those of the interfaces, and CPU time is what was used.
    #[test]
    fn counters_and_cpu_time_are_read() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame \
                    compressed multicast|bytes packets\n  lo:  5 1 0 0 0 0 0 0  6 1 0 0 0 0 0 0\n\
                    net1: 70 2 0 0 0 0 0 0 80 3 0 0 0 0 0 0\n";
        let counters = read_counters(text);
        assert_eq!(counters["net1"], [70, 80]);
        assert_eq!(counters.len(), 2);
        let begun = std::time::Instant::now();
        let own = i32::try_from(std::process::id()).unwrap();
        while cpu_time_of(own).is_zero() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no tick is counted");
        }
        assert_eq!(cpu_time_of(-1), Duration::ZERO);
    }
}
