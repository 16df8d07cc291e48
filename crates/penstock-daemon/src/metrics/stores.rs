//! Looks at the stores of this peer, and their last results: no scrape waits for a store.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_proto::id::Name;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::table::{STORE_FREE, STORE_LOOK, STORE_SIZE, STORE_UP};
use super::{Part, Samples};
use crate::config::StoreConfig;
use crate::site::store_look;

/// Interval of the looks.
const LOOK: Duration = Duration::from_secs(5);

/// The space of a file system, as it was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    free: u64,
    size: u64,
    took: Duration,
}

/// The last look at each store.
#[derive(Debug, Default)]
pub(crate) struct StoreLooks(Mutex<BTreeMap<Name, Followed>>);

/// A store that is looked at.
#[derive(Debug)]
struct Followed {
    /// Its loop of looks ends when this is dropped.
    _stays: watch::Sender<()>,
    /// The last look, once there was one; `None` within if it found no file system, or has not
    /// returned in time.
    last: Option<Option<Room>>,
}

impl StoreLooks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Followed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at these stores, and at no others, until `stop` changes, at each on its own: one that
    /// hangs delays no other.
    pub(crate) fn watch(
        self: &Arc<Self>,
        stores: &[StoreConfig],
        runtime: &Handle,
        stop: &watch::Receiver<bool>,
    ) {
        let mut followed = self.lock();
        followed.retain(|name, _| stores.iter().any(|store| store.name == *name));
        for store in stores {
            let Entry::Vacant(place) = followed.entry(store.name.clone()) else { continue };
            let (stays, gone) = watch::channel(());
            place.insert(Followed { _stays: stays, last: None });
            let (looks, name) = (Arc::clone(self), store.name.clone());
            runtime.spawn(looks.follow((name, store.directory()), gone, stop.clone()));
        }
    }

    async fn follow(
        self: Arc<Self>,
        (name, root): (Name, Option<PathBuf>),
        mut gone: watch::Receiver<()>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = gone.changed() => return,
                _ = look.tick() => {}
            }
            let (store, root) = (name.clone(), root.clone());
            let found = tokio::task::spawn_blocking(move || match root {
                Some(root) => store_look::within(&store, move || room_at(&root)).flatten(),
                // In memory there is no end.
                None => Some(Room { free: u64::MAX, size: u64::MAX, took: Duration::ZERO }),
            });
            let found = found.await.ok().flatten();
            let mut followed = self.lock();
            // Another one of this name may have taken its place.
            if gone.has_changed().is_err() {
                return;
            }
            if let Some(store) = followed.get_mut(&name) {
                store.last = Some(found);
            }
        }
    }

    fn add(&self, samples: &mut Samples) {
        for (store, followed) in &*self.lock() {
            let Some(found) = followed.last else { continue };
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

/// Returns the room that a user has at a directory (statvfs(3)); `None` if that cannot be read.
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

    /// Promise: a present store has room, and an absent one is down; both are reported. A store
    /// that leaves the configuration is no longer reported.
    #[tokio::test]
    async fn a_store_that_is_gone_is_down() {
        let here = tempfile::tempdir().unwrap();
        let there = here.path().display().to_string();
        let store =
            |name: &str, path: &str| StoreConfig::new(name.parse().unwrap(), path.to_owned());
        let gone = format!("{there}/gone");
        let stores = [store("raw", &there), store("lost", &gone), store("null", "null:")];
        let (looks, (_stop, stopped)) = (Arc::new(StoreLooks::default()), watch::channel(false));
        let watch = |stores: &[_]| looks.watch(stores, &Handle::current(), &stopped);
        watch(&stores);
        while looks.lock().values().any(|store| store.last.is_none()) {
            tokio::task::yield_now().await;
        }
        let is_up = |name: &str| {
            let looks = looks.lock();
            looks.get(&name.parse::<Name>().unwrap())?.last.map(|found| found.is_some())
        };
        assert_eq!(
            (is_up("raw"), is_up("null"), is_up("lost")),
            (Some(true), Some(true), Some(false))
        );
        let mut samples = Samples::default();
        looks.add(&mut samples);
        assert!(format!("{samples:?}").contains(STORE_FREE.name));
        watch(&stores[..1]);
        assert_eq!((is_up("raw"), is_up("lost")), (Some(true), None));
    }
}
