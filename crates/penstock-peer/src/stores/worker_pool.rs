//! Threads for a limited time, of which fewer may start than wanted. A limit of tasks (`TasksMax`,
//! `pids.max`) slows work down and stops none of it.

use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a thread of a scope.
///
/// # Errors
/// No more threads can be started now.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).inspect_err(|cause| {
        tracing::warn!(%cause, "cannot start a thread: others do its work");
    })
}

/// Runs the same work on `count` threads, or on as many as can be started; on this thread if none
/// can. Returns when all have finished.
pub(crate) fn at_once(count: usize, work: &(impl Fn() + Sync)) {
    std::thread::scope(|scope| {
        let started = (0..count).take_while(|_| start(scope, work).is_ok()).count();
        if started < count.min(1) {
            work();
        }
    });
}

/// Returns whether no thread can be started in this process, in which the test then continues.
/// Otherwise runs the test in such a process first, and returns `false` when that has passed.
#[cfg(test)]
pub(crate) fn cannot_be_started(test: &str) -> bool {
    const MARK: &str = "PENSTOCK_TEST_WITHOUT_THREADS";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    alone.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    // No address space has room for such a stack.
    alone.env(MARK, "1").env("RUST_MIN_STACK", (1_u64 << 48).to_string());
    let ran = alone.output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success() && told.contains("1 passed"), "{told}");
    false
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Promise: where no thread can be started, work is done all the same, once.
    #[test]
    fn work_is_done_where_no_thread_can_be_started() {
        if !cannot_be_started(
            "stores::worker_pool::tests::work_is_done_where_no_thread_can_be_started",
        ) {
            return;
        }
        assert!(Builder::new().spawn(|| ()).is_err());
        let done = AtomicUsize::new(0);
        let work = || {
            done.fetch_add(1, Ordering::Relaxed);
        };
        at_once(8, &work);
        assert_eq!(done.load(Ordering::Relaxed), 1);
        at_once(0, &work);
        assert_eq!(done.load(Ordering::Relaxed), 1);
    }
}
