//! Changes of this peer's stores: a store that disappears while it is in use, and its return.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use penstock_api::cluster::StoreCard;
use penstock_proto::id::Name;
use tokio::sync::watch;

use super::log::EventLog;
use crate::config::StoreConfig;
use crate::site::context::Site;
use crate::site::store_cards::store_cards;
use crate::site::store_look;

/// The interval at which stores are checked.
const LOOK: Duration = Duration::from_secs(2);

/// The object at a store's path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Sight {
    /// The path leads to nothing that can be read.
    #[default]
    Nothing,
    /// A directory with this inode number and no identity. A store gets one when it is first
    /// written to, so many sources have none.
    Directory(u64),
    /// An empty directory without an identity, as a mount point where nothing is mounted.
    Empty(u64),
    /// A store, by its identity.
    Store(String),
}

impl Sight {
    fn of(store: &StoreConfig, identity: String) -> Self {
        if !identity.is_empty() {
            return Self::Store(identity);
        }
        let Some(path) = store.directory() else { return Self::Nothing };
        let Ok(inode) = fs::metadata(&path).map(|root| root.ino()) else { return Self::Nothing };
        // A directory that may not be listed may have entries.
        let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if is_empty { Self::Empty(inode) } else { Self::Directory(inode) }
    }

    /// Returns whether the store that was seen as `before` is still present.
    fn is_there(&self, before: &Self) -> bool {
        match (before, self) {
            (_, Self::Store(_)) => true,
            _ => self.inode().is_some() && self.inode() == before.inode(),
        }
    }

    /// Returns the inode number of a directory without an identity.
    fn inode(&self) -> Option<u64> {
        match self {
            Self::Directory(inode) | Self::Empty(inode) => Some(*inode),
            Self::Nothing | Self::Store(_) => None,
        }
    }
}

impl EventLog {
    /// Checks this peer's stores at intervals until `stop` is true.
    pub(crate) fn watch_stores(self: &Arc<Self>, site: Arc<Site>, mut stop: watch::Receiver<bool>) {
        let log = Arc::clone(self);
        tokio::spawn(async move {
            let mut there: BTreeMap<Name, Sight> = BTreeMap::new();
            loop {
                let (stores, kept) = (site.stores(), Arc::clone(&log));
                let look = move || {
                    let cards = store_cards(&stores);
                    *kept.store_cards.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(cards.clone());
                    let sights = cards.into_iter().zip(stores).map(|(card, store)| {
                        let look = move || Sight::of(&store, card.identity);
                        let sight = store_look::within(&card.store, look).unwrap_or_default();
                        (card.store, sight)
                    });
                    sights.collect::<Vec<_>>()
                };
                let sights = tokio::task::spawn_blocking(look).await;
                for (store, sight) in sights.unwrap_or_default() {
                    log.see_store(&store, there.entry(store.clone()).or_default(), sight);
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    _ = stop.changed() => return,
                }
            }
        });
    }

    /// Returns the cards of this peer's stores as they were when they were looked at last; none
    /// before the first look. Blocks on nothing.
    pub(crate) fn store_cards(&self) -> Option<Vec<StoreCard>> {
        self.store_cards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether a store of this peer has disappeared, and has not returned.
    pub(crate) fn is_lost(&self, store: &Name) -> bool {
        let inner = self.lock();
        let last = inner.kept.iter().rev().find(|event| {
            event.peer == self.peer
                && event.kind.starts_with("store-")
                && event.subject == store.as_str()
        });
        last.is_some_and(|event| event.kind == "store-offline")
    }

    /// Takes note of how a store looks now; `before` is how it looked when it was there last.
    fn see_store(&self, store: &Name, before: &mut Sight, now: Sight) {
        let was_lost = self.is_lost(store);
        if now.is_there(before) {
            if was_lost {
                let text = format!("store `{store}` is back at this peer");
                self.add("store-back", store.as_str(), None, &text);
            }
            *before = now;
        } else if *before == Sight::Nothing {
            // A store that was lost before this daemon began has not come back as an empty
            // directory.
            if !(was_lost && matches!(now, Sight::Empty(_))) {
                *before = now;
            }
        } else if !was_lost {
            let what = match now {
                Sight::Nothing => "nothing can be read at its path",
                _ => "at its path is another directory, as after an unmount",
            };
            let text = format!(
                "store `{store}` is offline at this peer: {what}; transfers that use it wait, or \
                 continue at other peers"
            );
            self.add("store-offline", store.as_str(), None, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 5 (11), A5: a store that disappears is reported once, whether it has an identity or is
    /// a source that never got one. Its return is reported once too, in any form.
    #[test]
    fn a5_a_store_that_is_taken_away_is_told() {
        let (root, name) = (tempfile::tempdir().unwrap(), "data".parse().unwrap());
        let log = EventLog::read(root.path(), &"h1".parse().unwrap());
        let store = || Sight::Store("7f".to_owned());
        let kinds = |steps: Vec<Sight>| {
            let (mut before, told) = (Sight::default(), log.last(None, 100).len());
            steps.into_iter().for_each(|now| log.see_store(&name, &mut before, now));
            let new = log.last(None, 100).split_off(told);
            new.into_iter().map(|event| event.kind).collect::<Vec<_>>()
        };
        let both = ["store-offline", "store-back"];
        let directory = Sight::Directory;
        assert_eq!(kinds(vec![directory(5), directory(9)]), ["store-offline"]);
        assert!(log.is_lost(&name) && !log.is_lost(&"other".parse().unwrap()));
        assert_eq!(kinds(vec![directory(5), directory(5)]), ["store-back"]);
        assert!(!log.is_lost(&name));
        assert_eq!(kinds(vec![directory(5), directory(9)]), ["store-offline"]);
        let empty = || Sight::Empty(9);
        assert!(kinds(vec![empty(), empty(), empty()]).is_empty(), "a restart mounts nothing");
        assert!(log.is_lost(&name));
        assert_eq!(kinds(vec![empty(), directory(5), directory(5)]), ["store-back"]);
        assert!(kinds(vec![empty(), empty(), directory(9)]).is_empty(), "files in a new store");
        assert_eq!(kinds(vec![directory(5), directory(9), directory(9), directory(5)]), both);
        assert_eq!(kinds(vec![directory(5), store(), directory(9), store()]), both);
        assert_eq!(kinds(vec![store(), Sight::Nothing, directory(5), store()]), both);
        // The expected object is unknown.
        assert!(kinds(vec![Sight::Nothing, directory(5), directory(5)]).is_empty());
    }
}
