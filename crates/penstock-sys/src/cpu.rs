//! Processors: how many this process may use, and binding threads to them.

use std::fs;
use std::io;
use std::mem::MaybeUninit;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Descriptors that the threads of one processor may need, with a share of those of the process.
const DESCRIPTORS_PER_CPU: u64 = 32;

/// Returns how many processors this process may keep busy: the least of those online, those in its
/// affinity mask and its cgroup's quota (v1 and v2), rounded up; at least 1. A low limit of
/// descriptors lowers the number further: each processor needs some 32.
pub fn available_cpus() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let served = usize::try_from(descriptors / DESCRIPTORS_PER_CPU).unwrap_or(usize::MAX);
    std::thread::available_parallelism().map_or(1, usize::from).min(served).max(1)
}

/// Returns the numbers of the processors that the calling thread may run on, ascending. Empty if
/// the kernel does not report them, or numbers more than 1,024 of them. There may be more than
/// [`available_cpus`], as a cgroup's quota names a count and no processors.
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Binds the calling thread to processor number `cpu`.
///
/// # Errors
/// `EINVAL` if that processor is not there, or not allowed by the cgroup. A thread that could not
/// be bound works all the same, only less predictably.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Binds the calling thread, and all threads that it starts from now on, to at most `most` of the
/// processors that it may run on. [`available_cpus`] follows. Which ones depends on the process
/// number, so that several bound processes do not share one and leave the others idle.
///
/// # Errors
/// As of sched_setaffinity(2).
pub fn bind_to_cpus(most: usize) -> io::Result<()> {
    let allowed = allowed_cpus();
    if allowed.len() <= most.max(1) {
        return Ok(());
    }
    let first = std::process::id() as usize % allowed.len();
    let mut set = CpuSet::new();
    for cpu in allowed.iter().cycle().skip(first).take(most.max(1)) {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the processor time that this process has used in all its threads, user and system, in
/// seconds.
pub fn cpu_seconds() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for a write of one `rusage`; the call writes nothing else.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: all bytes were zeroed, and zero is valid for every field of `rusage`.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Processor time of a thread, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Nanoseconds on a processor, user and system.
    pub on_cpu: u64,
    /// Nanoseconds in which it could run and waited for a processor; 0 where the kernel does not
    /// count that.
    pub waited: u64,
}

/// Returns the processor time of the calling thread, by `/proc/thread-self/schedstat`
/// (Documentation/scheduler/sched-stats.rst of Linux), else by the thread's clock. Costs some
/// microseconds, and opens a descriptor meanwhile.
pub fn thread_times() -> ThreadTimes {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = told.split_ascii_whitespace().map_while(|number| number.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(on_cpu), Some(waited)) if on_cpu > 0 => ThreadTimes { on_cpu, waited },
        _ => {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            let seconds = time.tv_sec.unsigned_abs() * 1_000_000_000;
            ThreadTimes { on_cpu: seconds + time.tv_nsec.unsigned_abs(), waited: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: workers are counted and pinned within the processors that the host grants us.
    #[test]
    fn a_thread_stays_on_the_processor_it_was_bound_to() {
        let allowed = allowed_cpus();
        assert!(available_cpus() >= 1 && available_cpus() <= allowed.len());
        let cpu = *allowed.last().unwrap();
        let pinned = std::thread::spawn(move || {
            pin_thread(cpu).unwrap();
            allowed_cpus()
        });
        assert_eq!(pinned.join().unwrap(), [cpu]);
        assert!(pin_thread(CpuSet::MAX_CPU).is_err());
    }

    /// Promise: a process that is bound to some processors counts no more of them, also in threads
    /// that it starts.
    #[test]
    fn bound_threads_count_on_fewer_processors() {
        let bound = std::thread::spawn(|| {
            bind_to_cpus(1).unwrap();
            std::thread::spawn(|| (allowed_cpus().len(), available_cpus())).join().unwrap()
        });
        assert_eq!(bound.join().unwrap(), (1, 1));
    }

    /// Promise: the processor time of a thread is its own: it grows with its work, and not with
    /// that of others.
    #[test]
    fn a_thread_knows_its_own_processor_time() {
        let work = || {
            let (before, mut value) = (thread_times(), 1u64);
            while thread_times().on_cpu < before.on_cpu + 5_000_000 {
                value = std::hint::black_box(value.wrapping_mul(3));
            }
        };
        std::thread::spawn(move || {
            let before = thread_times();
            std::thread::spawn(work).join().unwrap();
            let after = thread_times();
            assert!(after.on_cpu - before.on_cpu < 5_000_000, "{before:?} {after:?}");
            assert!(after.waited >= before.waited);
        })
        .join()
        .unwrap();
    }

    /// Promise: reported CPU seconds grow with work done.
    #[test]
    fn work_costs_processor_time() {
        let before = cpu_seconds();
        let mut value = 1u64;
        while cpu_seconds() <= before {
            value = std::hint::black_box(value.wrapping_mul(3));
        }
        assert!(cpu_seconds() > before);
    }
}
