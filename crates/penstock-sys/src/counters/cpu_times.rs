//! Time that each processor spent in each state.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// Fields of a line of `/proc/stat` that are read, from `user` to `guest_nice`.
const FIELDS: usize = 10;
/// Fewest fields that a line has: kernels before 2.6.33 lack the last ones.
const FIELDS_MIN: usize = 4;
/// Ticks of a second: `USER_HZ` of Linux on x86-64 and ARM (time(7)).
const TICKS_PER_SECOND: f64 = 100.0;

/// Time of one processor since the boot, in ticks of `USER_HZ`, 100 a second (proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// User code, that of guests included.
    pub user: u64,
    /// User code of lowered priority, that of guests included.
    pub nice: u64,
    /// The kernel.
    pub system: u64,
    /// Idle time.
    pub idle: u64,
    /// Idle time while a disk works.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Deferred work of interrupts.
    pub softirq: u64,
    /// Time in which the hypervisor ran something else.
    pub steal: u64,
    /// Guests of this host; a part of `user`.
    pub guest: u64,
    /// Guests of lowered priority; a part of `nice`.
    pub guest_nice: u64,
}

/// Shares of a time span, in percent of it. They are those of htop, which subtracts guests from
/// user code and counts them once; `busy` has all that ran on this host, and `steal` is apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuShares {
    /// User code, kernel, interrupts and guests.
    pub busy: f64,
    /// Time that the hypervisor gave to others.
    pub steal: f64,
    /// Guests of this host, a part of `busy`.
    pub guest: f64,
    /// Idle time in which a disk was awaited.
    pub iowait: f64,
}

/// Time of all processors of a host together, in seconds since its boot. The parts are those of
/// [`CpuShares`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuSeconds {
    /// User code, kernel, interrupts and guests.
    pub busy: f64,
    /// Time that the hypervisor gave to others.
    pub steal: f64,
    /// Idle time in which a disk was awaited.
    pub iowait: f64,
    /// All time, idle time included.
    pub total: f64,
}

impl CpuSeconds {
    /// Returns the sum over processors.
    pub fn sum_of<'a>(processors: impl IntoIterator<Item = &'a CpuTimes>) -> Self {
        let mut ticks = [0_u64; 4];
        for times in processors {
            let [user, nice, system, idle, iowait, steal, guest] = times.apart();
            let busy = user + nice + system + guest;
            let parts = [busy, steal, iowait, busy + steal + iowait + idle];
            ticks.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        let [busy, steal, iowait, total] = ticks.map(|ticks| ticks as f64 / TICKS_PER_SECOND);
        Self { busy, steal, iowait, total }
    }
}

impl CpuTimes {
    /// Returns the shares of the time since `earlier`; `None` if no time has passed. A counter that
    /// went back, as those of idle time may (proc_stat(5)), counts as unchanged.
    pub fn shares_since(&self, earlier: &Self) -> Option<CpuShares> {
        let (now, then) = (self.apart(), earlier.apart());
        let passed: Vec<u64> = now.iter().zip(then).map(|(n, t)| n.saturating_sub(t)).collect();
        let [user, nice, system, idle, iowait, steal, guest] = passed[..] else { return None };
        let total = user + nice + system + idle + iowait + steal + guest;
        let percent = |ticks: u64| 100.0 * ticks as f64 / total as f64;
        (total > 0).then(|| CpuShares {
            busy: percent(user + nice + system + guest),
            steal: percent(steal),
            guest: percent(guest),
            iowait: percent(iowait),
        })
    }

    /// Returns times that have no part in common: user, nice, system, idle, iowait, steal, guests.
    fn apart(&self) -> [u64; 7] {
        [
            self.user.saturating_sub(self.guest),
            self.nice.saturating_sub(self.guest_nice),
            self.system + self.irq + self.softirq,
            self.idle,
            self.iowait,
            self.steal,
            self.guest + self.guest_nice,
        ]
    }
}

/// Returns the times of each processor that is online, by its number.
///
/// # Errors
/// `/proc` is not mounted.
pub fn cpu_times() -> io::Result<BTreeMap<u32, CpuTimes>> {
    Ok(parse_cpu_times(&fs::read_to_string("/proc/stat")?))
}

/// Reads the lines `cpuN` of a text of `/proc/stat`. An invalid line is left out; fields that an
/// old kernel lacks are zero.
fn parse_cpu_times(text: &str) -> BTreeMap<u32, CpuTimes> {
    // The first lines are those of processors, and the line of interrupts is very long.
    text.lines().take_while(|line| line.starts_with("cpu")).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(u32, CpuTimes)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    // The sum of all processors has no number.
    let number = line.as_bytes().get(3).filter(|byte| byte.is_ascii_digit()).and(words.next())?;
    let mut fields = [0; FIELDS];
    let mut found = 0;
    for (field, word) in fields.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        found += 1;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice] = fields;
    let times =
        CpuTimes { user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice };
    (found >= FIELDS_MIN).then_some((number.parse().ok()?, times))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "what a test skips")]
mod tests {
    use super::*;

