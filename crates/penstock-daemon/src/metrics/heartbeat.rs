//! Proof that the loops of the daemon move: each loop beats at each turn, and the daemon reports to
//! the watchdog of the service manager only while all of them beat.
//!
//! A loop that waits for work also beats, every [`BEAT`]. A silent thread is therefore stuck, never
//! idle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which an idle loop beats.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// The beats of one loop.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    began: Instant,
    /// Milliseconds from `began` to the last beat.
    beaten: Arc<AtomicU64>,
}

impl Heartbeat {
    fn new() -> Self {
        Self { began: Instant::now(), beaten: Arc::default() }
    }

    /// Marks that the loop has made a turn.
    pub(crate) fn beat(&self) {
        self.beaten.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let beaten = Duration::from_millis(self.beaten.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(beaten)
    }

    /// Waits for `work`, and beats meanwhile.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        self.beat();
        let mut beat = tokio::time::interval(BEAT);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => {
                    self.beat();
                    return done;
                }
                _ = beat.tick() => self.beat(),
            }
        }
    }
}

/// Returns the time since a loop moved; `None` while there is no such loop. It may block for as
/// long as the loop is stuck.
type Silence = Box<dyn Fn() -> Option<Duration> + Send + Sync>;

struct Watched {
    name: &'static str,
    patience: Duration,
    silence: Silence,
}

/// The loops that must move.
#[derive(Default)]
pub(crate) struct Heartbeats(Mutex<Vec<Arc<Watched>>>);

impl Heartbeats {
    /// Watches a loop from now on, which may be silent for `patience`. The loop beats with the
    /// returned value.
    pub(crate) fn watch(&self, name: &'static str, patience: Duration) -> Heartbeat {
        let heartbeat = Heartbeat::new();
        let seen = heartbeat.clone();
        self.watch_by(name, patience, move || Some(seen.silence()));
        heartbeat
    }

    /// Watches a loop as [`Heartbeats::watch`] does, while `is_there` returns true.
    pub(crate) fn watch_while(
        &self,
        name: &'static str,
        patience: Duration,
        is_there: Arc<AtomicBool>,
    ) -> Heartbeat {
        let heartbeat = Heartbeat::new();
        let seen = heartbeat.clone();
        self.watch_by(name, patience, move || {
            is_there.load(Ordering::Acquire).then(|| seen.silence())
        });
        heartbeat
    }

    /// Watches a loop that is asked for its silence. The question may block while the loop is
    /// stuck.
    pub(crate) fn watch_by(
        &self,
        name: &'static str,
        patience: Duration,
        silence: impl Fn() -> Option<Duration> + Send + Sync + 'static,
    ) {
        let watched = Arc::new(Watched { name, patience, silence: Box::new(silence) });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
    }

    fn all(&self) -> Vec<Arc<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the silence of each loop, and the longest one that it may have. May block while one
    /// is stuck.
    pub(crate) fn silences(&self) -> Vec<(&'static str, Duration, Duration)> {
        let silence =
            |watched: Arc<Watched>| Some((watched.name, (watched.silence)()?, watched.patience));
        self.all().into_iter().filter_map(silence).collect()
    }

    /// Returns the loops that have been silent for longer than they may. May block while one is
    /// stuck.
    pub(crate) fn late(&self) -> Vec<&'static str> {
        let is_late = |watched: &Arc<Watched>| {
            (watched.silence)().is_some_and(|silence| silence > watched.patience)
        };
        self.all().iter().filter(|watched| is_late(watched)).map(|watched| watched.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a loop that does not beat within its patience is named; one that waits for work
    /// beats, and one that does not exist is not missed.
    #[tokio::test]
    async fn a_silent_loop_is_named() {
        let heartbeats = Heartbeats::default();
        let stuck = heartbeats.watch("stuck", Duration::ZERO);
        let idle = heartbeats.watch("idle", Duration::from_secs(3600));
        heartbeats.watch_by("absent", Duration::ZERO, || None);
        while stuck.silence() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert_eq!(heartbeats.late(), ["stuck"]);
        let waits = idle.during(std::future::pending::<()>());
        tokio::select! {
            biased;
            () = waits => unreachable!("nothing comes"),
            () = async {} => {}
        }
        assert!(idle.beaten.load(Ordering::Relaxed) >= 2);
        let silences = heartbeats.silences();
        let shown: Vec<_> = silences.iter().map(|(name, _, most)| (*name, *most)).collect();
        assert_eq!(shown, [("stuck", Duration::ZERO), ("idle", Duration::from_secs(3600))]);
    }
}
