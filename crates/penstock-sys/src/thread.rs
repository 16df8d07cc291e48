//! The kernel's view of a thread of this process: whether it makes progress, or hangs in a call.

use std::fs;

/// Returns the number of the calling thread (gettid(2)).
pub fn thread_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Returns a value that changes whenever a thread of this process has made progress: how often it
/// has gone to sleep and woken, as proc_pid_status(5) counts it. The kernel itself decides by this
/// count that a thread hangs (`hung_task_timeout_secs`, kernel/hung_task.c). `None` if the thread
/// is running at this moment, has ended, or has no count.
pub fn sleeps_of(thread: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    if value("State:")?.starts_with('R') {
        return None;
    }
    let count = |key: &str| value(key)?.parse::<u64>().ok();
    Some(count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Promise: a thread that waits all the while shows one value; once it has woken, another.
    #[test]
    fn a_thread_that_waits_shows_no_sign_of_life() {
        let (number, told) = channel();
        let (wake, woken) = channel();
        let thread = std::thread::spawn(move || {
            number.send(thread_number()).unwrap();
            while woken.recv().is_ok() {}
        });
        let number = told.recv().unwrap();
        let asleep = || loop {
            if let Some(sleeps) = sleeps_of(number) {
                return sleeps;
            }
            std::thread::yield_now();
        };
        let settled = |mut last| loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = asleep();
            if now == last {
                return now;
            }
            last = now;
        };
        let before = settled(asleep());
        wake.send(()).unwrap();
        assert!(settled(asleep()) > before);
        drop(wake);
        thread.join().unwrap();
        assert_eq!(sleeps_of(number), None, "it is gone");
    }
}