    /// Two looks at a host with guests and a hypervisor above it, a second apart.
    const BEFORE: &str = "\
cpu  300 0 100 800 100 0 0 100 100 0
cpu0 100 0 50 400 50 0 0 0 0 0
cpu1 200 0 50 400 50 0 0 100 100 0
intr 5 6 7
";
    const AFTER: &str = "\
cpu  400 20 140 860 100 5 5 120 150 10
cpu0 110 0 60 460 49 5 5 10 0 0
cpu1 290 20 80 400 51 0 0 110 150 10
cpu7 1 2 3 4
cpu8 1 2 3
cpu9 x 2 3 4
intr 5 6 7
";

    /// Promise: shares are those that htop shows: guests count once, stolen time is no work of this
    /// host, and a counter that goes back adds nothing.
    #[test]
    fn shares_are_those_of_htop() {
        let (before, after) = (parse_cpu_times(BEFORE), parse_cpu_times(AFTER));
        // Of 100 ticks: user 10, system 10, interrupts 10, idle 60, stolen 10; iowait went back.
        let first = after[&0].shares_since(&before[&0]).unwrap();
        assert_eq!(first, CpuShares { busy: 30.0, steal: 10.0, guest: 0.0, iowait: 0.0 });
        // User 90 of which guests 50, nice 20 of which guests 10, system 30, iowait 1, stolen 10.
        let second = after[&1].shares_since(&before[&1]).unwrap();
        let total = 40.0 + 10.0 + 30.0 + 1.0 + 10.0 + 60.0;
        let percent = |ticks: f64| 100.0 * ticks / total;
        assert!((second.busy - percent(140.0)).abs() < 1e-9, "{second:?}");
        assert!((second.steal - percent(10.0)).abs() < 1e-9);
        assert!((second.guest - percent(60.0)).abs() < 1e-9);
        assert!((second.iowait - percent(1.0)).abs() < 1e-9);
    }

    /// Promise: the seconds of a host are the sums over its processors; guests count once, and
    /// stolen time is no work of this host.
    #[test]
    fn seconds_are_sums_over_processors() {
        let seconds = CpuSeconds::sum_of(parse_cpu_times(BEFORE).values());
        // Busy 150 and 250 ticks, idle 400 each, waiting 50 each, stolen 100.
        assert_eq!(seconds, CpuSeconds { busy: 4.0, steal: 1.0, iowait: 1.0, total: 14.0 });
        assert_eq!(CpuSeconds::sum_of([]), CpuSeconds::default());
    }

    /// Promise: a processor may be added or removed, and has no share of a time in which it was
    /// absent. Damaged lines are left out, and texts of old kernels are read.
    #[test]
    fn processors_come_and_go() {
        let (before, after) = (parse_cpu_times(BEFORE), parse_cpu_times(AFTER));
        assert_eq!(before.keys().copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(after.keys().copied().collect::<Vec<_>>(), [0, 1, 7]);
        let old = CpuTimes { user: 1, nice: 2, system: 3, idle: 4, ..CpuTimes::default() };
        assert_eq!(after[&7], old);
        assert_eq!(after[&7].shares_since(&after[&7]), None);
        // The counters of a processor that was removed and is back begin at less.
        let back = CpuTimes { user: 100, idle: 500, ..CpuTimes::default() };
        let shares = back.shares_since(&before[&0]).unwrap();
        assert_eq!((shares.busy, shares.steal), (0.0, 0.0));
    }

    /// Promise (kernel cross-check, within 1 %): the busy time of a processor has all the time of a
    /// thread that is bound to it, and all times together are the time that has passed.
    #[test]
    fn busy_time_is_that_of_the_kernel() {
        const TICKS: u64 = 300;
        let cpu = *crate::allowed_cpus().last().unwrap();
        let worked = std::thread::spawn(move || {
            crate::pin_thread(cpu).unwrap();
            let (began, before, own_before) = (now(), look(cpu), own_ticks());
            while own_ticks() - own_before < TICKS {
                (0..100_000).for_each(|number| {
                    std::hint::black_box(number);
                });
            }
            (began, now(), before, look(cpu), own_ticks() - own_before)
        });
        let (began, ended, before, after, own) = worked.join().unwrap();
        let shares = after.shares_since(&before).unwrap();
        let total: u64 =
            after.apart().iter().zip(before.apart()).map(|(n, t)| n.saturating_sub(t)).sum();
        let busy = shares.busy * total as f64 / 100.0;
        assert!(busy >= 0.99 * own as f64 - 1.0, "busy for {busy} ticks, the thread for {own}");
        let passed = (ended - began) * 100.0;
        // The counters of an idle processor come in late on a kernel without ticks.
        assert!((total as f64 - passed).abs() <= 0.01 * passed + 3.0, "{total} of {passed} ticks");
        if busy > 1.01 * own as f64 + 1.0 {
            println!("NOT JUDGED: other programs used that processor: {busy} of {own} ticks");
        }
    }

    fn now() -> f64 {
        crate::boottime_now().0 as f64 / 1e9
    }

    fn look(cpu: usize) -> CpuTimes {
        cpu_times().unwrap()[&(cpu as u32)]
    }

    /// Ticks of the calling thread, fields 14 and 15 of proc_pid_stat(5).
    fn own_ticks() -> u64 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = stat.rsplit(") ").next().unwrap();
        fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }
}
