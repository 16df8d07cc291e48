//! Looks at the stores of this peer, and what they found last: no scrape waits for a store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_proto::id::Name;
use tokio::sync::watch;

use super::table::{STORE_FREE, STORE_LOOK, STORE_SIZE, STORE_UP};
use super::{Part, Samples};
use crate::config::StoreConfig;
use crate::site::store_look;

/// Interval of the looks.
const LOOK: Duration = Duration::from_secs(5);

/// What a look has found at a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    free: u64,
    size: u64,
    took: Duration,
}

/// The last look at each store; `None` where it found nothing, or has not come back in time.
#[derive(Debug, Default)]
pub(crate) struct StoreLooks(Mutex<BTreeMap<Name, Option<Room>>>);

impl StoreLooks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Option<Room>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at stores until `stop` changes, at each on its own: one that hangs delays no other.
    pub(crate) fn watch(self: &Arc<Self>, stores: &[StoreConfig], stop: &watch::Receiver<bool>) {
        for store in stores {
            let (looks, name) = (Arc::clone(self), store.name.clone());
            let (root, stop) = (store.directory(), stop.clone());
            tokio::spawn(looks.follow(name, root, stop));
        }
    }

    async fn follow(
        self: Arc<Self>,
        name: Name,
        root: Option<PathBuf>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = look.tick() => {}
            }
            let (store, root) = (name.clone(), root.clone());
            let found = tokio::task::spawn_blocking(move || match root {
                Some(root) => store_look::within(&store, move || room_at(&root)).flatten(),
                // In memory there is no end.
                None => Some(Room { free: u64::MAX, size: u64::MAX, took: Duration::ZERO }),
            });
            let found = found.await.ok().flatten();
            self.lock().insert(name.clone(), found);
        }
    }

    fn add(&self, samples: &mut Samples) {
        for (store, found) in &*self.lock() {
            let store = [store.as_str()];
            samples.flag(&STORE_UP, &store, found.is_some());
            if let Some(room) = found.filter(|room| room.size < u64::MAX) {
                samples.count(&STORE_FREE, &store, room.free);
                samples.count(&STORE_SIZE, &store, room.size);
                samples.add(&STORE_LOOK, &store, room.took.as_secs_f64());
            }
        }
    }
}

/// Returns the room that a user has at a directory (statvfs(3)); `None` if there is none.
fn room_at(root: &std::path::Path) -> Option<Room> {
    let asked = Instant::now();
    let found = rustix::fs::statvfs(root).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let (free, size) = (bytes(found.f_bavail), bytes(found.f_blocks));
    Some(Room { free, size, took: asked.elapsed() })
}

/// Returns the part of these looks.
pub(crate) fn part(looks: Arc<StoreLooks>) -> Part {
    Part::new("stores", move |samples| looks.add(samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a store that is there has room, and one that is not is down; both are told.
    #[tokio::test]
    async fn a_store_that_is_gone_is_down() {
        let here = tempfile::tempdir().unwrap();
        let there = here.path().display().to_string();
        let store =
            |name: &str, path: &str| StoreConfig::new(name.parse().unwrap(), path.to_owned());
        let gone = format!("{there}/gone");
        let stores = [store("raw", &there), store("lost", &gone), store("null", "null:")];
        let (looks, (_stop, stopped)) = (Arc::new(StoreLooks::default()), watch::channel(false));
        looks.watch(&stores, &stopped);
        while looks.lock().len() < stores.len() {
            tokio::task::yield_now().await;
        }
        let found = looks.lock().clone();
        let is_up = |name: &str| found[&name.parse::<Name>().unwrap()].is_some();
        assert!(is_up("raw") && is_up("null") && !is_up("lost"), "{found:?}");
        let mut samples = Samples::default();
        looks.add(&mut samples);
        assert!(format!("{samples:?}").contains(STORE_FREE.name));
    }
}
