//! The time of one thread of a transfer, by activity.
//!
//! The parts of a thread (its reader, its writer, its loop) share one [`ThreadTime`]. Each activity
//! costs two looks at the clock, some 50 ns, for a stride or a file. The thread hands the sums on a
//! few times a second, with the processor time that the kernel has counted meanwhile.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_net::LaneWork;
use penstock_proto::time_use::{Activity, TimeUse};
use penstock_sys::{ThreadTimes, thread_times};

/// Interval at which a thread hands its time on.
const SETTLE_INTERVAL: Duration = Duration::from_millis(250);

/// The time of a thread since it was handed on, which the parts of the thread share.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadTime(Rc<RefCell<TimeUse>>);

impl ThreadTime {
    /// Adds time to an activity.
    pub(crate) fn add(&self, activity: Activity, time: Duration) {
        self.0.borrow_mut().add(activity, nanoseconds(time));
    }

    /// Does some work, and adds its time to an activity, less the time that the work itself adds to
    /// others.
    pub(crate) fn measure_rest<T>(&self, activity: Activity, work: impl FnOnce() -> T) -> T {
        let before = self.0.borrow().accounted();
        let began = Instant::now();
        let done = work();
        let within = self.0.borrow().accounted().saturating_sub(before);
        self.add(activity, began.elapsed().saturating_sub(Duration::from_nanos(within)));
        done
    }

    /// Returns the added times, and resets them to zero.
    pub(crate) fn take(&self) -> TimeUse {
        self.0.borrow_mut().take()
    }

    /// Does some work, and adds its time to an activity.
    pub(crate) fn measure<T>(&self, activity: Activity, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.add(activity, began.elapsed());
        done
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Passes the time of the calling thread on, at intervals.
pub(crate) struct TimeKeeper {
    time: ThreadTime,
    settled: Instant,
    processor: ThreadTimes,
}

impl TimeKeeper {
    /// Begins to keep the time of the calling thread.
    pub(crate) fn new(time: &ThreadTime) -> Self {
        Self { time: time.clone(), settled: Instant::now(), processor: thread_times() }
    }

    /// Returns whether the time is to be handed on.
    pub(crate) fn is_due(&self) -> bool {
        self.settled.elapsed() >= SETTLE_INTERVAL
    }

    /// Returns all of the thread's time since the last call, less the time that counts `elsewhere`.
    /// The sum has the times that its parts have measured, the `work` within its lane, the rest,
    /// and the processor time.
    pub(crate) fn settle(&mut self, work: LaneWork, elsewhere: &TimeUse) -> TimeUse {
        let now = Instant::now();
        let passed = nanoseconds(now.duration_since(std::mem::replace(&mut self.settled, now)));
        let mut time = self.time.take();
        time.add(Activity::Seal, work.seal);
        time.add(Activity::Send, work.send);
        time.add(Activity::Receive, work.receive);
        time.add(Activity::Open, work.open);
        let counted = time.accounted().saturating_add(elsewhere.accounted());
        time.add(Activity::Other, passed.saturating_sub(counted));
        let used = thread_times();
        let before = std::mem::replace(&mut self.processor, used);
        time.add(Activity::Cpu, used.on_cpu.saturating_sub(before.on_cpu));
        time.add(Activity::CpuWait, used.waited.saturating_sub(before.waited));
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: all of a thread's time is accounted for, once, whichever of its parts has measured
    /// it; and the next account begins where this one ends.
    #[test]
    fn a_thread_accounts_for_all_of_its_time() {
        let time = ThreadTime::default();
        let began = Instant::now();
        let mut keeper = TimeKeeper::new(&time);
        let work = |most: Duration| {
            let began = Instant::now();
            while began.elapsed() < most {}
        };
        let most = Duration::from_millis(20);
        time.clone().measure(Activity::Read, || work(most));
        time.measure_rest(Activity::Metadata, || time.measure(Activity::Sync, || work(most)));
        work(most);
        let first = keeper.settle(LaneWork::default(), &TimeUse::default());
        for activity in [Activity::Read, Activity::Sync, Activity::Other] {
            assert!(first[activity] >= 20_000_000, "{activity:?}: {first:?}");
        }
        assert!(first[Activity::Metadata] < first[Activity::Sync], "{first:?}");
        time.add(Activity::Hash, Duration::ZERO);
        let second = keeper.settle(LaneWork::default(), &TimeUse::default());
        let passed = nanoseconds(began.elapsed());
        assert!(first.accounted() + second.accounted() <= passed);
        assert_eq!(second[Activity::Read], 0);
        assert!(!keeper.is_due());
    }
}
