//! Detects times in which the machine paused, or let this process wait: a time limit does not judge
//! the tested program then.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time of each sleep; any longer duration is lateness.
const TICK: Duration = Duration::from_millis(50);
/// Lateness that every machine has now and then.
const USUAL: Duration = Duration::from_millis(200);

/// Share of their time that processors must have been idle before a missed time limit counts as a
/// fault: otherwise the tested program may have waited for a processor.
const IDLE_LEAST: f64 = 0.1;

/// Returns the CPU time of this machine in ticks: all, and idle.
pub fn cpu_time() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (ticks.iter().sum(), ticks.get(3).copied().unwrap_or(0) + ticks.get(4).copied().unwrap_or(0))
}

/// A moment from which something may take so long.
pub struct Moment {
    /// The moment by the clock of this process.
    pub at: Instant,
    /// Milliseconds since 1970, as events have them.
    ms: u64,
    cpu: (u64, u64),
}

impl Moment {
    /// Returns this moment.
    pub fn now() -> Self {
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        Self { at: Instant::now(), ms, cpu: cpu_time() }
    }

    /// Returns the share of the time since then in which processors were idle.
    pub fn idle(&self) -> f64 {
        let (all, idle) = cpu_time();
        idle.saturating_sub(self.cpu.1) as f64 / (all - self.cpu.0).max(1) as f64
    }

    /// Asserts that something took no longer than `most` since then, and returns how long. It is
    /// not judged, and printed, if it took longer while all processors were at work.
    pub fn assert_within(&self, most: Duration, what: &str) -> Duration {
        let (took, idle) = (self.at.elapsed(), self.idle());
        if took > most && idle < IDLE_LEAST {
            println!("NOT JUDGED: {what} took {took:?}, as all processors were at work");
        } else {
            assert!(took <= most, "{what} took {took:?}");
        }
        took
    }
}

/// A thread that sleeps and wakes, and keeps when it woke late.
pub struct Still {
    late: Arc<Mutex<Vec<(Instant, Instant)>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Still {
    /// Looks from now on.
    pub fn watch() -> Self {
        let (late, over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (kept, ends) = (Arc::clone(&late), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Acquire) {
                let due = Instant::now() + TICK;
                std::thread::sleep(TICK);
                let now = Instant::now();
                if now > due + USUAL {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push((due, now));
                }
            }
        });
        Self { late, over, thread: Some(thread) }
    }

    /// Returns the time between two moments in which nothing could run; prints it if there is any.
    pub fn between(&self, from: Instant, to: Instant) -> Duration {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let within = late
            .iter()
            .map(|(began, ended)| (*ended).min(to).saturating_duration_since((*began).max(from)));
        let still = within.sum::<Duration>();
        if !still.is_zero() {
            println!("NOT JUDGED: {still:?} of {:?}, in which this machine stood still", to - from);
        }
        still
    }

    /// Asserts that an event, received just now, followed a moment within the limit, less the time
    /// in which nothing could run.
    pub fn assert_soon(&self, from: &Moment, event_ms: u64, most: Duration) {
        let idle = from.idle();
        let took = Duration::from_millis(event_ms.checked_sub(from.ms).expect("it came before"));
        println!("{:.1} s after; processors idle {:.0} %", took.as_secs_f64(), idle * 100.0);
        if took <= most {
            return;
        }
        let took = took.saturating_sub(self.between(from.at, from.at + took));
        if took > most && idle < IDLE_LEAST {
            println!("NOT JUDGED: {took:?}, as all processors were at work");
            return;
        }
        assert!(took <= most, "{took:?} after");
    }

    /// Returns the time since a moment, but for that in which nothing could run.
    pub fn elapsed(&self, from: Instant) -> Duration {
        let now = Instant::now();
        (now - from).saturating_sub(self.between(from, now))
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
