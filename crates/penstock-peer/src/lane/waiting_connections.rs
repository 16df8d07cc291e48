//! Connections that are dialled ahead and wait for a lane.

use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_engine::paths::PathEnds;
use penstock_net::{Dialled, SocketOptions};
use penstock_proto::id::Name;

use crate::lane::path_notes::{Key, key_of};

/// Connections that are coming, or there, and that no lane has.
#[derive(Default)]
pub(crate) struct WaitingConnections {
    coming: Mutex<Coming>,
}

#[derive(Default)]
pub(super) struct Coming {
    pub(super) next: u64,
    pub(super) all: Vec<(u64, Key, Receiver<Dialled>)>,
}

impl WaitingConnections {
    pub(super) fn lock(&self) -> MutexGuard<'_, Coming> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection that was dialled ahead between these ends. It gets `options`, as if
    /// dialled now, and is to be open within `most`. Blocks until the connection has been made, for
    /// at most half of `most`.
    ///
    /// # Errors
    /// No usable connection exists: the rest of `most`.
    pub(crate) fn take(
        &self,
        site: &Name,
        ends: &PathEnds,
        most: Duration,
        options: &SocketOptions,
    ) -> Result<Dialled, Duration> {
        let (began, key) = (Instant::now(), key_of(site, ends));
        let left = || most.saturating_sub(began.elapsed());
        let coming = {
            let mut coming = self.lock();
            let at = coming.all.iter().position(|(_, of, _)| *of == key).ok_or(most)?;
            coming.all.remove(at).2
        };
        let made = coming.recv_timeout(most / 2).map_err(|_| left())?;
        // The source may have been restarted since.
        made.go_on(left(), options).map_err(|_| left())
    }

    /// Returns how many connections no lane has taken.
    pub(crate) fn count(&self) -> usize {
        self.lock().all.len()
    }

    pub(super) fn forget(&self, number: u64) {
        self.lock().all.retain(|(coming, ..)| *coming != number);
    }
}
